"""Compiles both sides of a pair for a target, and compares the programs."""
