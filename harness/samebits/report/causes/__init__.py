"""Failing results grouped by what most likely caused them."""
