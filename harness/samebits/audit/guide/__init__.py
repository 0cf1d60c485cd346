"""The parallelism guide as a calculator: is a layer bound by compute or by communication?

Arithmetic only; jax is imported only to compile a block for comparison with a prediction.
"""
