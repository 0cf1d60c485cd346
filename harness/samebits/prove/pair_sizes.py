"""A point of a pair for all sizes: its declared arguments with symbols for the sizes of the case.

The reference runs on one device and the variant on the mesh of the point, as in proofs of one shape. The number of
devices is that of the mesh; every other size of the case is a symbol, but for those that a side's code needs as numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from samebits.errors import NotCovered
from samebits.programs.implementations import implementation
from samebits.programs.inputs import arg_dtype, differentiable
from samebits.programs.side_call import side_call
from samebits.prove.all_sizes import Function, SizesProof, prove_all_sizes
from samebits.prove.size_family import Family, Shaped, traced
from samebits.prove.size_of_case import polynomial_of, with_symbols
from samebits.schema.case import Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair


@dataclass(frozen=True, slots=True)
class PairProof:
    """What is shown of a point of a pair.

    Args:
        proof: of the whole family.
        shapes: by argument, its shape as a text of symbols.
        fixed: the sizes that are numbers, because code of a side needs them.
    """

    proof: SizesProof
    shapes: Mapping[str, str]
    fixed: Mapping[str, int]


def prove_pair(pair: Pair, variant: str, case: Case, mesh: MeshSpec, dtype: str, direction: str) -> PairProof:
    """Prove a point of a pair for all sizes of its case.

    Args:
        pair, variant, case, mesh, dtype, direction: the point.
    """
    reasons = []
    for fixed in _choices(tuple(case.sizes)):
        functions, family = _family(pair, variant, case, mesh, (dtype, fixed))
        try:
            for function in functions:
                traced(function, family, direction)
        except NotCovered as error:
            reasons.append(str(error))
            continue
        proof = prove_all_sizes(*functions, family, direction)
        return PairProof(proof, _shapes(family), {name: case.sizes[name] for name in fixed})
    return PairProof(SizesProof("undecided", reason=reasons[0]), {}, {})


def _choices(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The sizes to fix, as few as possible."""
    return itertools.chain.from_iterable(itertools.combinations(names, count) for count in range(len(names)))


def _shapes(family: Family) -> dict[str, str]:
    return {name: f"{arg.dtype}[{', '.join(map(str, arg.shape))}]" for name, arg in family.args.items()}


def _family(
    pair: Pair, variant: str, case: Case, mesh: MeshSpec, choice: tuple[str, Iterable[str]]
) -> tuple[tuple[Function, Function], Family]:
    dtype, fixed = choice
    symbolic = with_symbols(case, fixed)
    args = pair.arguments(symbolic, mesh)
    shaped = {
        name: Shaped(
            tuple(str(polynomial_of(symbolic.sizes[size] if isinstance(size, str) else size)) for size in arg.shape),
            arg_dtype(arg, dtype).name,
        )
        for name, arg in args.items()
    }
    family = Family(
        symbols={name: 1 for name in case.sizes if name not in fixed},
        args=shaped,
        differentiable=differentiable(args, dtype),
    )
    built = mesh.abstract("auto")
    sides = ((pair.reference_name, None), (variant, built))
    reference, other = (_function(pair, side, symbolic, mesh, on) for side, on in sides)
    return (reference, other), family


def _function(pair: Pair, side: str, case: Case, mesh: MeshSpec, built: Any) -> Callable[..., Any]:
    """A side as a function of the arrays of a case, in the order of its arguments."""
    call = side_call(pair, side, implementation(pair, side), case, mesh, built)
    names = tuple(pair.arguments(case, mesh))

    def function(*arrays: Any) -> Any:
        return call(dict(zip(names, arrays, strict=True)))

    if built is None:
        return function

    def on_mesh(*arrays: Any) -> Any:
        import jax

        with jax.sharding.use_abstract_mesh(built):
            return function(*arrays)

    return on_mesh
