"""Checks the goldens of a model against today's runs, and accepts today's runs as goldens with their evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import RequestError, SamebitsError
from samebits.host.environment import Environment
from samebits.host.permit import Permit
from samebits.programs.catalogue import suggest
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Model
from samebits.train.envelope import (
    DITHER,
    LEAF_FACTOR,
    LOSS_FACTOR,
    LOSS_FLOOR,
    REPEATED,
    Envelope,
    require_same,
    rewrites,
)
from samebits.train.golden.accept import AcceptedGolden, accept, confirm, seen_now
from samebits.train.golden.check import CheckedGolden, check_golden, norm_change, other_configuration, ulps
from samebits.train.golden.record import (
    ConfirmedEnvironment,
    DamagedGolden,
    Golden,
    GoldenEvidence,
    full_name,
    golden_path,
    golden_paths,
    read_golden,
    recorded_steps,
    require_own_name,
)
from samebits.train.matrix import one_device
from samebits.train.record import Recorded, RunRecord, StepRecord
from samebits.train.trainer import Trainer, pool

# Measures how far rounding alone moves a run: repeated, with rows permuted, changed by one ulp, and on one device.
BASIS = (
    f"loss: {LOSS_FACTOR:g} times the running maximum of its distance over all rewrites, plus 1 ulp, at least "
    f"{LOSS_FLOOR} ulps; perplexity: the "
    f"same, plus what 1 ulp of the loss is in it; norms of arrays: {LEAF_FACTOR:g} times the largest relative change, "
    "at least two ulps of the activations' dtype"
)


def rewritten(trainer: Trainer, run: RunRecord, elsewhere: Trainer | None) -> list[tuple[str, RunRecord]]:
    """Run the same training in ways that preserve its mathematics, without those that change more than rounding does.

    Raises:
        CouldNotRun: the run is not reproducible.
    """
    again = trainer.run(len(run.steps)).run
    require_same(run, again, "a golden would differ from itself")
    runs, measured = [(REPEATED, again)], Envelope(config=run.config, dtype=run.dtype)
    measured.add(REPEATED, [0] * len(run.steps), [])
    for name, other, _ in rewrites(trainer, Recorded(run=run, states={}), elsewhere):
        if name == DITHER:
            measured.add_norms(DITHER, run, other)
        elif measured.leaves_out(name, run, other):
            continue
        runs.append((name, other))
    return runs


def evidence_of(
    run: RunRecord, others: Sequence[tuple[str, RunRecord]], seen: Sequence[ConfirmedEnvironment]
) -> GoldenEvidence:
    """Return the evidence of a run and its rewrites."""
    kept = recorded_steps(len(run.steps))
    measured = Envelope(config=run.config, dtype=run.dtype, leaves=dict.fromkeys(run.steps[0].digests, 0.0))
    for name, other in others:
        steps = list(zip(run.steps, other.steps, strict=True))
        losses, perplexities = (
            [ulps(getattr(a, f"{kind}_hex"), getattr(b, f"{kind}_hex")) for a, b in steps]
            for kind in ("loss", "perplexity")
        )
        norms = [_norm_changes(a, b, measured.leaves) for a, b in steps if a.step in kept]
        measured.add(name, losses, norms, perplexities)
    numbered = [(step.step, step.loss) for step in run.steps]
    return GoldenEvidence(
        runs=1 + len(others),
        rewrites=measured.rewrites,
        seen=tuple(seen),
        loss_spread=tuple(measured.loss),
        loss_bound=tuple(measured.loss_bound(step) for step, _ in numbered),
        perplexity_spread=tuple(measured.perplexity),
        perplexity_bound=tuple(measured.perplexity_bound(step, loss) for step, loss in numbered),
        leaf_spread=measured.leaves,
        leaf_bound={name: measured.leaf_bound(name) for name in measured.leaves},
        basis=BASIS,
    )


def _norm_changes(step: StepRecord, other: StepRecord, leaves: Iterable[str]) -> dict[str, float]:
    """Return how far the norm of each array moved, relative to its kind where it was zero."""
    of_kind = {"gradient": step.grad_norm, "parameter": step.param_norm}
    return {
        leaf: norm_change(step.digests[leaf].l2, other.digests[leaf].l2, of_kind[leaf.split("/")[0]]) for leaf in leaves
    }


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NamedConfig:
    """A configuration, and the name of the matrix that it is in; empty if it is in none."""

    matrix: str
    config: Config

    @property
    def name(self) -> str:
        """The name that `--config` takes."""
        return full_name(self.matrix, self.config.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenSession:
    """Where goldens are checked or accepted."""

    model: Model
    root: Path
    here: Environment
    say: Say = lambda text: None


def everything(model: Model) -> dict[str, NamedConfig]:
    """Return all configurations that can have a golden, by name."""
    runs = [NamedConfig(matrix.name, run) for matrix in model.matrices for run in matrix.runs]
    return {named.name: named for named in (*runs, *(NamedConfig("", config) for config in model.configs))}


def selected(model: Model, matrices: Sequence[str], configs: Sequence[str]) -> list[NamedConfig]:
    """Return the configurations that a command selects: runs of matrices, or `MATRIX/RUN`, or all runs of all matrices.

    Raises:
        RequestError: there is no such matrix or configuration.
    """
    known = everything(model)
    names = [matrix.name for matrix in model.matrices]
    for name in matrices:
        if name not in names:
            raise RequestError(f"matrix '{name}' is unknown; {suggest(name, names)}")
    within = [named for named in known.values() if named.matrix in matrices] if matrices else list(known.values())
    if not configs:
        return [named for named in within if named.matrix]
    chosen = []
    for name in dict.fromkeys(configs):
        here = [named for named in within if name == named.name or (matrices and name == named.config.name)]
        if not here:
            raise RequestError(f"config '{name}' is unknown; {suggest(name, [named.name for named in within])}")
        chosen += here
    return chosen


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldensToCheck:
    """The goldens that a command compares with today's runs.

    Args:
        configs: everything that is asked for, in order.
        runs: those of which there is a golden, so that they are run.
        checked: what files alone show: goldens that are missing, damaged or unused.
    """

    configs: tuple[NamedConfig, ...]
    runs: tuple[NamedConfig, ...]
    checked: tuple[CheckedGolden, ...]

    def in_order(self, checked: Iterable[CheckedGolden]) -> list[CheckedGolden]:
        """Return all results, those of today's runs included, in the order of the configurations; unused files last."""
        order = {named.name: index for index, named in enumerate(self.configs)}
        return sorted((*self.checked, *checked), key=lambda result: order.get(result.name, len(order)))


def goldens_to_check(
    model: Model, here: Environment, matrices: Sequence[str], configs: Sequence[str]
) -> GoldensToCheck:
    """Return the goldens to check, and goldens without a configuration; nothing is run.

    Args:
        matrices, configs: names; by default those of `with_goldens`, or all matrices if there is no golden yet.
    """
    selection = selected(model, matrices, configs)
    if not matrices and not configs:
        selection = with_goldens(model, here) or selection
    checked: list[CheckedGolden] = []
    runs: list[NamedConfig] = []
    for named in selection:
        golden = _look_up(model, named, here)
        if isinstance(golden, CheckedGolden):
            checked.append(golden)
        else:
            runs.append(named)
    if not configs:
        checked += strays(model, here, matrices)
    return GoldensToCheck(configs=tuple(selection), runs=tuple(runs), checked=tuple(checked))


def check_run(session: GoldenSession, named: NamedConfig) -> CheckedGolden:
    """Run a configuration, and compare it with its golden."""
    golden = _look_up(session.model, named, session.here)
    if isinstance(golden, CheckedGolden):
        return golden
    ((_, trainer),) = trainers(session, (named,))
    try:
        return check_golden(golden, _record(trainer, golden.window), session.here)
    except SamebitsError as error:
        return CheckedGolden(name=named.name, status="not run", message=str(error))


def with_goldens(model: Model, here: Environment) -> list[NamedConfig]:
    """Return all runs of each matrix that has a golden here, and configurations outside matrices that have one."""
    known = list(everything(model).values())
    there = [named for named in known if golden_path(model, here, named.matrix, named.config.name).exists()]
    begun = {named.matrix for named in there if named.matrix}
    return [named for named in known if named.matrix in begun or (named in there and not named.matrix)]


def without_goldens(model: Model, here: Environment) -> list[str]:
    """Return the matrices without a golden here, where another one has some, so that a check of all leaves them out."""
    begun = {named.matrix for named in with_goldens(model, here)}
    return [matrix.name for matrix in model.matrices if begun and matrix.name not in begun]


def strays(model: Model, here: Environment, matrices: Sequence[str]) -> list[CheckedGolden]:
    """Return the goldens of this platform that belong to no configuration, so that nothing checks them."""
    known = {golden_path(model, here, named.matrix, named.config.name) for named in everything(model).values()}
    unused = []
    for path in golden_paths(model, here.folder):
        if path not in known and (not matrices or path.stem.partition("__")[0] in matrices):
            text = f"golden {path} is unused: no matrix has that run any more; remove the file, or restore the run"
            unused.append(CheckedGolden(name=path.stem.replace("__", "/", 1), status="unused", message=text))
    return unused


def accept_goldens(
    session: GoldenSession, named_configs: Sequence[NamedConfig], permit: Permit, *, steps: int, only_confirm: bool
) -> Iterator[AcceptedGolden | tuple[str, SamebitsError]]:
    """Run configurations and write their goldens, or confirm the existing ones.

    Args:
        only_confirm: add this environment to the evidence, and change nothing else.

    Yields:
        For each configuration the accepted golden, or its name and the error; the others are run nevertheless.
    """
    model, here = session.model, session.here
    for named, trainer in trainers(session, named_configs):
        try:
            if only_confirm:
                golden = _look_up(model, named, here)
                if isinstance(golden, CheckedGolden):
                    raise RequestError(golden.message)
                yield confirm(model, named.matrix, named.config, _record(trainer, golden.window), here, permit)
                continue
            run = _record(trainer, steps)
            assert isinstance(trainer, Trainer)
            session.say(f"the evidence of {named.name}")
            others = rewritten(trainer, run, _elsewhere(session, named.config))
            evidence = evidence_of(run, others, [seen_now(here, permit.date)])
            yield accept(model, named.matrix, named.config, run, evidence, here, permit)
        except SamebitsError as error:
            yield named.name, error


def trainers(
    session: GoldenSession, named_configs: Sequence[NamedConfig]
) -> Iterator[tuple[NamedConfig, Trainer | SamebitsError]]:
    """Yield trainers with compiled steps; the next one compiles while the current one runs."""
    with pool() as threads:

        def start(named: NamedConfig) -> Trainer | SamebitsError:
            try:
                return Trainer(session.model, named.config, session.root, threads)
            except SamebitsError as error:
                return error

        ahead = [start(named) for named in named_configs[:1]]
        for index, named in enumerate(named_configs):
            ahead += [start(after) for after in named_configs[index + 1 : index + 2]]
            session.say(f"{named.name} on {named.config.mesh}")
            yield named, ahead.pop(0)


def _record(trainer: Trainer | SamebitsError, steps: int) -> RunRecord:
    if isinstance(trainer, SamebitsError):
        raise trainer
    return trainer.run(steps).run


def _elsewhere(session: GoldenSession, config: Config) -> Trainer | None:
    """Return the same configuration on one device; None if it has only one already, or does not run on one."""
    if MeshSpec.parse(config.mesh).devices == 1:
        return None
    try:
        with pool() as threads:
            trainer = Trainer(session.model, one_device(config), session.root, threads)
            trainer.compiled()
            return trainer
    except SamebitsError as error:
        session.say(f"{config.name} does not run on one device ({error}); its evidence does without")
        return None


def _look_up(model: Model, named: NamedConfig, here: Environment) -> Golden | CheckedGolden:
    path = golden_path(model, here, named.matrix, named.config.name)
    command = f"samebits golden accept --config {named.name} --reason '...'"
    if not path.exists():
        text = f"golden '{named.name}' is missing on {here.folder}; where today's run is right: {command}"
        return CheckedGolden(name=named.name, status="missing", message=text)
    try:
        golden = read_golden(path)
        require_own_name(path, golden)
    except DamagedGolden as error:
        return CheckedGolden(name=named.name, status="damaged", message=str(error))
    except SamebitsError as error:
        return CheckedGolden(name=named.name, status="not run", message=str(error))
    other = other_configuration(golden, named.config)
    if other:
        text = f"golden '{named.name}' is of another configuration ({other}); where that is meant: {command}"
        return CheckedGolden(name=named.name, status="unused", message=text)
    return golden
