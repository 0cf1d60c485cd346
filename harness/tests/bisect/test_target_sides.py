"""`samebits bisect flags --target`: a planted compiler, and a fault of XLA:CPU from the command line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samebits.bisect import target_sides
from samebits.bisect.flags import NO_EFFECT, FlagsJudge
from samebits.bisect.target_sides import TargetSides
from samebits.compile.compiler import compile_lowered
from samebits.compile.executed import RunnableProgram
from samebits.errors import CouldNotRun
from samebits.programs.catalogue import Locator, load
from samebits.schema.point import Point
from tests.support.invoke import samebits

TARGET = "cpu:8"

REFERENCE = '''"""A part of the rows."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def part(x, start):
    """A part of the rows of x; the start may be out of range."""
    mesh = jax.sharding.get_abstract_mesh()
    rows = jax.lax.dynamic_slice(x, (start, 0), (48, 2))
    return rows if mesh.empty or "data" not in mesh.axis_names else jax.lax.with_sharding_constraint(rows, P("data"))
'''

OPTIMIZED = '''"""The same, clipped first."""

import jax
import jax.numpy as jnp


def clipped(x, start):
    """A part of the rows of x."""
    return jax.lax.dynamic_slice(x, (start.clip(0, 16), 0), (48, 2)) + 0 * jnp.sin(x[:48])
'''

SUITE = """from samebits import Arg, Case, Integers, Pair

LATE = Integers(low=17, high=64)
PAIR = Pair(
    name="part",
    reference="part",
    variants=("clipped",),
    args={"x": Arg(shape=(64, 2), spec=("data",)), "start": Arg(shape=(), dtype="int32", values=LATE)},
    cases=(Case(id="late"),),
    dtypes=("float32",),
    meshes=("data8",),
    modes=("auto",),
    gradients=False,
)
"""


def tree(root: Path) -> Path:
    for folder, text in (("reference_impls", REFERENCE), ("optimized_impls", OPTIMIZED)):
        (root / folder).mkdir()
        (root / folder / "part.py").write_text(text)
    (root / "suites").mkdir()
    (root / "suites" / "test_part.py").write_text(SUITE)
    return root


class PlantedCompiler:
    """Makes half of each output wrong unless option `healed` is there; option `broken` does not compile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.healed = False
        call = RunnableProgram.__call__

        def compiled(program: Any, options: Mapping[str, str]) -> Any:
            if "broken" in options:
                raise CouldNotRun("it does not compile")
            self.healed = "healed" in options
            return compile_lowered(program, {})

        def run(program: RunnableProgram, *flat: Any, **more: Any) -> list[Any]:
            outputs = call(program, *flat, **more)
            rounded = [output * np.float32(1 + 2**-22) for output in outputs]
            return rounded if self.healed else [output.at[:, :24].add(1) for output in rounded]

        monkeypatch.setattr(target_sides, "compile_lowered", compiled)
        monkeypatch.setattr(RunnableProgram, "__call__", run)


def test_the_judge_is_that_of_compiled_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PlantedCompiler(monkeypatch)
    locator = Locator(name="part", root=str(tree(tmp_path)), target=TARGET)
    pair, name = load(locator), "clipped_late_float32_data8_auto_forward"
    point = Point(variant="cpu_8", case=name, dtype="float32", mesh="none", mode="auto", direction="forward")
    sides = TargetSides(pair, point, locator)
    sides.locator = locator  # type: ignore[attr-defined]
    judge = FlagsJudge(sides, None)  # type: ignore[arg-type]
    wrong = judge(frozenset())
    assert (wrong.outcome, wrong.detail) == (
        "fail",
        "out: 48 of 96 elements differ by more than half of the largest difference (other)",
    )
    judge.leaf = "out"
    right = judge(frozenset({"healed=1"}))
    assert right.outcome == "pass" and f"out: as written, or rounding; {NO_EFFECT}" in right.detail
    assert judge(frozenset({"other=1"})).outcome == "fail"
    broken = judge(frozenset({"broken=1"}))
    assert broken.outcome == "untestable" and "it does not compile" in broken.detail
    precision = judge(frozenset({"jax_default_matmul_precision=highest"}))
    assert precision.outcome == "untestable" and "is of jax, not of the compiler of a target" in precision.detail
    with pytest.raises(CouldNotRun, match="is right as it was written"):
        sides.oracle("ordinary", "out")


def test_a_program_of_a_target_is_searched_from_the_command_line(tmp_path: Path) -> None:
    document, root = tmp_path / "found.json", tree(tmp_path)
    words = ("--target", TARGET, "--case", "late", "--variant", "part", "--root", root, "--json", document)
    ran = samebits("bisect", "flags", "part", *words)
    if ran.code == 0:
        return  # this version of XLA is right
    assert ran.code == 1, ran
    found = json.loads(document.read_text())
    name = "part_late_float32_data8_auto_forward"
    assert f"program '{name}' of part for {TARGET}" in json.dumps(found, ensure_ascii=False)
    assert f"bisect flags part --target {TARGET} --case {name}" in ran.out.replace("\n", " ")
    assert "xla_disable_hlo_passes=algsimp" in ran.out


def test_one_program_is_searched(tmp_path: Path) -> None:
    ended = samebits("bisect", "flags", "part", "--target", TARGET, "--case", "late", "--root", tree(tmp_path))
    assert ended.code == 2 and len(ended.lines) == 1
    names = "part_late_float32_data8_auto_forward, clipped_late_float32_data8_auto_forward"
    assert ended.lines[0].endswith(f"one program of {TARGET} is searched; give --case NAME, one of {names}")
