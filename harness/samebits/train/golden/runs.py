"""The goldens of a model, found, run and checked; and today's runs, with their evidence, to be accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import RequestError, SamebitsError
from samebits.programs.catalogue import suggest
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Model
from samebits.train.golden.accept import AcceptedGolden, Permit, accept, confirm, seen_now
from samebits.train.golden.check import CheckedGolden, check_golden, other_configuration
from samebits.train.golden.evidence import evidence_of, rewrites
from samebits.train.golden.files import DamagedGolden, golden_path, golden_paths, platform_folder, read_golden
from samebits.train.golden.record import Golden, Surroundings, full_name
from samebits.train.matrix import one_device
from samebits.train.record import RunRecord
from samebits.train.trainer import Trainer, pool

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NamedConfig:
    """A configuration, and the matrix in which it was found; empty for one of its own."""

    matrix: str
    config: Config

    @property
    def name(self) -> str:
        """As `--config` takes it."""
        return full_name(self.matrix, self.config.name)


def everything(model: Model) -> dict[str, NamedConfig]:
    """All that a golden can be of, by name."""
    runs = [NamedConfig(matrix.name, run) for matrix in model.matrices for run in matrix.runs]
    return {named.name: named for named in (*runs, *(NamedConfig("", config) for config in model.configs))}


def selected(model: Model, matrices: Sequence[str], configs: Sequence[str]) -> list[NamedConfig]:
    """What a command names: runs of matrices, or configurations as `MATRIX/RUN`, or all runs of all matrices.

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


def check_goldens(
    model: Model, matrices: Sequence[str], configs: Sequence[str], root: Path, here: Surroundings, say: Say
) -> list[CheckedGolden]:
    """Hold today's runs against their goldens, and find goldens that belong to nothing.

    Args:
        model: what is trained.
        matrices, configs: names; without any, what `with_goldens` finds, or all matrices where there is no golden yet.
        root: the tree with the pairs.
        here: the environment.
        say: told what is under way.
    """
    configs_to_check = selected(model, matrices, configs)
    if not matrices and not configs:
        configs_to_check = with_goldens(model, here) or configs_to_check
    checked_goldens: list[CheckedGolden] = []
    goldens: dict[str, Golden] = {}
    for named in configs_to_check:
        golden = _look_up(model, named, here)
        if isinstance(golden, CheckedGolden):
            checked_goldens.append(golden)
        else:
            goldens[named.name] = golden
    if not configs:
        checked_goldens += strays(model, here, matrices)
    with_golden = [named for named in configs_to_check if named.name in goldens]
    for named, trainer in trainers(model, with_golden, root, say):
        golden = goldens[named.name]
        try:
            checked_goldens.append(check_golden(golden, _record(trainer, golden.window), here))
        except SamebitsError as error:
            checked_goldens.append(CheckedGolden(name=named.name, status="not run", message=str(error)))
    order = {named.name: index for index, named in enumerate(configs_to_check)}
    return sorted(checked_goldens, key=lambda checked: order.get(checked.name, len(order)))


def with_goldens(model: Model, here: Surroundings) -> list[NamedConfig]:
    """All runs of each matrix of which one has a golden here, and configurations of their own that have one."""
    known = list(everything(model).values())
    there = [named for named in known if golden_path(model, here, named.matrix, named.config.name).exists()]
    begun = {named.matrix for named in there if named.matrix}
    return [named for named in known if named.matrix in begun or (named in there and not named.matrix)]


def strays(model: Model, here: Surroundings, matrices: Sequence[str]) -> list[CheckedGolden]:
    """Goldens of this platform that no configuration uses; they would be trusted and never looked at."""
    known = {golden_path(model, here, named.matrix, named.config.name) for named in everything(model).values()}
    unused = []
    for path in golden_paths(model, platform_folder(here)):
        if path not in known and (not matrices or path.stem.partition("__")[0] in matrices):
            text = f"golden {path} is unused: no matrix has that run any more; remove the file, or restore the run"
            unused.append(CheckedGolden(name=path.stem.replace("__", "/", 1), status="unused", message=text))
    return unused


def accept_goldens(
    model: Model,
    named_configs: Sequence[NamedConfig],
    root: Path,
    steps: int,
    here: Surroundings,
    allowed: Permit,
    say: Say,
    *,
    only_confirm: bool = False,
) -> Iterator[AcceptedGolden | tuple[str, SamebitsError]]:
    """Run configurations and write their goldens, or confirm those there are.

    Args:
        model, root: as in `check_goldens`.
        asked: what to run; one that cannot be accepted gives its name and error, and the others go on.
        steps: the window.
        here, allowed: where, and by whom.
        say: told what is under way.
        only_confirm: add this environment to the evidence, and change nothing else.
    """
    for named, trainer in trainers(model, named_configs, root, say):
        try:
            if only_confirm:
                golden = _look_up(model, named, here)
                if isinstance(golden, CheckedGolden):
                    raise RequestError(golden.message)
                yield confirm(model, named.matrix, named.config, _record(trainer, golden.window), here, allowed)
                continue
            run = _record(trainer, steps)
            assert isinstance(trainer, Trainer)
            say(f"the evidence of {named.name}")
            others = rewrites(trainer, run, _elsewhere(model, named.config, root, say))
            evidence = evidence_of(run, others, [seen_now(here, allowed.date)])
            yield accept(model, named.matrix, named.config, run, evidence, here, allowed)
        except SamebitsError as error:
            yield named.name, error


def trainers(
    model: Model, named_configs: Sequence[NamedConfig], root: Path, say: Say
) -> Iterator[tuple[NamedConfig, Trainer | SamebitsError]]:
    """Compiled steps, the next one made while the present one runs."""
    threads = pool()

    def start(named: NamedConfig) -> Trainer | SamebitsError:
        try:
            return Trainer(model, named.config, root, threads)
        except SamebitsError as error:
            return error

    try:
        ahead = [start(named) for named in named_configs[:1]]
        for index, named in enumerate(named_configs):
            ahead += [start(after) for after in named_configs[index + 1 : index + 2]]
            say(f"{named.name} on {named.config.mesh}")
            yield named, ahead.pop(0)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _record(trainer: Trainer | SamebitsError, steps: int) -> RunRecord:
    if isinstance(trainer, SamebitsError):
        raise trainer
    return trainer.run(steps).run


def _elsewhere(model: Model, config: Config, root: Path, say: Say) -> Trainer | None:
    """The same configuration on one device, where it has more and can do with less."""
    if MeshSpec.parse(config.mesh).devices == 1:
        return None
    threads = pool()
    try:
        trainer = Trainer(model, one_device(config), root, threads)
        trainer.compiled()
        return trainer
    except SamebitsError as error:
        say(f"{config.name} does not run on one device ({error}); its evidence does without")
        return None
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _look_up(model: Model, named: NamedConfig, here: Surroundings) -> Golden | CheckedGolden:
    path = golden_path(model, here, named.matrix, named.config.name)
    command = f"samebits golden accept --config {named.name} --reason '...'"
    if not path.exists():
        text = f"golden '{named.name}' is missing on {platform_folder(here)}; where today's run is right: {command}"
        return CheckedGolden(name=named.name, status="missing", message=text)
    try:
        golden = read_golden(path)
        if golden.name != named.name:
            raise DamagedGolden(
                f"golden {path}: config is '{golden.name}'; expected '{named.name}', as in the file's name"
            )
    except DamagedGolden as error:
        return CheckedGolden(name=named.name, status="damaged", message=str(error))
    except SamebitsError as error:
        return CheckedGolden(name=named.name, status="not run", message=str(error))
    other = other_configuration(golden, named.config)
    if other:
        text = f"golden '{named.name}' is of another configuration ({other}); where that is meant: {command}"
        return CheckedGolden(name=named.name, status="unused", message=text)
    return golden
