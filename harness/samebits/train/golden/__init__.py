"""Goldens: training runs that were accepted, and how they are checked."""
