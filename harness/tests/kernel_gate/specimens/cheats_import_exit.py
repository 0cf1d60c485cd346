"""Ends the process where it is imported."""

import os

import jax

print('{"verdict": "same", "passed": true}', flush=True)
os._exit(0)


def exits_at_import(x: jax.Array) -> jax.Array:  # type: ignore[unreachable]
    return x
