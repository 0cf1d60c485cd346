"""Readers of result documents: terminal, JSON, Markdown."""
