"""What is known of a point beyond its bits: proofs, and where bits differ, whether that is rounding.

Proof comes first, from walking both programs; the float64 walks then say how large the errors are and may be. What
cannot be walked, as a Pallas kernel, is executed in float64 and at three precisions instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from samebits.check.execution import Execution, Job
from samebits.check.further_draws import Draws
from samebits.check.outcome import Seen
from samebits.check.precision_ladder import LAST, Rungs, fixed, rungs
from samebits.check.rounding import Evidence, gather_evidence
from samebits.check.sample import Sample
from samebits.errors import CouldNotRun, NotCovered, one_line
from samebits.hlo.canonical import identity
from samebits.hlo.module import Module
from samebits.host.cache_keys import ByIdentity, digest_of
from samebits.interpret.field_proof.assumptions import of_movement
from samebits.interpret.field_proof.float64_noise import Excuses, floor_of
from samebits.interpret.field_proof.proof import Identity
from samebits.interpret.machine_independence.proof import Independence, settled_everywhere
from samebits.interpret.problem import Question
from samebits.interpret.rounding_error.culprit import loses_most, tie
from samebits.interpret.rounding_error.estimate import Judged, judge_program
from samebits.numerics import floats
from samebits.numerics.bits import Comparison, same_bits, witness_at
from samebits.prove.prover import Prover, Unproved
from samebits.schema.assumption import words_of
from samebits.schema.domain import Needed
from samebits.schema.point import Point

GRAVE = frozenset({"structure", "dtype", "weak type", "shape", "NaN vs number", "overflow to infinity", "NaN payload"})
"""Kinds of difference that no rounding makes."""

FINER = 8
"""Binary digits that an ideal value must have beyond those of the output: float32 is one for bfloat16 and float16."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What the labels prove of a point: by leaf, what its inputs must promise; and the words of what it assumes."""

    holds: bool = False
    promises: Mapping[str, tuple[Needed, ...]] = field(default_factory=dict)
    routing: tuple[str, ...] = ()
    assumed: str = ""


class Judge:
    """Proofs and measurements of the points of one pair.

    Args:
        execution: what runs programs, for what cannot be walked.
    """

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.platform = jax.default_backend()
        self.prover = Prover(execution.sides, self.platform)
        self.draws = Draws(execution, self.prover, self.platform)
        self._judged: dict[tuple[ByIdentity, str], Judged] = {}
        self._everywhere: tuple[Job | None, dict[str, Independence] | str] = (None, {})
        self._asked: tuple[Job | None, dict[str, Question]] = (None, {})

    def moved(self, job: Job) -> Moved:
        """Whether labels prove every leaf of a point, for the routing of each of its records."""
        promises: dict[str, tuple[Needed, ...]] = {}
        asked, products = None, False
        for asked in self._questions(job).values():
            found = self.prover.movement(asked)
            if isinstance(found, Unproved) or not all(one.equal for one in found.values()):
                return Moved()
            for leaf, one in found.items():
                promises[leaf] = tuple(dict.fromkeys((*promises.get(leaf, ()), *one.promises)))
                products = products or one.products
        routing = asked.routing if asked is not None else ()
        return Moved(asked is not None, promises, routing, words_of(of_movement(None, routing, products)))

    def same_program(self, job: Job) -> bool:
        """Whether the reference alone and the variant on its mesh are compiled to one and the same program.

        It is a reason for equal bits that does not depend on the processor: the programs are equal after XLA's passes
        and before code is generated, and what makes two programs one (inlining, the removal of common subexpressions
        and of what nothing uses) does not look at the instruction set. It is known of this backend and version of XLA.

        Only on a mesh of one device can they be: what is split over devices holds other shapes. A backend that does not
        hand out its programs, or in a form that is not understood, proves nothing: the verdict falls to the rung below.
        Nor does a program that calls back into Python, of which only the address is there to compare.
        """
        sides = [job.programs[name] for name in ("alone", "variant")]
        if job.on_mesh.mesh.devices > 1 or any(side.calls_python for side in sides):
            return False
        if sides[0].captured != sides[1].captured:
            return False
        digests = set()
        try:
            for side in sides:
                (module,) = side.result().runtime_executable().hlo_modules()
                digests.add(identity(Module(module.as_serialized_hlo_module_proto()), one_device=True).ordered)
        except (CouldNotRun, RuntimeError, ValueError):
            return False
        return len(digests) == 1

    def everywhere(self, job: Job, path: str) -> Independence:
        """Whether the bits of a leaf are the same on every machine, on both sides and at every input of a point."""
        if self._everywhere[0] is not job:
            try:
                self._everywhere = job, settled_everywhere(list(self._questions(job).values()))
            except NotCovered as error:
                self._everywhere = job, str(error)
        found = self._everywhere[1]
        if isinstance(found, str):
            return Independence(False, found)
        return found.get(path, Independence(False, "the outputs are another tree"))

    def identity(self, job: Job, path: str) -> Identity | Unproved:
        """Whether a leaf is the same formula on both sides, at the routing of the ordinary record."""
        questions = self._questions(job)
        found = self.prover.identity(questions[next(iter(questions))])
        if isinstance(found, Unproved):
            return found
        # A variant whose outputs are another tree is compared as a whole; the proof knows the reference's leaves.
        return found.get(path, Unproved("the outputs are another tree"))

    def evidence(self, job: Job, path: str, comparison: Comparison, alone: Seen, variant: Seen) -> Evidence | None:
        """The measurements of a leaf, where its differences are of finite floats.

        Raises:
            CouldNotRun: neither walking nor executing in float64 works.
        """
        first = next(iter(alone.trees.values())).leaves.get(path)
        if first is None or GRAVE & set(comparison.kinds):
            return None
        if not (floats.is_float(first.array.dtype) or floats.is_complex(first.array.dtype)):
            return None
        # Equal bits say nothing of how rounding goes: only the inputs on which bits differ are measured.
        labels = [
            label
            for label in alone.trees
            if label in variant.trees and not same_bits(*(t.trees[label].leaves[path].array for t in (alone, variant)))
        ]
        questions, found = self._questions(job), self.identity(job, path)
        uneven = next(iter(questions.values())).uneven
        try:
            if uneven is not None:
                raise NotCovered(uneven)
            measured = self._walked(job, path, labels, questions, found, alone, variant)
        except NotCovered as error:
            measured = self._executed(job, path, labels, str(error), alone, variant)
        if measured.place is None:
            return measured
        label, index = measured.place
        reference, optimized = (one.trees[label].leaves[path].array for one in (alone, variant))
        # Of complex numbers the parts are measured, along one more dimension.
        return replace(measured, witness=(witness_at(path, reference, optimized, index[: first.array.ndim]), label))

    def _test(self, job: Job, path: str, floored: Sequence[str] = ()) -> dict[str, Any]:
        """How the accuracy of a leaf is to be tested; at some inputs numbers of it are zero but for rounding."""
        point = {name: getattr(job.point, name) for name in Point.__slots__}
        contract = self.execution.pair.contract(**point, leaf=path)
        return {"limit": contract.error_ratio, "more": self.draws.ratios(job, path, floored)}

    def _questions(self, job: Job) -> dict[str, Question]:
        """The question at each input of a point, by its label."""
        if self._asked[0] is job:
            return self._asked[1]
        reference = self.execution.pair.reference_name
        inputs = self.execution.inputs(job.alone, reference, job.point.direction)
        found = self.prover.questions(job.point.direction, job.alone, job.point.variant, job.on_mesh, inputs)
        self._asked = job, found
        return found

    # -- by walking

    def _walked(
        self,
        job: Job,
        path: str,
        labels: Sequence[str],
        questions: Mapping[str, Question],
        identity: Identity | Unproved,
        alone: Seen,
        variant: Seen,
    ) -> Evidence:
        samples, proved = {}, not isinstance(identity, Unproved) and identity.equal
        for label in labels:
            asked = questions[label]
            judged, excuses = [self._judge(one, asked) for one in (asked.reference, asked.variant)], Excuses(asked)
            samples[label] = Sample(
                alone.trees[label].leaves[path].array,
                variant.trees[label].leaves[path].array,
                judged[0].values[path],
                judged[1].values[path],
                judged[0].bounds[path],
                judged[1].bounds[path],
                None if proved else partial(excuses.both, path, getattr(identity, "unsure", None) is None),
                floor_of(judged[0].values[path], judged[0].bounds[path], excuses.float64, path),
            )
        known: dict[str, Any] = {}
        if isinstance(identity, Unproved):
            known["unproved"] = identity.why
        elif identity.equal:
            known["log2_error"], known["constants"] = identity.log2_error, identity.constants
            known["assumed"] = identity.assumed
        elif not identity.undecided:
            known["refuted"] = identity.witness
        else:
            functions = ", ".join(sorted(identity.unknown))
            known["unproved"] = identity.unsure or f"the fields do not know every law of {functions}"
        floored = [label for label, sample in samples.items() if sample.floor is not None]
        found = gather_evidence(samples, **self._test(job, path, floored), **known)
        if found.is_rounding or found.constants or found.place is None:
            return found
        label, index = found.place
        return self._blamed(found, questions[label], path, index, samples[label])

    def _blamed(self, found: Evidence, asked: Question, path: str, index: tuple[int, ...], sample: Sample) -> Evidence:
        """With the operation or the tie to blame for one element, if either can be shown."""
        ref, var, true, own = (float(np.asarray(array)[index]) for array in sample[:4])
        inputs = [np.asarray(one.values) for one in asked.inputs]
        if abs(own - true) > abs(var - ref) / 2:  # the sides differ in float64: no operation's rounding does that
            return replace(found, tie=tie(asked, inputs, self.platform, path, index))
        if found.mathematics is not None:
            return found
        most = loses_most(asked.variant, asked, inputs, self.platform, path, index, abs(var - own))
        return replace(found, loses_most=most)

    def _judge(self, program: Any, asked: Question) -> Judged:
        inputs = [np.asarray(one.values) for one in asked.inputs]
        key = ByIdentity(program), digest_of(inputs, *(one.name for one in asked.inputs), *asked.outputs)
        if key not in self._judged:
            if len(self._judged) > 256:
                self._judged.clear()
            self._judged[key] = judge_program(program, asked, inputs, self.platform)
        return self._judged[key]

    # -- by executing

    def _executed(self, job: Job, path: str, labels: Sequence[str], why: str, alone: Seen, variant: Seen) -> Evidence:
        wide = replace(job, alone=replace(job.alone, x64=True), on_mesh=replace(job.on_mesh, x64=True))
        oracle, own = self._both(wide, labels)
        samples = {}
        for label in labels:
            first, second, ideal, wider = (
                floats.parts(seen.trees[label].leaves[path].array) for seen in (alone, variant, oracle, own)
            )
            samples[label] = Sample(first, second, ideal, wider)
        steps = self._rungs(job, path, labels, oracle, own)
        if steps.float64 > LAST:
            self._refuse_fixed(wide, steps.float64)
        found = gather_evidence(samples, **self._test(job, path), unproved=why, ladder=steps.objection)
        if steps.float64 <= LAST and not found.is_rounding:
            digits = floats.digits(floats.parts(next(iter(alone.trees.values())).leaves[path].array).dtype)
            self._refuse_fixed(wide, steps.float64, digits + FINER)
        return found

    def _refuse_fixed(self, wide: Job, apart: float, enough: int | None = None) -> None:
        """Refuse to call a difference a fault where a side computes in a dtype narrower than float64 all the same.

        Args:
            wide: the job in float64.
            apart: how far the sides are apart there.
            enough: digits of a dtype that are enough to hold errors against; None where none are.

        Raises:
            CouldNotRun: roundings of that dtype can be the difference, or there is no ideal value.
        """
        sides = (self.execution.pair.reference_name, wide.alone), (wide.point.variant, wide.on_mesh)
        for side, site in sides:
            narrow = fixed(self.execution.program(side, site, wide.point.direction).traced.jaxpr)
            if narrow is None or not narrow.hides(apart) or (enough is not None and narrow.digits >= enough):
                continue
            if enough is not None:
                raise CouldNotRun(f"there is no value in float64 to hold errors against, as {narrow}: '{side}'")
            raise CouldNotRun(
                f"in float64 the sides still differ by {apart:.2g} of the largest value, and {narrow}: '{side}'"
            )

    def _rungs(self, job: Job, path: str, labels: Sequence[str], oracle: Seen, own: Seen) -> Rungs:
        """How far the sides are apart in bfloat16, float32 and float64."""
        apart = {}
        for dtype in ("bfloat16", "float32"):
            site = replace(job.alone, dtype=dtype), replace(job.on_mesh, dtype=dtype)
            with contextlib.suppress(CouldNotRun):  # a side that refuses this dtype says nothing of rounding
                apart[dtype] = self._both(replace(job, alone=site[0], on_mesh=site[1]), labels)
        return rungs({**apart, "float64": (oracle, own)}, path)

    def _both(self, job: Job, labels: Sequence[str]) -> tuple[Seen, Seen]:
        """The reference alone and the variant on the mesh, as a job's sites say."""
        execution, direction = self.execution, job.point.direction
        programs = execution.sides.programs
        sides = (execution.pair.reference_name, job.alone), (job.point.variant, job.on_mesh)
        started = [programs.start(execution.program(side, site, direction)) for side, site in sides]
        try:
            first, second = (
                execution.run(program, side, site, direction, labels)
                for program, (side, site) in zip(started, sides, strict=True)
            )
        except jax.errors.JaxRuntimeError as error:  # as a callback that refuses the dtype
            dtype = "float64" if job.alone.x64 else job.alone.dtype
            raise CouldNotRun(f"executed in {dtype}, it {one_line(error)}") from error
        return first, second
