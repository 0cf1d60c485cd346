"""Formats and bits: the floats of every dtype, equality by bits, distances, seeds."""
