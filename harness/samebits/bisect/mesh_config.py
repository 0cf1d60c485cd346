"""The smallest mesh and sizes at which a training configuration still differs from its reference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.bisect.mesh import control_of, failing_controls, mesh_of
from samebits.bisect.point import devices_here
from samebits.bisect.result import Finding, Session, command, counted, tree_digest
from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.bisect.search.shrink import smallest
from samebits.bisect.search.smaller_sizes import smaller_axes, smaller_sizes
from samebits.bisect.search.trials import Trials
from samebits.errors import CouldNotRun, DeclarationError, MeshError
from samebits.host.environment import flags_header
from samebits.numerics import floats
from samebits.programs.catalogue import default_root
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Defect, Model
from samebits.train.load import load_model
from samebits.train.request import choice_of, named


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigRequest:
    """The configuration that fails.

    Args:
        config: its name; `mesh`, `sizes` and `choices` change it.
        against: the one that it is held against, on the same mesh with the same sizes; all references on one device
            where it is None.
        defect: of the model, to be planted.
        steps: of every run.
        most: points that are run at most.
        only: judge this configuration, and shrink nothing.
        root: the tree of the model.
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


def selected(asked: ConfigRequest) -> tuple[Model, Config, Config | None, Defect | None]:
    """The model, the configuration, the one that it is held against, and the defect.

    Raises:
        RequestError: a name is unknown.
        DeclarationError: the configuration cannot be built.
    """
    model = load_model(asked.root or default_root())
    defect = None
    if asked.defect is not None:
        defect = named("defect", asked.defect, {one.name: one for one in model.defects()})
    config = named("config", asked.config, model.all_configs())
    changes: dict[str, Any] = {
        "choice": dict(choice_of(text) for text in asked.choices),
        "sizes": dict(asked.sizes),
        "options": dict(defect.changes) if defect else {},
    }
    config = config.having(**changes, **({} if asked.mesh is None else {"mesh": asked.mesh}))
    model.check(config)
    against = None if asked.against is None else named("config", asked.against, model.all_configs())
    return model, config, against, defect


def wanted_devices(asked: ConfigRequest) -> int:
    """How many devices the configuration needs.

    Raises:
        SamebitsError: as `selected`.
    """
    return MeshSpec.parse(selected(asked)[1].mesh).devices


def bisect_config(asked: ConfigRequest, session: Session) -> Finding:
    """Shrink a failing configuration: the mesh, then the sizes.

    Sizes are cut to the model's own smallest at once; only where it has none, or they pass, they are cut one by one.
    A point fails where the two runs are `different`, at the same step as at the start. Which array is furthest may
    change with the sizes, and is no part of the failure.

    Raises:
        RequestError: a name is unknown, or the configuration cannot be judged.
        NothingFails: it passes.
        CouldNotRun: it does not repeat.
    """
    from samebits.train.trainer import pool

    root = asked.root or default_root()
    model, config, against, defect = selected(asked)
    MeshSpec.parse(config.mesh).require(devices_here())
    threads = pool()
    judge = _ConfigJudge(model, against, defect, root, asked.steps, threads)
    try:
        trials = session.trials(
            judge,
            searched={
                "what": "mesh",
                "config": config.digest(),
                "against": against.digest() if against else None,
                "defect": asked.defect,
                "steps": asked.steps,
                "tree": tree_digest(root),
                "in": flags_header(""),
            },
            key=_key,
            label=_label,
        )
        trials.end(config)
        if asked.only:
            return _finding(asked, trials, config, judge, limited=False)
        limited = False

        def fails(point: Config) -> bool:
            nonlocal limited
            if trials.runs >= asked.most and _label(point) not in {one.point for one in trials.tried}:
                limited = True
                return False
            return trials.fails(point)

        found = smallest(config, lambda now: _less_mesh(model, now), fails)
        control = control_of(trials.tried, [one.mesh for one in _less_mesh(model, found)])

        def still(point: Config) -> bool:
            # As of a pair: what fails with smaller sizes on a mesh that passed before is another failure.
            beside = None if control is None else point.having(mesh=control)
            return fails(point) and (beside is None or not _allowed(model, beside) or not fails(beside))

        cut = model.smallest(found)
        # A run takes long to compile, and below these sizes there is less and less to mix up.
        if _key(cut) != _key(found) and _allowed(model, cut) and still(cut):
            found = cut
        else:
            found = smallest(found, lambda now: _less_sizes(model, now), still)
        return _finding(asked, trials, found, judge, limited=limited)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


class _ConfigJudge:
    """Trains a configuration and its reference. References are shared by all meshes, so the last ones are kept."""

    def __init__(
        self, model: Model, against: Config | None, defect: Defect | None, root: Path, steps: int, threads: Any
    ) -> None:
        self.model, self.against, self.defect = model, against, defect
        self.root, self.steps, self.threads = root, steps, threads
        self._references: dict[str, Any] = {}
        self._trainers: dict[str, Any] = {}

    def reference(self, point: Config) -> Config:
        """What a point is held against."""
        if self.against is None:
            return replace(point, name="reference", mesh="data1", shard_mode="auto", choice={})
        sizes = {**self.against.sizes, **point.sizes}
        return replace(self.against, mesh=point.mesh, shard_mode=point.shard_mode, sizes=sizes, dtype=point.dtype)

    def __call__(self, point: Config) -> Judgement:
        from samebits.train.compare import judge
        from samebits.train.envelope import forced

        try:
            # Both are traced before one is waited for: they compile side by side.
            made = self._trainer(point, self.defect)
            recorded, envelope, base = self._reference(self.reference(point))
            run = made.run(self.steps)
            apart = forced(made, recorded.states)
            pairing = judge(recorded.run, run.run, base, apart, envelope, "rounding", "")
        except (DeclarationError, MeshError, CouldNotRun) as error:
            return untestable(str(error))
        if pairing.verdict != "different":
            return passed(pairing.verdict)
        assert pairing.first_step is not None
        assert pairing.first_leaf is not None
        far = "" if pairing.distance is None else f", {pairing.distance:.2g} against a bound of {pairing.bound:.2g}"
        detail = f"step {pairing.first_step}: {pairing.first_leaf}{far}"
        if pairing.first_leaf == "loss":
            steps = [one.steps[pairing.first_step - 1] for one in (recorded.run, run.run)]
            shown = "; loss: " + ", ".join(
                f"{name}={one.loss:.9g} ({one.loss_hex})"
                for name, one in zip(("reference", "here"), steps, strict=True)
            )
        else:
            shown = _element(pairing.first_step, pairing.first_leaf, base, apart)
        return failed(f"step {pairing.first_step}", detail, witness=detail + shown)

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


def _element(step: int, leaf: str, base: Any, apart: Any) -> str:
    """The element of a leaf that differs most, with both values."""
    if step not in base or leaf not in base[step]:
        return ""
    one = np.asarray(base[step][leaf])
    other = np.asarray(apart[step][leaf]).reshape(one.shape).astype(one.dtype)
    index = np.unravel_index(int(np.argmax(np.abs(one.astype(np.float64) - other.astype(np.float64)))), one.shape)
    place = f"[{', '.join(str(int(i)) for i in index)}]" if index else ""
    values = [f"{float(x[index]):.9g} ({int(floats.raw_bits(x[index].reshape(1))[0]):#x})" for x in (one, other)]
    return f"; element {place or 'alone'}: reference={values[0]}, here={values[1]}"


def _less_mesh(model: Model, now: Config) -> Iterator[Config]:
    for axes in smaller_axes(MeshSpec.parse(now.mesh).axes):
        made = now.having(mesh=MeshSpec(axes=axes).id)
        if _allowed(model, made):
            yield made


def _less_sizes(model: Model, now: Config) -> Iterator[Config]:
    for sizes in smaller_sizes(now.sizes):
        made = now.having(sizes=sizes)
        if _allowed(model, made):
            yield made


def _allowed(model: Model, config: Config) -> bool:
    """Whether the model accepts it; what it refuses is no candidate, and no run."""
    try:
        model.check(config)
    except DeclarationError:
        return False
    return True


def _finding(
    asked: ConfigRequest, trials: Trials[Config], found: Config, judge: _ConfigJudge, *, limited: bool
) -> Finding:
    less = [_label(one) for one in _less_mesh(judge.model, found)]
    passing = [mesh_of(one) for one in trials.tried if one.point in less and one.outcome == "pass"]
    passes = f"; it passes on {' and '.join(dict.fromkeys(passing))}" if passing else ""
    against = "all references on one device" if asked.against is None else f"{asked.against} on the same mesh"
    planted = f" with '{asked.defect}'" if asked.defect else ""
    words = ["samebits", "bisect", "mesh", "--config", asked.config]
    for text in asked.choices:
        words += ["--choice", text]
    for option, value in (("--against", asked.against), ("--defect", asked.defect)):
        words += [option, value] if value else []
    words += ["--mesh", found.mesh]
    for name, size in found.sizes.items():
        words += ["--size", f"{name}={size}"]
    words += ["--steps", str(asked.steps)]
    if asked.root is not None and asked.root.resolve() != Path.cwd():
        words += ["--root", str(asked.root)]
    notes = []
    untried = [one for one in trials.tried if one.outcome == "untestable"]
    if untried:
        notes.append(
            f"{counted(len(untried), 'smaller point')} could not be judged; the first, {untried[0].point}: "
            f"{untried[0].detail}"
        )
    others = failing_controls(trials.tried, found.mesh)
    if others:
        notes.append(f"smaller sizes also fail on {mesh_of(others[0])}, which passes before, and were not taken")
    if limited:
        notes.append(f"the limit of {asked.most} runs came first: there may be smaller sizes (--most)")
    return Finding(
        what="mesh",
        found=True,
        sentence=(
            f"{asked.config}{planted} still differs from {against} ({trials.signature}) on {_label(found)}{passes}"
        ),
        culprits=((found.mesh, *(f"{name}={size}" for name, size in found.sizes.items())),),
        witness=str(trials.known(found).numbers["witness"]),
        replay=command(*words, "--only"),
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        notes=tuple(notes),
        detail={"mesh": found.mesh, "sizes": dict(found.sizes), "signature": trials.signature},
    )


def _key(config: Config) -> str:
    return json.dumps([config.mesh, dict(sorted(config.sizes.items()))])


def _label(config: Config) -> str:
    return ", ".join([config.mesh, *(f"{name}={size}" for name, size in config.sizes.items())])
