"""The plain side of every pair: one module per pair, found by its name. Imports jax and nothing of ours."""
