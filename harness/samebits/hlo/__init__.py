"""Optimised HLO as data: what a compiler made of a program, counted and put into a canonical form. No jax."""
