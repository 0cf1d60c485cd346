"""The parallelism guide as a checker: is a layer bound by compute or by what it sends?

Numbers only; jax is imported where a block is compiled to hold a prediction against.
"""
