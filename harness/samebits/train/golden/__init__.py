"""Goldens: accepted traces of training runs, how they are stored, accepted and checked."""
