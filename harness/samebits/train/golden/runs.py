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
    return {asked.name: asked for asked in (*runs, *(NamedConfig("", config) for config in model.configs))}


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
    within = [asked for asked in known.values() if asked.matrix in matrices] if matrices else list(known.values())
    if not configs:
        return [asked for asked in within if asked.matrix]
    found = []
    for name in dict.fromkeys(configs):
        here = [asked for asked in within if name == asked.name or (matrices and name == asked.config.name)]
        if not here:
            raise RequestError(f"config '{name}' is unknown; {suggest(name, [asked.name for asked in within])}")
        found += here
    return found


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
    asked = selected(model, matrices, configs)
    if not matrices and not configs:
        asked = with_goldens(model, here) or asked
    found: list[CheckedGolden] = []
    goldens: dict[str, Golden] = {}
    for one in asked:
        golden = _look_up(model, one, here)
        if isinstance(golden, CheckedGolden):
            found.append(golden)
        else:
            goldens[one.name] = golden
    if not configs:
        found += strays(model, here, matrices)
    held = [one for one in asked if one.name in goldens]
    for one, trainer in trainers(model, held, root, say):
        golden = goldens[one.name]
        try:
            found.append(check_golden(golden, _record(trainer, golden.window), here))
        except SamebitsError as error:
            found.append(CheckedGolden(name=one.name, status="not run", message=str(error)))
    order = {one.name: index for index, one in enumerate(asked)}
    return sorted(found, key=lambda checked: order.get(checked.name, len(order)))


def with_goldens(model: Model, here: Surroundings) -> list[NamedConfig]:
    """All runs of each matrix of which one has a golden here, and configurations of their own that have one."""
    known = list(everything(model).values())
    there = [one for one in known if golden_path(model, here, one.matrix, one.config.name).exists()]
    begun = {one.matrix for one in there if one.matrix}
    return [one for one in known if one.matrix in begun or (one in there and not one.matrix)]


def strays(model: Model, here: Surroundings, matrices: Sequence[str]) -> list[CheckedGolden]:
    """Goldens of this platform that no configuration uses; they would be trusted and never looked at."""
    known = {golden_path(model, here, one.matrix, one.config.name) for one in everything(model).values()}
    found = []
    for path in golden_paths(model, platform_folder(here)):
        if path not in known and (not matrices or path.stem.partition("__")[0] in matrices):
            text = f"golden {path} is unused: no matrix has that run any more; remove the file, or restore the run"
            found.append(CheckedGolden(name=path.stem.replace("__", "/", 1), status="unused", message=text))
    return found


def accept_goldens(
    model: Model,
    asked: Sequence[NamedConfig],
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
    for one, trainer in trainers(model, asked, root, say):
        try:
            if only_confirm:
                golden = _look_up(model, one, here)
                if isinstance(golden, CheckedGolden):
                    raise RequestError(golden.message)
                yield confirm(model, one.matrix, one.config, _record(trainer, golden.window), here, allowed)
                continue
            run = _record(trainer, steps)
            assert isinstance(trainer, Trainer)
            say(f"the evidence of {one.name}")
            others = rewrites(trainer, run, _elsewhere(model, one.config, root, say))
            evidence = evidence_of(run, others, [seen_now(here, allowed.date)])
            yield accept(model, one.matrix, one.config, run, evidence, here, allowed)
        except SamebitsError as error:
            yield one.name, error


def trainers(
    model: Model, asked: Sequence[NamedConfig], root: Path, say: Say
) -> Iterator[tuple[NamedConfig, Trainer | SamebitsError]]:
    """Compiled steps, the next one made while the present one runs."""
    threads = pool()

    def made(one: NamedConfig) -> Trainer | SamebitsError:
        try:
            return Trainer(model, one.config, root, threads)
        except SamebitsError as error:
            return error

    try:
        ahead = [made(one) for one in asked[:1]]
        for index, one in enumerate(asked):
            ahead += [made(after) for after in asked[index + 1 : index + 2]]
            say(f"{one.name} on {one.config.mesh}")
            yield one, ahead.pop(0)
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


def _look_up(model: Model, one: NamedConfig, here: Surroundings) -> Golden | CheckedGolden:
    path = golden_path(model, here, one.matrix, one.config.name)
    command = f"samebits golden accept --config {one.name} --reason '...'"
    if not path.exists():
        text = f"golden '{one.name}' is missing on {platform_folder(here)}; where today's run is right: {command}"
        return CheckedGolden(name=one.name, status="missing", message=text)
    try:
        golden = read_golden(path)
        if golden.name != one.name:
            raise DamagedGolden(
                f"golden {path}: config is '{golden.name}'; expected '{one.name}', as in the file's name"
            )
    except DamagedGolden as error:
        return CheckedGolden(name=one.name, status="damaged", message=str(error))
    except SamebitsError as error:
        return CheckedGolden(name=one.name, status="not run", message=str(error))
    other = other_configuration(golden, one.config)
    if other:
        text = f"golden '{one.name}' is of another configuration ({other}); where that is meant: {command}"
        return CheckedGolden(name=one.name, status="unused", message=text)
    return golden
