"""Searches for a cause, as pure functions: no git, no jax, no files but a journal. The caller knows what a point is."""
