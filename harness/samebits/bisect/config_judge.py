"""Judges a training configuration against its reference, for `samebits bisect mesh --config`.

In: a configuration at some mesh and sizes. Out: a `Judgement`: whether its run differs, and at which step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.errors import CouldNotRun, DeclarationError, MeshError
from samebits.numerics import floats
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Defect, Model


@dataclass(kw_only=True, slots=True)
class ConfigJudge:
    """Trains a configuration and its reference. All meshes share a reference, so the latest ones are cached.

    Args:
        model: what is trained.
        against: the configuration to compare with; None compares with all references on one device.
        defect: planted into the configuration that is judged, if given.
        root: the tree of the model's parts.
        steps: of every run.
        threads: the thread pool that compiles.
    """

    model: Model
    against: Config | None
    defect: Defect | None
    root: Path
    steps: int
    threads: Any
    _references: dict[str, Any] = field(default_factory=dict, init=False)
    _trainers: dict[str, Any] = field(default_factory=dict, init=False)

    def reference(self, point: Config) -> Config:
        """The configuration that a point is compared with."""
        if self.against is None:
            return replace(point.on_one_device("reference"), choice={})
        sizes = {**self.against.sizes, **point.sizes}
        return replace(self.against, mesh=point.mesh, shard_mode=point.shard_mode, sizes=sizes, dtype=point.dtype)

    def __call__(self, point: Config) -> Judgement:
        """Train a point and its reference, and compare them."""
        from samebits.train.compare import judge_runs
        from samebits.train.envelope import forced

        try:
            # Start tracing both before waiting for either, so that they compile in parallel.
            trainer = self._trainer(point, self.defect)
            recorded, envelope, reference_arrays = self._reference(self.reference(point))
            run = trainer.run(self.steps)
            arrays = forced(trainer, recorded.states)
            pairing = judge_runs(recorded.run, run.run, reference_arrays, arrays, envelope, "rounding", "")
        except (DeclarationError, MeshError, CouldNotRun) as error:
            return untestable(str(error))
        if pairing.verdict != "different":
            return passed(pairing.verdict)
        assert pairing.first_step is not None
        assert pairing.first_leaf is not None
        far = "" if pairing.distance is None else f", {pairing.distance:.2g} against a bound of {pairing.bound:.2g}"
        detail = f"step {pairing.first_step}: {pairing.first_leaf}{far}"
        if pairing.first_leaf == "loss":
            values = _losses(pairing.first_step, recorded.run, run.run)
        else:
            values = _element(pairing.first_step, pairing.first_leaf, reference_arrays, arrays)
        return failed(f"step {pairing.first_step}", detail, witness=detail + values)

    def _trainer(self, config: Config, defect: Defect | None) -> Any:
        from samebits.train.trainer import Trainer

        key = f"{config.digest()} {defect.name if defect else ''}"
        if key not in self._trainers:
            while len(self._trainers) > 3:
                self._trainers.pop(next(iter(self._trainers)))
            self._trainers[key] = Trainer(self.model, config, self.root, self.threads, defect)
        return self._trainers[key]

    def _reference(self, config: Config) -> Any:
        from samebits.train.envelope import forced_steps
        from samebits.train.matrix import one_device
        from samebits.train.measure import measure

        key = config.digest()
        if key not in self._references:
            while len(self._references) > 1:
                self._references.pop(next(iter(self._references)))
            trainer = self._trainer(config, None)
            alone = None
            if MeshSpec.parse(config.mesh).devices > 1:
                alone = self._trainer(one_device(config), None)
            recorded = trainer.run(self.steps, forced_steps(self.steps))
            self._references[key] = recorded, *measure(trainer, recorded, self.steps, alone)
        return self._references[key]


def _losses(number: int, reference: Any, run: Any) -> str:
    """Both losses at a step, in decimal and in hexadecimal."""
    losses = [
        f"{name}={steps[number - 1].loss:.9g} ({steps[number - 1].loss_hex})"
        for name, steps in (("reference", reference.steps), ("here", run.steps))
    ]
    return f"; loss: {', '.join(losses)}"


def _element(step: int, leaf: str, reference_arrays: Any, arrays: Any) -> str:
    """The element of a leaf that differs most, with both values."""
    if step not in reference_arrays or leaf not in reference_arrays[step]:
        return ""
    reference = np.asarray(reference_arrays[step][leaf])
    here = np.asarray(arrays[step][leaf]).reshape(reference.shape).astype(reference.dtype)
    distance = np.abs(reference.astype(np.float64) - here.astype(np.float64))
    index = np.unravel_index(int(np.argmax(distance)), reference.shape)
    place = f"[{', '.join(str(int(i)) for i in index)}]" if index else ""
    values = [f"{float(x[index]):.9g} ({int(floats.raw_bits(x[index].reshape(1))[0]):#x})" for x in (reference, here)]
    return f"; element {place or 'alone'}: reference={values[0]}, here={values[1]}"
