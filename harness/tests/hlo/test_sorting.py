"""Comparisons of a TPU's sorts become keys, which sort as counting with the comparison itself does."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from samebits.compile.compiler import compile_artefact, lower
from samebits.compile.devices import target_mesh
from samebits.hlo import sorting
from samebits.hlo.as_jax import PartitionProgram
from samebits.hlo.module import HloModule, parse_module
from samebits.interpret.field.domain import Field
from samebits.interpret.field_proof.proof import attempt
from samebits.interpret.problem import Input, Question
from tests.hlo.programs import TPU7X, V5E, needs_libtpu
from tests.hlo.test_planted_modules import every

ROWS, SIZE = 8, 24
OTHERS = ("bfloat16", "int32", "uint8")
SORTS: dict[str, Callable[[Any], Any]] = {
    "sort": lambda x: [lax.sort(x)],
    "descending": lambda x: [jnp.sort(x, descending=True)],
    "argsort": lambda x: [jnp.argsort(x, descending=True), jnp.argsort(x)],
    "top k": lambda x: lax.top_k(x, 3),
    "all of top k": lambda x: lax.top_k(x, SIZE),
    "by several": lambda x: lax.sort((jnp.round(x), x, -x), num_keys=2),
}


def drawn(dtype: str, special: bool) -> Any:
    """Return rows with many ties, and zeros and NaNs of both signs where they are asked for."""
    random = np.random.default_rng(0)
    values = random.integers(1, 9, (ROWS, SIZE)).astype(np.float32)
    if jnp.issubdtype(dtype, jnp.floating):
        values *= random.choice([-1, 1], values.shape)
        if special:
            picked = random.choice(np.array([0, -0.0, np.nan, -np.nan, np.inf, -np.inf], np.float32), values.shape)
            values = np.where(random.random(values.shape) < 0.4, picked, values)
    return values.astype(jnp.dtype(dtype))


@functools.cache
def of_target(name: str, dtype: str, target: str) -> bytes:
    mesh = target_mesh(target, "context*")
    argument = jax.ShapeDtypeStruct((ROWS, SIZE), dtype, sharding=NamedSharding(mesh, PartitionSpec()))
    return compile_artefact(lower(SORTS[name], argument, mesh=mesh, target=target, label="a sort"), {}).module


def run(found: bytes, x: Any) -> list[np.ndarray[Any, Any]]:
    program = PartitionProgram(HloModule(found), [1])
    everything = [np.broadcast_to(x, (1, *x.shape))]
    return [np.asarray(output) for output in jax.jit(program.on_all)(*everything)]


def same_bits(first: Any, second: Any) -> bool:
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


def counting(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(sorting, "_keys", lambda computation, root: None)
    return monkeypatch


def edited(found: bytes, change: Callable[[Any], None]) -> bytes:
    parsed = parse_module(found)
    change(parsed)
    edited: bytes = parsed.SerializeToString()
    return edited


@needs_libtpu
@pytest.mark.parametrize("dtype", ["float32", *(pytest.param(kind, marks=pytest.mark.slow) for kind in OTHERS)])
@pytest.mark.parametrize("name", SORTS)
def test_keys_sort_as_the_comparison_does(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_target(name, dtype, V5E)
    module = HloModule(found)
    sorts = [inst for _, inst in module.instructions() if inst.opcode == "sort"]
    for inst in sorts:
        computation = module.computations[inst.called_computation_ids[0]]
        assert sorting._keys(computation, computation.root) is not None
    assert sorts or dtype != "float32"
    for special in (False, True):
        x = drawn(dtype, special)
        by_keys = run(found, x)
        with monkeypatch.context() as patched:
            counting(patched)
            assert same_bits(by_keys, run(found, x))


EDITS: dict[str, Callable[[Any], None]] = {
    "ties the other way": lambda module: _turn(module, "LT", "GT"),
    "the order turned": lambda module: _turn(module, "GT", "LT"),
    "another tie": lambda module: _turn(module, "EQ", "NE"),
    "bits turned by another number": lambda module: _set_constant(module, 2**31 - 1, 7),
    "from another sign on": lambda module: _set_constant(module, 0, 2**30),
}


def _turn(module: Any, before: str, after: str) -> None:
    """Turn the comparisons of the tie, or of the values."""
    for inst in every(module, "compare"):
        if inst.comparison_direction == before:
            inst.comparison_direction = after


def _set_constant(module: Any, before: int, after: int) -> None:
    for inst in every(module, "constant"):
        if list(inst.literal.s32s) == [before]:
            inst.literal.s32s[:] = [after]


@needs_libtpu
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_comparison_is_another_order(edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recognised as keys is what the comparison says, not what jax would have said."""
    found = of_target("all of top k", "float32", TPU7X)
    other = edited(found, EDITS[edit])
    x = drawn("float32", special=False)
    by_keys = run(other, x)
    assert not same_bits(by_keys, run(found, x))
    with monkeypatch.context() as patched:
        counting(patched)
        assert same_bits(by_keys, run(other, x))


@needs_libtpu
@pytest.mark.parametrize(("name", "zeros"), [("argsort", False), ("argsort", True), ("top k", False)])
def test_fields_decide_a_sort_of_a_tpu(name: str, zeros: bool) -> None:
    """The written one is a sort of numbers; so is that of the compiled module, where no bits are asked.

    A key of `jax.lax.sort` has one zero, so that zeros ask for no bits.
    """
    kept = np.arange(ROWS * SIZE).reshape(ROWS, SIZE) % 5 > 0 if zeros else np.ones((ROWS, SIZE), bool)

    def values(x: Any) -> Any:
        return jnp.where(kept, jnp.sin(x), 0)

    found = of_target(name, "float32", TPU7X)
    x = drawn("float32", special=False) + np.linspace(0, 0.5, ROWS * SIZE, dtype=np.float32).reshape(ROWS, SIZE)
    written = jax.make_jaxpr(lambda x: [output * 2 for output in SORTS[name](values(x))])(x)
    shown = {}
    for factor in (1.0, -1.0):

        def compiled(x: Any, factor: float = factor) -> list[Any]:
            outputs = PartitionProgram(HloModule(found), [1]).on_all((values(x) * factor)[None])
            return [output[0] * 2 for output in outputs]

        question = Question(written, jax.make_jaxpr(compiled)(x), [Input("x", x)], ["first", "second"])
        tried = attempt(question, Field(2), lambda *settings: Field(*settings), question.outputs)
        shown[factor] = [tried.proofs[output].equal for output in question.outputs]
    assert shown == {1.0: [True, True], -1.0: [False, False]}
