"""Calls of library functions with small arguments, found by trying: every public function of a module, with recipes.

A recipe is a tuple of arguments. The first one with which a function traces is taken; a function that none fits is
left out and counted. Functions that need particular arguments are in `PARTICULAR` of `jax_calls`.
"""

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from samebits.interpret.dead_code import live

Function = Callable[..., Any]

RNG = np.random.default_rng(3)
X = RNG.uniform(0.2, 0.9, (4, 4)).astype(np.float32)
Y = RNG.uniform(0.2, 0.9, (4, 4)).astype(np.float32)
V = RNG.uniform(0.2, 0.9, 4).astype(np.float32)
SPD = (X @ X.T + 4 * np.eye(4)).astype(np.float32)
I = RNG.integers(0, 4, (4, 4)).astype(np.int32)  # noqa: E741
N = RNG.integers(0, 4, 4).astype(np.int32)
B = RNG.integers(0, 2, (4, 4)).astype(bool)
Z = (X + 1j * Y).astype(np.complex64)

RECIPES: tuple[tuple[Any, ...], ...] = (
    (X,),
    (X, Y),
    (X, X, Y),
    (SPD,),
    (SPD, V),
    (V,),
    (V, V),
    (V, V, V),
    (X, N),
    (X, I),
    (I,),
    (I, I),
    (N, X),
    (B,),
    (B, X, Y),
    (X, 1),
    (X, 0),
    (1, X),
    (X, 1, 0),
    (X, (4, 4)),
    (X, (1, 0)),
    ((X, Y),),
    ([X, Y],),
    (Z,),
    (Z, Z),
    (4,),
    ((4, 4),),
    ((4, 4), 1.0),
    ("ij,jk->ik", X, Y),
    (1.0, 2.0),
    (X, X, X, X),
    (X, X, X, X, X),
)
"""Arguments that are tried in turn; arrays in them are traced, all else is static."""


@dataclass(frozen=True)
class LibraryCall:
    """A function with arguments: arrays and keys are traced."""

    name: str
    function: Function
    args: tuple[Any, ...]

    def program(self) -> Any:
        """The closed jaxpr of the call."""
        return jax.make_jaxpr(lambda leaves: self._called(leaves))(self.leaves())

    def gradient(self) -> Any | None:
        """The closed jaxpr of the gradient of the sum of its float outputs; None where there is none."""

        def loss(floats: Sequence[Any]) -> Any:
            leaves, rest = [], iter(floats)
            for leaf in self.leaves():
                leaves.append(next(rest) if _is_float(leaf) else leaf)
            outputs = [out for out in jax.tree.leaves(self._called(leaves)) if _is_float(out) or _is_complex(out)]
            return sum((jnp.sum(jnp.abs(out) if _is_complex(out) else out) for out in outputs), jnp.float32(0))

        floats = [leaf for leaf in self.leaves() if _is_float(leaf)]
        if not floats:
            return None
        try:
            return jax.make_jaxpr(jax.grad(loss))(floats)
        except Exception:  # many functions have no gradient, and say so in many ways
            return None

    def leaves(self) -> list[Any]:
        """The traced arguments."""
        return [leaf for leaf in jax.tree.leaves(self.args) if isinstance(leaf, np.ndarray | jax.Array)]

    def _called(self, leaves: Sequence[Any]) -> Any:
        rest = iter(leaves)
        flat, tree = jax.tree.flatten(self.args)
        args = [next(rest) if isinstance(leaf, np.ndarray | jax.Array) else leaf for leaf in flat]
        return [out for out in jax.tree.leaves(self.function(*jax.tree.unflatten(tree, args))) if hasattr(out, "dtype")]


def _is_float(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def _is_complex(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.complexfloating)


def of_module(
    module: ModuleType, prefix: str, particular: Mapping[str, tuple[Any, ...]], skip: frozenset[str]
) -> Iterator[LibraryCall]:
    """A call of each public function of a module that some arguments fit."""
    for name in sorted(getattr(module, "__all__", None) or dir(module)):
        function = getattr(module, name, None)
        if name.startswith("_") or name in skip or not callable(function) or inspect.isclass(function):
            continue
        full = f"{prefix}.{name}"
        for args in (particular[full],) if full in particular else RECIPES:
            call = LibraryCall(full, function, args)
            if _traces(call):
                yield call
                break


def _traces(call: LibraryCall) -> bool:
    """Whether a call traces to a program with an output."""
    try:
        return bool(call.program().out_avals)
    except Exception:  # arguments that do not fit are the rule here
        return False


def primitives(jaxpr: Any) -> Iterator[str]:
    """The names of the primitives of a program, those of its inner programs included."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from primitives(inner)


def programs(call: LibraryCall) -> Iterator[tuple[str, Any]]:
    """The program of a call and that of its gradient."""
    yield call.name, call.program()
    gradient = call.gradient()
    if gradient is not None:
        yield f"gradient of {call.name}", gradient


def produced(calls: Iterable[LibraryCall]) -> dict[str, list[str]]:
    """By primitive, the programs that it occurs in."""
    found: dict[str, list[str]] = defaultdict(list)
    for call in calls:
        for name, program in programs(call):
            for primitive in set(primitives(live(program).jaxpr)):
                found[primitive].append(name)
    return dict(sorted(found.items()))
