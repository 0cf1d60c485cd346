"""Differences planted in compiled programs are where the first differing region says, and equal programs have none."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import pytest
from jax import lax

from samebits.compile import compared_case
from samebits.compile.compared_case import BEFORE, ENTRY, IN_REGION, WIDEST, first_difference
from samebits.compile.compiler import CompiledProgram, compile_program, lower
from samebits.compile.devices import target_mesh
from samebits.errors import CouldNotRun
from samebits.schema.program_facts import ProgramRegion, RegionLine
from tests.hlo.programs import V5E, needs_libtpu

Function = Callable[..., Any]


def optimized(function: Function, *, arguments: int = 2, target: str = "cpu", size: int = 8) -> CompiledProgram:
    types = [jax.ShapeDtypeStruct((size, size), jnp.float32)] * arguments
    lowered = lower(function, *types, mesh=target_mesh(target, "data*"), target=target, label="test")
    return compile_program(lowered, {})


def region_of(first: Function, second: Function, **where: Any) -> ProgramRegion | None:
    return first_difference(optimized(first, **where), optimized(second, **where))


def known(found: ProgramRegion | None) -> tuple[ProgramRegion, RegionLine]:
    assert found is not None
    first = found.first
    assert first is not None
    return found, first


def path(found: ProgramRegion) -> list[str]:
    return [part.name for part in found.levels]


def scanned(constant: float) -> Function:
    """A loop whose body holds a constant."""

    def whole(x: Any, y: Any) -> Any:
        return lax.scan(lambda carry, _: (jnp.sin(carry) @ carry * constant + y, None), x, None, length=3)[0]

    return whole


def test_a_constant_inside_a_loop_is_found_in_its_body() -> None:
    found, first = known(region_of(scanned(2.5), scanned(2.25)))
    assert path(found)[0] == ENTRY and any(name.startswith("body of while.") for name in path(found)), path(found)
    changed = [line for line in found.lines if line.kind == "changed"]
    assert first.kind == "changed" and "constant(2.5)" in (first.reference or ""), first
    assert "constant(2.25)" in (first.variant or "")
    inner = found.levels[-1]
    assert (inner.reference_only, inner.variant_only) == (len(changed), len(changed)) and found.more == 0


def test_operands_in_another_order() -> None:
    found, first = known(region_of(lambda x, y: jnp.sin(x) - jnp.cos(y), lambda x, y: jnp.cos(y) - jnp.sin(x)))
    assert first.kind == "changed" and first.reference != first.variant
    assert first.reference is not None and first.variant is not None
    names = [text[text.index("subtract(") :] for text in (first.reference, first.variant)]
    assert names == ["subtract(sine.1, cosine.1)", "subtract(cosine.1, sine.1)"]
    assert {line.reference for line in found.lines} >= {line.variant for line in found.lines if line.kind == "same"}


def test_an_instruction_more_at_the_end() -> None:
    """The reference's value is computed, and is the variant's result no more."""
    found, first = known(region_of(lambda x, y: jnp.sort(x @ y), lambda x, y: jnp.sort(jnp.sort(x @ y), axis=0)))
    (level,) = found.levels
    assert (level.name, level.variant_only - level.reference_only) == (ENTRY, 1)
    assert [line.kind for line in found.lines[:2]] == ["same", "same"], found.lines
    assert first.reference is not None and first.reference.startswith("ROOT sort.1 = ")
    assert first.variant is not None and first.variant.startswith("sort.")


def test_another_argument_is_another_program() -> None:
    """Compiled, both take one parameter: jit drops the unused argument and renumbers the other."""
    found, _ = known(region_of(lambda x, y: jnp.sin(x), lambda x, y: jnp.sin(y)))
    texts = [text or "" for line in found.lines for text in (line.reference, line.variant)]
    assert any(text.startswith("argument.0 = ") for text in texts)
    assert any(text.startswith("argument.1 = ") for text in texts)


@pytest.mark.parametrize(
    "other",
    [lambda a, b: scanned(2.5)(a, b), lambda x, y: scanned(2.5)(x * 1, y)],
    ids=["names", "a product that compilers drop"],
)
def test_equal_programs_have_no_region(other: Function) -> None:
    assert region_of(scanned(2.5), other) is None


def test_what_the_text_does_not_show_is_named() -> None:
    """Large constants are printed as `{...}`: the texts are the same, and the values are not."""
    table = jnp.arange(64, dtype=jnp.float32).reshape(8, 8)

    def plus(constants: Any) -> Function:
        return lambda x, y: jnp.sort(x) + constants @ y

    _, first = known(region_of(plus(table), plus(table + 1)))
    texts = [(text or "").partition(" = ")[2] for text in (first.reference, first.variant)]
    assert texts[0] == texts[1] == "f32[8,8]{1,0} constant({...})"
    assert first.note is not None and "the contents of constants" in first.note


def deep(levels: int, axis: int) -> Function:
    """As many products in a row, of which each is an instruction of the entry."""

    def whole(x: Any, y: Any) -> Any:
        for _ in range(levels):
            x = jnp.sort(x @ y, axis=axis)
        return x

    return whole


@pytest.mark.slow
def test_a_region_is_bounded() -> None:
    """However much differs, and however long an instruction is."""
    found, first = known(region_of(deep(60, 1), deep(70, 0)))
    assert len(found.lines) <= 2 * IN_REGION and found.more > 50
    texts = [text for line in found.lines for text in (line.reference, line.variant) if text]
    assert max(map(len, texts)) <= WIDEST + 40
    assert found.lines.index(first) <= 2 * BEFORE
    assert len(msgspec.json.encode(found)) < 4 * IN_REGION * (WIDEST + 200)


def test_a_long_instruction_keeps_both_ends() -> None:
    def many(index: int) -> Function:
        return lambda x, y: [x + y] * index  # one kernel, and as many copies

    found, _ = known(region_of(many(29), many(30)))
    cut = [line.reference for line in found.lines if line.reference and " characters] " in line.reference]
    assert cut and all("tuple" in text for text in cut), found.lines


@pytest.mark.slow
def test_the_same_modules_give_the_same_region() -> None:
    found, _ = known(region_of(deep(12, 1), deep(12, 0)))
    assert region_of(deep(12, 1), deep(12, 0)) == found


def test_both_ways_round() -> None:
    """Exchanged sides give the mirror image."""
    there, back = (known(region_of(*pair))[0] for pair in ((deep(3, 1), deep(2, 1)), (deep(2, 1), deep(3, 1))))
    (ours,), (theirs,) = there.levels, back.levels
    assert (ours.reference_only, ours.variant_only) == (theirs.variant_only, theirs.reference_only)
    assert ours.variant_only < ours.reference_only and there.more == back.more


@needs_libtpu
def test_a_tpu_program_is_printed_too() -> None:
    found, first = known(region_of(scanned(2.5), scanned(2.25), target=V5E, size=128))
    assert len(found.levels) > 1 and first.reference is not None and "2.5" in first.reference
    sources = [line.reference_source or "" for line in found.lines]
    assert any("test_region.py" in source for source in sources), sources


def test_a_module_that_cannot_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread:
        @staticmethod
        def from_serialized_hlo_module_proto(serialised: bytes) -> None:
            raise ValueError("unknown opcode: from-the-future")

    monkeypatch.setattr(compared_case, "_module_class", lambda: Unread)
    with pytest.raises(CouldNotRun, match="jaxlib cannot print the compiled program"):
        region_of(deep(1, 1), deep(1, 0))
