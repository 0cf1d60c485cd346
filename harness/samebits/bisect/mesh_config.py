"""Finds the smallest mesh and sizes at which a training configuration still differs from its reference.

In: a failing configuration of the model. Out: a `SearchFinding` with the smallest failing one and its replay command.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.bisect.mesh import control_of, failing_controls, mesh_of, passing_on, untestable_note
from samebits.bisect.point import device_count, mesh_measures
from samebits.bisect.search.shrink import smaller_axes, smaller_sizes, smallest
from samebits.bisect.search.trials import Judgement, SearchFinding, SearchSpace, Trials, failed, passed, untestable
from samebits.bisect.session import Session, again
from samebits.errors import CouldNotRun, DeclarationError, MeshError
from samebits.numerics import floats
from samebits.programs.catalogue import default_root
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Defect, Model
from samebits.train.request import choice_of, defect_of, load_model, named, require_axes


@dataclass(kw_only=True, slots=True)
class ConfigJudge:
    """Trains a configuration and its reference. All meshes share a reference, so the latest ones are cached.

    Args:
        against: the configuration to compare with; None compares with all references on one device.
        defect: planted into the configuration that is judged, if given.
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
        """Return the configuration that a point is compared with."""
        if self.against is None:
            return replace(point.on_one_device("reference"), choice={})
        sizes = {**self.against.sizes, **point.sizes}
        return replace(self.against, mesh=point.mesh, shard_mode=point.shard_mode, sizes=sizes, dtype=point.dtype)

    def __call__(self, point: Config) -> Judgement:
        """Train a point and its reference, and compare them."""
        from samebits.train.compare import judge_runs
        from samebits.train.envelope import distances, forced

        try:
            # Start tracing both before waiting for either, so that they compile in parallel.
            trainer = self._trainer(point, self.defect)
            recorded, envelope, reference_arrays = self._reference(self.reference(point))
            run = trainer.run(self.steps)
            arrays = forced(trainer, recorded.states)
            pairing = judge_runs(recorded.run, run.run, distances(reference_arrays, arrays), envelope, "rounding", "")
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
        from samebits.train.envelope import forced_steps, measure
        from samebits.train.matrix import one_device

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
    """Return both losses at a step, in decimal and in hexadecimal."""
    losses = [
        f"{name}={steps[number - 1].loss:.9g} ({steps[number - 1].loss_hex})"
        for name, steps in (("reference", reference.steps), ("here", run.steps))
    ]
    return f"; loss: {', '.join(losses)}"


def _element(step: int, leaf: str, reference_arrays: Any, arrays: Any) -> str:
    """Return the element of a leaf that differs most, with both values."""
    if step not in reference_arrays or leaf not in reference_arrays[step]:
        return ""
    reference = np.asarray(reference_arrays[step][leaf])
    here = np.asarray(arrays[step][leaf]).reshape(reference.shape).astype(reference.dtype)
    distance = np.abs(reference.astype(np.float64) - here.astype(np.float64))
    index = np.unravel_index(int(np.argmax(distance)), reference.shape)
    place = f"[{', '.join(str(int(i)) for i in index)}]" if index else ""
    values = [f"{float(x[index]):.9g} ({int(floats.raw_bits(x[index].reshape(1))[0]):#x})" for x in (reference, here)]
    return f"; element {place or 'alone'}: reference={values[0]}, here={values[1]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigRequest:
    """The failing configuration.

    Args:
        config: its name; `mesh`, `sizes` and `choices` change it.
        against: the configuration to compare with, on the same mesh and with the same sizes; None compares with all
            references on one device.
        defect: the name of a defect of the model to plant.
        most: the largest number of points to run.
        only: judge this configuration without shrinking it.
    """

    config: str
    mesh: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    against: str | None = None
    defect: str | None = None
    steps: int = 2
    most: int = 12
    only: bool = False
    root: Path | None = None


def selected(request: ConfigRequest) -> tuple[Model, Config, Config | None, Defect | None]:
    """Return the model, the failing configuration, the one to compare with, and the defect.

    Raises:
        RequestError: a name is unknown.
        DeclarationError: the configuration cannot be built.
    """
    model = load_model(request.root or default_root())
    defect = defect_of(model, request.defect)
    config = named("config", request.config, model.all_configs())
    changes: dict[str, Any] = {
        "choice": dict(choice_of(text) for text in request.choices),
        "sizes": dict(request.sizes),
        "options": dict(defect.changes) if defect else {},
    }
    if request.mesh is not None:
        require_axes(model, request.mesh)
        changes["mesh"] = request.mesh
    config = config.having(**changes)
    model.check(config)
    against = None if request.against is None else named("config", request.against, model.all_configs())
    return model, config, against, defect


def wanted_devices(request: ConfigRequest) -> int:
    """Return how many devices the configuration needs."""
    return MeshSpec.parse(selected(request)[1].mesh).devices


def bisect_config(request: ConfigRequest, session: Session) -> SearchFinding:
    """Shrink a failing configuration: first the mesh, then the sizes.

    Sizes are first set to the model's own smallest ones; only if it has none, or they pass, are they reduced one by
    one. A point fails if the two runs are `different` from the same step on as at the start. The array that is furthest
    off may change with the sizes, and is not part of the failure's signature.

    Raises:
        RequestError: a name is unknown, or the configuration cannot be judged.
        NothingFails: the configuration passes.
        CouldNotRun: the failure is not reproducible.
    """
    from samebits.train.trainer import pool

    root = request.root or default_root()
    model, config, against, defect = selected(request)
    MeshSpec.parse(config.mesh).require(device_count())
    with pool() as threads:
        judge = ConfigJudge(
            model=model, against=against, defect=defect, root=root, steps=request.steps, threads=threads
        )
        trials = session.trials(
            "mesh",
            judge,
            root=root,
            searched={
                "config": config.digest(),
                "against": against.digest() if against else None,
                "defect": request.defect,
                "steps": request.steps,
            },
            key=_key,
            label=_label,
        )
        trials.space = SearchSpace(measures=lambda point: mesh_measures(point.mesh, point.sizes))
        trials.end(config)
        search = _Search(model=model, trials=trials, most=request.most)
        smallest_config = config if request.only else search.run(config)
        return _finding(request, search, smallest_config)


@dataclass(kw_only=True, slots=True)
class _Search:
    """Shrinks a configuration with a limited number of runs.

    Args:
        limited: whether the limit was reached.
    """

    model: Model
    trials: Trials[Config]
    most: int
    limited: bool = False

    def run(self, config: Config) -> Config:
        """Return the smallest configuration that still fails."""
        smaller = smallest(config, self.less_mesh, self._fails)
        control = control_of(self.trials.tried, [candidate.mesh for candidate in self.less_mesh(smaller)])

        def same_failure(point: Config) -> bool:
            # As for a pair: sizes that also fail on a mesh that passed before show another failure.
            on_control = None if control is None else point.having(mesh=control)
            return self._fails(point) and (
                on_control is None or not _allowed(self.model, on_control) or not self._fails(on_control)
            )

        cut = self.model.smallest(smaller)
        # Compiling dominates the time of a run, and sizes below the model's smallest ones hide more faults.
        if _key(cut) != _key(smaller) and _allowed(self.model, cut) and same_failure(cut):
            return cut
        return smallest(smaller, self._less_sizes, same_failure)

    def less_mesh(self, config: Config) -> Iterator[Config]:
        """Yield the configuration on smaller meshes that the model accepts."""
        mesh = MeshSpec.parse(config.mesh)
        for axes in smaller_axes(mesh.axes):
            candidate = config.having(mesh=mesh.having(axes).id)
            if _allowed(self.model, candidate):
                yield candidate

    def _less_sizes(self, config: Config) -> Iterator[Config]:
        for sizes in smaller_sizes(config.sizes):
            candidate = config.having(sizes=sizes)
            if _allowed(self.model, candidate):
                yield candidate

    def _fails(self, point: Config) -> bool:
        if self.trials.runs >= self.most and _label(point) not in {trial.point for trial in self.trials.tried}:
            self.limited = True
            return False
        return self.trials.fails(point)


def _allowed(model: Model, config: Config) -> bool:
    """Return whether the model accepts a configuration; one that it rejects is neither a candidate nor a run."""
    try:
        model.check(config)
    except DeclarationError:  # that is the question
        return False
    return True


def _finding(request: ConfigRequest, search: _Search, config: Config) -> SearchFinding:
    trials = search.trials
    passes = passing_on(trials.tried, [_label(smaller) for smaller in search.less_mesh(config)])
    against = "all references on one device" if request.against is None else f"{request.against} on the same mesh"
    planted = f" with '{request.defect}'" if request.defect else ""
    notes = untestable_note(trials.tried)
    others = failing_controls(trials.tried, config.mesh)
    if others:
        notes.append(f"smaller sizes also fail on {mesh_of(others[0])}, which passes before, and were not taken")
    if search.limited:
        notes.append(f"the limit of {request.most} runs came first: there may be smaller sizes (--most)")
    sizes = [f"{name}={size}" for name, size in config.sizes.items()]
    return trials.finding(
        found=True,
        sentence=(
            f"{request.config}{planted} still differs from {against} ({trials.signature}) on {_label(config)}{passes}"
        ),
        culprits=((config.mesh, *sizes),),
        witness=str(trials.known(config).numbers["witness"]),
        replay=again(
            "mesh", config=request.config, choice=request.choices, against=request.against, defect=request.defect,
            mesh=config.mesh, size=sizes, steps=request.steps, root=request.root, only=True,
        ),
        notes=tuple(notes),
        detail={"mesh": config.mesh, "sizes": dict(config.sizes), "signature": trials.signature},
    )  # fmt: skip


def _key(config: Config) -> str:
    return json.dumps([config.mesh, dict(sorted(config.sizes.items()))])


def _label(config: Config) -> str:
    return ", ".join([config.mesh, *(f"{name}={size}" for name, size in config.sizes.items())])
