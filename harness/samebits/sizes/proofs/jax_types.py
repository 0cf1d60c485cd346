"""The arguments of a family as jax has them: types with symbols in their shapes, and sizes among static arguments."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import export

from samebits.sizes.proofs.family import Family, SizeOf


def jax_types(family: Family) -> tuple[list[Any], dict[str, Any]]:
    """The types of the arguments, and the static ones, with sizes as jax has them.

    Args:
        family: of shapes.
    """
    free = family.free
    symbols = {}
    if free:
        bounds = [f"{name} >= {low}" for name, low in free.items() if low > 1] + _of_products(family)
        symbols = dict(zip(free, export.symbolic_shape(",".join(free), constraints=bounds), strict=True))

    def size(text: str | int) -> Any:
        total: Any = 0
        for monomial, factor in family.sizes(text).terms:
            product: Any = factor
            for name in monomial:
                product = symbols[name] * product
            total = product + total
        return total

    types = [
        jax.ShapeDtypeStruct(tuple(size(text) for text in arg.shape), np.dtype(arg.dtype))
        for arg in family.args.values()
    ]
    statics = {name: size(value.text) if isinstance(value, SizeOf) else value for name, value in family.statics.items()}
    return types, statics


def _of_products(family: Family) -> list[str]:
    """That a product of sizes is at least any of its factors' products, which jax does not conclude by itself."""
    statics = [value.text for value in family.statics.values() if isinstance(value, SizeOf)]
    sizes = [family.sizes(text) for text in (*(size for arg in family.args.values() for size in arg.shape), *statics)]
    products = dict.fromkeys(monomial for size in sizes for monomial, _ in size.terms if len(set(monomial)) > 1)
    return [
        f"{'*'.join(monomial)} >= {'*'.join(name for place, name in enumerate(monomial) if place != left_out)}"
        for monomial in products
        for left_out in range(len(monomial))
    ]
