"""Readers of one result: terminal, JSON document, Markdown."""
