"""Families of shapes with symbols for sizes, and what is proved of them."""
