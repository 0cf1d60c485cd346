"""The interpreter and jax on the same program in float64, and which primitives it contains."""

import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from jax.extend.core import Primitive
from numpy.typing import NDArray

from samebits.check.shake import ShakeOption, why_not
from samebits.interpret.field_proof.proof import identity
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Input, Question
from tests.support.heap import whole_heap

CAREFUL: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_disable_hlo_passes": "fusion"}
"""Each program runs once, on a few numbers: most of its time is compiling. And fused by XLA:CPU, a
`dynamic_update_slice` may overwrite what it still reads its update from (openxla/xla issue 49176)."""

QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0}
"""Compiles in a quarter of the processor time: fewer kernels."""

WITHOUT_EMITTERS = ShakeOption(settings=(("xla_cpu_use_fusion_emitters", False),), moves="other loops")
"""Halves that again; some programs then have transposed outputs."""


@functools.cache
def _quick() -> dict[str, Any]:
    """The quickest options that this XLA accepts."""
    return QUICK if why_not(WITHOUT_EMITTERS) else {**QUICK, **dict(WITHOUT_EMITTERS.settings)}


def outcomes(lowered: Any, *args: Any) -> Iterator[list[NDArray[Any]]]:
    """What jax computes, compiled quickly; then, for those who do not agree with that, compiled carefully.

    The quick options make a few programs wrong. Who agrees with either is right: no fault predicts such outputs.
    """
    for options in (_quick(), CAREFUL):
        yield [np.asarray(out) for out in jax.tree.leaves(lowered.compile(compiler_options=options)(*args))]


def run(function: Callable[..., Any], *args: Any) -> Any:
    """What jax computes, as NumPy arrays."""
    compiled = jax.jit(function).lower(*args).compile(compiler_options=CAREFUL)
    return jax.tree.map(np.asarray, compiled(*args))


class Recording(Interpreter):
    """A float64 interpreter that records the names of the primitives it met."""

    def __init__(self, platform: str | None = None) -> None:
        super().__init__(Oracle(), platform)
        self.met: set[str] = set()

    def equation(self, eqn: Any, values: list[Any], axes: Any) -> Any:
        self.met.add(eqn.primitive.name)
        return super().equation(eqn, values, axes)


def host(arg: Any) -> Any:
    """An argument as a NumPy array; random keys as they are."""
    is_key = hasattr(arg, "dtype") and jax.numpy.issubdtype(arg.dtype, jax.dtypes.prng_key)
    return arg if is_key else np.asarray(arg)


def data(arg: Any) -> Any:
    """An argument of a question: random keys as their data."""
    found = host(arg)
    return found if isinstance(found, np.ndarray) else np.asarray(jax.random.key_data(arg))


def interpreted(
    function: Callable[..., Any], *args: Any, platform: str | None = None
) -> tuple[list[Any], Any, set[str]]:
    """What the interpreter makes of a program in float64, the program as jax lowers it, and the primitives met."""
    interpreter, traced = Recording(platform), jax.jit(function).trace(*args)
    return interpreter(traced.jaxpr, *map(host, jax.tree.leaves(args))), traced.lower(), interpreter.met


def check(function: Callable[..., Any], *args: Any, platform: str | None = None) -> set[str]:
    """Compare the interpreter with jax on a program in float64."""
    with jax.enable_x64(True):
        values, lowered, met = interpreted(function, *args, platform=platform)
        apart: list[str] = []
        for outputs in outcomes(lowered, *args):
            pairs = enumerate(zip(values, outputs, strict=True))
            apart = [f"output {n}: {one!r} is not {other!r}" for n, (one, other) in pairs if not agree(one, other)]
            if not apart:
                break
    assert not apart, apart[0]
    return met


def agree(found: Any, expected: NDArray[Any], precision: float = 1e-12) -> bool:
    """Integers exactly; floats up to a relative error of the largest one; NaN and infinities in the same places."""
    if found.shape != expected.shape or found.dtype.kind != expected.dtype.kind:
        return False
    if expected.dtype.kind != "f":
        return bool(found.dtype == expected.dtype and np.array_equal(found, expected))
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True) or not np.isfinite(found[finite]).all():
        return False
    largest = max(1.0, float(np.abs(expected[finite]).max(initial=0)))
    return float(np.abs(found[finite] - expected[finite]).max(initial=0)) <= precision * largest


def missing(names: Iterable[str], met: set[str]) -> list[str]:
    """Names of a table that no program met; those of primitives that other versions of jax have do not count."""
    with whole_heap():
        known = {one.name for one in gc.get_objects() if issubclass(type(one), Primitive)}
    assert {"add", "scan", "ppermute"} <= known
    return sorted(set(names) & known - met)


def asked(
    reference: Callable[..., Any], variant: Callable[..., Any], *args: Any, index_operands: Sequence[int] = ()
) -> Question:
    """The question whether two functions are the same."""
    inputs = [Input("xyzw"[number], data(array), number in index_operands) for number, array in enumerate(args)]
    first, second = (jax.make_jaxpr(side)(*args) for side in (reference, variant))
    names = [f"out{number}" if number else "out" for number in range(len(first.out_avals))]
    return Question(first, second, inputs, names)


def compared(first: Callable[..., Any], second: Callable[..., Any], *args: Any) -> str:
    """What the fields say of two functions: `equal`, `undecided` or `different`, the last where any output is."""
    proofs = identity(asked(first, second, *args)).values()
    if all(proof.equal for proof in proofs):
        return "equal"
    return "undecided" if all(proof.equal or proof.undecided for proof in proofs) else "different"


def answers(answer: str, cases: Mapping[str, Sequence[Any]], *args: Any) -> Callable[[str], None]:
    """Make the test that the fields say this of pairs of functions, at these arguments or at their own."""

    @pytest.mark.parametrize("name", cases)
    def test(name: str) -> None:
        first, second, *own = cases[name]
        assert compared(first, second, *(own[0] if own else args)) == answer

    return test
