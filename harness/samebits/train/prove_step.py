"""Proves a whole training step (forward, losses, backward, clipping and optimizer) as traced for a mesh.

The step at its smallest sizes is interpreted over finite fields, `shard_map` regions device by device, and each of its
outputs is compared with the step of all references on one device. Equal steps from equal states make equal runs, so the
proof of one step holds for all of them, up to rounding and as long as the same branches are taken.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import NearTie, NotCovered
from samebits.interpret.equation import Type, type_of
from samebits.interpret.field.domain import Field
from samebits.interpret.field_proof.result import BLIND, ENOUGH, FieldIdentity, compare_formulas, error_bound
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from samebits.programs.inputs import Array
from samebits.schema.model import Config, Defect, Model
from samebits.train.prove_request import StepLeaf, Verdict, in_order, reference_step, step_head
from samebits.train.trainer import TracedStep, trace_training_step

WARM = 2
"""Steps taken before the one that is proved, so that no moment of the optimizer is zero everywhere."""

LEVELS = 5
"""Number of primes modulo which elements are represented: enough for exponentials nested four deep."""

FIRST, MOST = 12, 24
"""Random points of the first interpretation, and the largest number that is tried."""

CACHED_REFERENCES = 8
"""How many interpreted references are cached."""

SEEDS = 3
"""How many seeds are tried if a comparison of values is a near tie."""


@dataclass(slots=True)
class _InterpretedReference:
    """The reference interpreted in one instance of the fields: its inputs, its outputs, and the functions called."""

    domain: Field
    inputs: list[Any]
    outputs: list[Any]
    calls: dict[str, tuple[int, int]]


class StepProver:
    """Proves steps of one model; configurations with the same sizes and options share an interpreted reference."""

    def __init__(self, model: Model, root: Path) -> None:
        self.model = model
        self.root = root
        self._traced: dict[str, TracedStep] = {}
        self._states: dict[str, list[Array]] = {}
        self._walked: dict[tuple[str, int], _InterpretedReference] = {}

    def prove(self, config: Config, defect: Defect | None = None) -> list[StepLeaf]:
        """Prove every leaf of a configuration's step.

        Args:
            config: any configuration; it is proved at the smallest sizes that the model allows.
            defect: planted into its parts and options, if given; the reference is without it.

        Raises:
            DeclarationError: the configuration cannot be built.
            CouldNotRun: a step does not trace.
        """
        proving = self.proving(config, defect)
        while True:
            try:
                next(proving)
            except StopIteration as ended:
                leaves: list[StepLeaf] = ended.value
                return leaves

    def proving(self, config: Config, defect: Defect | None = None) -> Generator[str, None, list[StepLeaf]]:
        """Prove as `prove`, with each stage in words as it begins."""
        begin = time.perf_counter()
        self.model.check(config)
        small = self.model.smallest(config)
        identities: dict[str, FieldIdentity] | str = {}
        for number in range(SEEDS):
            seeded = small.having(seed=small.seed + number)
            reference = reference_step(seeded)
            changed = seeded.having(options=dict(defect.changes)) if defect else seeded
            yield "tracing its step"
            variant = trace_training_step(self.model, changed, self.root, defect)
            yield "tracing the step of all references on one device"
            alone = self._trace(reference)
            try:
                identities = yield from self._identities(reference, alone, variant)
            except NearTie as error:
                if number + 1 < SEEDS:
                    continue
                identities = str(error)
            except NotCovered as error:
                identities = str(error)
            break
        head = replace(
            step_head(config, small, defect), seed=seeded.seed, seconds=round(time.perf_counter() - begin, 3)
        )
        if isinstance(identities, str):
            return [replace(head, leaf=name, reason=identities) for name in in_order(alone.names)]
        return [_leaf(head, name, identities[name]) for name in in_order(alone.names)]

    def _trace(self, reference: Config) -> TracedStep:
        key = reference.digest()
        if key not in self._traced:
            self._traced[key] = trace_training_step(self.model, reference, self.root)
        return self._traced[key]

    def _inputs(self, reference: Config, alone: TracedStep) -> list[Array]:
        """Return the flat inputs after `WARM` reference steps in float64, so that moments and counts are nonzero."""
        import jax

        key = reference.digest()
        if key not in self._states:
            interpreter = Interpreter(Oracle())
            flat = [np.asarray(leaf) for leaf in jax.tree.leaves(alone.state)]
            count = len(flat)
            for number in range(1, WARM + 1):
                batch = [np.asarray(leaf) for leaf in jax.tree.leaves(dict(alone.training.batch(number)))]
                inputs = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in (*flat, *batch)]
                flat = interpreter(alone.jaxpr, *inputs)[:count]
            batch = [np.asarray(leaf) for leaf in jax.tree.leaves(dict(alone.training.batch(WARM + 1)))]
            self._states[key] = [*flat, *batch]
        return self._states[key]

    def _identities(
        self, reference: Config, alone: TracedStep, variant: TracedStep
    ) -> Generator[str, None, dict[str, FieldIdentity]]:
        points = FIRST
        while True:
            yield "interpreting the step of all references on one device"
            interpreted = self._reference(reference, alone, points)
            yield "interpreting its step"
            identities, needed = _compared_outputs(interpreted, alone, variant)
            # A difference remains at more points.
            if needed <= points or points == MOST or not all(identity.equal for identity in identities.values()):
                return identities
            points = min(needed, MOST)

    def _reference(self, reference: Config, alone: TracedStep, points: int) -> _InterpretedReference:
        key = (reference.digest(), points)
        if key not in self._walked:
            if len(self._walked) > CACHED_REFERENCES:
                self._walked.clear()
            domain = Field(points, LEVELS, seed=self.model.name, refilled=True)
            values = self._inputs(reference, alone)
            inputs = []
            for name, array, aval in zip(alone.inputs, values, alone.jaxpr.in_avals, strict=True):
                kind = type_of(aval)
                inputs.append(domain.input(name, array, kind) if kind.is_float else array)
            outputs = Interpreter(domain)(alone.jaxpr, *inputs)
            self._walked[key] = _InterpretedReference(domain, inputs, outputs, dict(domain.calls))
        interpreted = self._walked[key]
        interpreted.domain.calls = dict(interpreted.calls)  # calls by another variant are not part of this proof
        return interpreted


def _compared_outputs(
    interpreted: _InterpretedReference, alone: TracedStep, variant: TracedStep
) -> tuple[dict[str, FieldIdentity], int]:
    """Return the comparison of the variant's outputs with the reference's, and how many random points are needed.

    Parameters may be stacked by stages, so shapes may differ; the elements in C order must correspond.
    """
    domain = interpreted.domain
    interpreter = Interpreter(domain)
    kinds = [type_of(aval) for aval in variant.jaxpr.in_avals]
    args = [_shaped(interpreter, value, kind) for value, kind in zip(interpreted.inputs, kinds, strict=True)]
    outputs = interpreter(variant.jaxpr, *args)
    scales = _scales(alone.names, interpreted.outputs)
    identities, needed = {}, 0
    for number, name in enumerate(alone.names):
        kind, own = (type_of(step.jaxpr.out_avals[number]) for step in (alone, variant))
        if math.prod(kind.shape) != math.prod(own.shape) or kind.dtype != own.dtype:
            words = " and ".join(f"{kind_of_side.dtype.name}{list(kind_of_side.shape)}" for kind_of_side in (kind, own))
            identities[name] = FieldIdentity(False, 0, witness=f"{name} is {words}", gap=math.inf)
            continue
        first, second = interpreted.outputs[number], _shaped(interpreter, outputs[number], kind)
        try:
            identity = identities[name] = compare_formulas(domain, name, first, second, kind)[0]
        except NotCovered as error:  # the other outputs may have numbers that say something
            identities[name] = FieldIdentity.uncovered(error)
            continue
        if identity.equal and identity.repetitions:
            needed = max(needed, _points(domain, identity.degree, len(alone.names)))
        if not identity.equal and identity.gap == math.inf:
            # The leaf is zero in the reference: the difference is relative to the other leaves of its kind.
            far = float(np.max(np.abs(_float64(first) - _float64(second)), initial=0.0)) / scales[name.split("/")[0]]
            if math.isfinite(far):
                identities[name] = replace(identity, gap=far, undecided=far <= BLIND)
    return identities, needed


def _points(domain: Field, degree: int, leaves: int) -> int:
    """Return how many random points bound the error probability over all leaves by 2^`ENOUGH`."""
    log2_error = ENOUGH - math.log2(leaves)
    return next((n for n in range(1, MOST + 1) if error_bound(domain, degree, n) <= log2_error), MOST + 1)


def _scales(names: tuple[str, ...], outputs: list[Any]) -> dict[str, float]:
    """Return for each kind of leaf the largest magnitude in float64; 1 if all values are zero."""
    largest: dict[str, float] = {}
    for name, value in zip(names, outputs, strict=True):
        kind, size = name.split("/")[0], float(np.max(np.abs(_float64(value)), initial=0.0))
        largest[kind] = max(largest.get(kind, 0.0), size if math.isfinite(size) else 0.0)
    return {kind: size or 1.0 for kind, size in largest.items()}


def _float64(value: Any) -> Array:
    return np.asarray(getattr(value, "shadow", value), np.float64)


def _shaped(interpreter: Interpreter, value: Any, kind: Type) -> Any:
    """Return a value in another shape, in C order."""
    if value.shape == kind.shape:
        return value
    return interpreter.taken([value], np.arange(math.prod(kind.shape)).reshape(kind.shape), kind)


def _leaf(head: StepLeaf, name: str, identity: FieldIdentity) -> StepLeaf:
    reason = None
    if identity.equal and identity.log2_error > ENOUGH:
        reason = f"more than {MOST} random points would be needed for an error probability below 2^{ENOUGH}"
    elif identity.not_covered is not None:
        reason = identity.not_covered
    elif identity.undecided:
        reason = (
            "the fields do not know every law of the functions in it; float64 differs by "
            f"{identity.gap:.1e} of the largest value"
        )
    verdict: Verdict = "error" if reason else "rounding" if identity.equal else "different"
    finite = math.isfinite(identity.log2_error)
    return replace(
        head,
        leaf=name,
        verdict=verdict,
        elements=identity.elements,
        log2_error=identity.log2_error if finite and verdict == "rounding" else None,
        points=identity.repetitions,
        degree=identity.degree,
        unknown=identity.unknown,
        gap=identity.gap if math.isfinite(identity.gap) else None,
        witness=None if identity.equal else identity.witness,
        reason=reason,
    )
