"""The line or the instruction that is named first for planted faults, of all that is planted."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import samebits
from samebits.compile import executed
from samebits.compile.blame import WRITTEN
from samebits.hlo.module import HloModule
from tests.compile.named_first import edits_of, is_right, run, shares
from tests.compile.planted_shardings import PLANTED
from tests.hlo.programs import needs_libtpu

pytestmark = pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # inputs near the end of the range

QUICK = ("a wrong axis", "position ids of the wrong shard")
"""A collective, and a constant that differs between devices."""


@pytest.mark.parametrize("name", QUICK)
def test_the_line_of_a_sharding_fault_is_named_first(name: str) -> None:
    wrong, right = (run(name, fault, "cpu:8") for fault in (True, False))
    assert wrong.verdict == "different" and is_right(wrong), wrong
    assert [note for note in wrong.notes if note.endswith(WRITTEN)], wrong.notes
    assert right.ok, right


@needs_libtpu
@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_sharding_fault_is_different_and_its_twin_is_not(name: str) -> None:
    assert run(name, True).verdict == "different"
    assert run(name, False).ok, run(name, False)


@needs_libtpu
@pytest.mark.slow
def test_lines_of_sharding_faults_are_right_in_four_of_five() -> None:
    wrong = {name: run(name, True).leaves[0].named for name in PLANTED if not is_right(run(name, True))}
    assert len(wrong) * 5 <= len(PLANTED), wrong


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu:8", pytest.param("tpu7x:2x2x1", marks=needs_libtpu)])
def test_edited_instructions_are_named_first_in_four_of_five(target: str) -> None:
    edits = edits_of(target)
    table = shares(edits)
    assert len(edits) >= 60 and sum(edit.right for edit in edits) * 5 >= len(edits) * 4, table


def mean_of_products(x: Any, w: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ w), axis=0)


def replaced(opcode: str, other: str) -> Callable[[HloModule], None]:
    def edit(module: HloModule) -> None:
        for _, inst in module.instructions():
            if inst.opcode == opcode:
                inst.opcode = other
                if other == "copy":
                    del inst.called_computation_ids[:]

    return edit


@pytest.mark.parametrize(("opcode", "other"), [("all-reduce", "copy"), ("tanh", "sine")])
def test_an_instruction_of_the_compiler_is_named(opcode: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written is right, and so is every module between passes."""

    class Edited(HloModule):
        def __init__(self, serialised: bytes) -> None:
            super().__init__(serialised)
            replaced(opcode, other)(self)

    monkeypatch.setattr(executed, "HloModule", Edited)
    x, w = (np.linspace(-2, 2, 16 * 8).reshape(shape).astype(np.float32) for shape in ((16, 8), (8, 16)))
    compared = samebits.run_compiled(
        mean_of_products, x, w, target="cpu:8", mesh="d*", specs=(P("d"), P(None)), gradients=False
    )
    assert compared.verdict == "different"
    first = compared.leaves[0].named.lines[0]
    named = first.variant_code or first.reference_code
    assert f"= {opcode if not first.variant_code else other} " in named, compared.leaves[0].named
    assert [note for note in compared.notes if "the last pass with a module, and wrong in the end" in note]


def rotated_twice(x: Any) -> Any:
    """Keep the last row of a sharded array before and after its rows moved by one, as a pipeline of stages does."""
    x = jnp.tanh(jax.lax.with_sharding_constraint(x, P("d")))
    kept = jnp.zeros_like(x).at[0].set(x[-1])
    x = jnp.tanh(jax.lax.with_sharding_constraint(jnp.roll(x, 1, axis=0), P("d")))
    return kept.at[1].set(x[-1])


@needs_libtpu
@pytest.mark.slow
@pytest.mark.skipif(not version("libtpu").startswith("0.0.42."), reason="the fault of this libtpu")
def test_a_rotation_of_stages_loses_negative_numbers() -> None:
    """The partitioner takes a row that is padded with zeros for one that is padded with minus infinity."""
    negative, positive = (np.linspace(-2, -1, 32, dtype=np.float32).reshape(4, 8) * sign for sign in (1, -1))
    wrong, right = (
        samebits.run_compiled(
            rotated_twice, x, target="v5p:2x2x1", mesh="d*", specs=(P(),), gradients=False, exactly=("x",)
        )
        for x in (negative, positive)
    )
    assert wrong.verdict == "different" and right.ok, (wrong, right)
    assert [note for note in wrong.notes if "wrong in the first module that can be run" in note], wrong.notes
