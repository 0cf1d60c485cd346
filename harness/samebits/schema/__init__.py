"""Frozen records, no jax: what is declared, what was asked for, what was found."""
