"""A compiled program of a target under compiler options, beside what was written: the sides of `bisect flags --target`.

The judge is the one of `samebits compile --run`: what rounding explains does not count. As in the search for the
pass (`samebits.compile.executed`), what is less than half of the largest difference is not the one that is searched.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from samebits.bisect.flags import PRECISION, SIDES, RecompiledSides, digest_of, passes_of
from samebits.check.outcome import ProgramOutputs, compare_outputs
from samebits.check.run_points import run_points
from samebits.compile.blame import pass_of
from samebits.compile.compiler import compile_lowered
from samebits.compile.executed import programs_of
from samebits.errors import CouldNotRun
from samebits.hlo.module import HloModule
from samebits.numerics.bits import Leaf
from samebits.programs.catalogue import Locator
from samebits.programs.host_trees import HostTree, named_leaves
from samebits.programs.inputs import records
from samebits.programs.program_cache import Programs
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point

Array = Any


class TargetSides:
    """Compiles a program for a target under given options, and runs it on the inputs of its case."""

    def __init__(self, pair: Pair, point: Point, locator: Locator) -> None:
        self.case, self.programs = point.case, programs_of(pair)
        self.both = self.programs.both(point.case)
        self.records = records(pair, pair.case(point.case), point.dtype, MeshSpec.parse(point.mesh))
        self.written = self._outputs(self.programs.written)
        findings = run_points(pair, locator, [point], Programs(threads=1))
        self.wrong = [finding.place.leaf for finding in findings if finding.ruling.verdict == "different"]
        self.limits: dict[str, float] = {}

    def recompile(self, options: Mapping[str, str], *, collect: bool = False) -> RecompiledSides:
        """Compile and run the program.

        Args:
            collect: whether to name passes: the one that makes it wrong, or if that is not known all that changed it.

        Raises:
            CouldNotRun: the compiler rejects an option, or fails, or its program cannot be run.
        """
        if PRECISION in options:
            raise CouldNotRun(f"{PRECISION} is of jax, not of the compiler of a target")
        with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
            dumped = {"xla_dump_to": folder, "xla_dump_hlo_pass_re": ".*"} if collect else {}
            compiled = compile_lowered(self.both.lowered, {**self.programs.options, **options, **dumped})
            digest, passes = digest_of(compiled, Path(folder)), tuple(passes_of(Path(folder)))
        (module,) = compiled.runtime_executable().hlo_modules()
        program = replace(self.both.compiled, module=HloModule(module.as_serialized_hlo_module_proto()))
        self.programs.made[self.case] = replace(self.both, compiled=program)
        outputs = self._outputs(self.programs.compiled)
        self.programs.made[self.case] = self.both
        if not self.limits:
            self.limits = {leaf: _farthest(self.written, outputs, leaf) / 2 for leaf in self.wrong}
        faulty = self._faulty_pass() if collect else None
        seen = dict(zip(SIDES, (self.written, self._judged(outputs)), strict=True))
        return RecompiledSides(
            digests={SIDES[0]: "as written", SIDES[1]: digest},
            comparisons=compare_outputs(reference=seen[SIDES[0]], optimized=seen[SIDES[1]]),
            values=seen,
            passes=passes if faulty is None else (faulty,),
        )

    def oracle(self, label: str, leaf: str) -> tuple[Array, str]:
        """Say that there is none.

        Raises:
            CouldNotRun: always.
        """
        raise CouldNotRun(f"'{leaf}' at '{label}' is right as it was written")

    def _faulty_pass(self) -> str | None:
        record = next(iter(self.records.values()))
        for leaf in self.wrong[:1]:
            faulty = pass_of(self.programs, self.case, leaf, record)
            if faulty is not None and faulty.heals:
                return faulty.name
        return None

    def _outputs(self, run: Callable[..., Any]) -> ProgramOutputs:
        """Run a program on each input."""
        seen = ProgramOutputs(trees={}, repeats=True, layout={}, replicas=[])
        call = jax.jit(functools.partial(run, self.case))
        for label, record in self.records.items():
            tree = call(**record)
            leaves = {path: Leaf(array=np.asarray(leaf)) for path, leaf in named_leaves(tree, "forward").items()}
            structure = jax.tree.structure(tree)
            seen.trees[label] = HostTree(structure=str(structure), leaves=leaves, tree=structure)
        return seen

    def _judged(self, outputs: ProgramOutputs) -> ProgramOutputs:
        """Return outputs with what was written wherever they are near it."""
        trees = {}
        for label, tree in outputs.trees.items():
            written = self.written.trees[label].leaves
            leaves = {
                path: replace(leaf, array=_nearest(written[path].array, leaf.array, self.limits.get(path, math.inf)))
                for path, leaf in tree.leaves.items()
            }
            trees[label] = replace(tree, leaves=leaves)
        return replace(outputs, trees=trees)


def _apart(written: Array, output: Array) -> Array:
    kind = np.complex128 if written.dtype.kind == "c" else np.float64
    apart = np.abs(output.astype(kind) - written.astype(kind))
    return np.where(np.isnan(output) & np.isnan(written), 0.0, np.nan_to_num(apart, nan=np.inf))


def _nearest(written: Array, output: Array, limit: float) -> Array:
    return np.where(_apart(written, output) > limit, output, written)


def _farthest(written: ProgramOutputs, outputs: ProgramOutputs, leaf: str) -> float:
    sides = [
        (written.trees[label].leaves[leaf].array, tree.leaves[leaf].array) for label, tree in outputs.trees.items()
    ]
    return max(float(_apart(*arrays).max(initial=0.0)) for arrays in sides)
