"""`samebits bisect WHAT`: the smallest change that causes a difference."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from samebits.cli import options
from samebits.cli.compare import CompareFunctionsOptions, TwoFunctions
from samebits.cli.declared import argument, given, option, record_of, words_of
from samebits.cli.engine_options import ClusterOptions, WorkerOptions
from samebits.errors import RequestError
from samebits.rooms import door
from samebits.schema.argument_text import EXAMPLES
from samebits.schema.target import Target

if TYPE_CHECKING:
    from samebits.bisect.endpoints import EndpointsRequest
    from samebits.bisect.point import PointRequest
    from samebits.bisect.search.trials import SearchFinding
    from samebits.bisect.session import Search, Session
    from samebits.engine.run_work import EngineSettings
    from samebits.schema.pair import Pair

HOW = ("--root", "--devices", "--most")
"""Options of no group that say where and how a search runs, and not what is searched."""


@click.group()
def bisect() -> None:
    """Find what causes a difference: the choice, step, tensor, mesh, commit or flag.

    Both ends are verified and repeated first; every point is judged PASS, FAIL, AMBIGUOUS or UNTESTABLE, and a failure
    counts only where it is the same failure. A journal records every judgement: a search that was killed continues
    where it was. Exit code 1 when the cause is found, 0 when nothing fails, 3 when the cause cannot be determined.
    """


@dataclass(frozen=True, kw_only=True)
class SearchOptions(options.ReportOptions):
    """How a search runs, and where its answer goes."""

    HEADING = "The search"

    repeat: Annotated[int, option("Runs of every point; those that disagree are AMBIGUOUS.", "N", least=1)] = 1
    journal: Annotated[Path | None, option("Where judgements are recorded; in the cache by default.", "FILE")] = None
    fresh: Annotated[bool, option("Ignore what the journal has recorded.")] = False
    platform: options.Platform = None

    def session(self) -> Session:
        """Return the session of the search."""
        from samebits.bisect.session import Session

        return Session(journal=self.journal, fresh=self.fresh, repeat=self.repeat)

    def run(self, what: str, search: Search, session: Session, **how: Any) -> int:
        """Search, and return the exit code; to be called once jax is prepared."""
        from samebits.cli.pipeline import run_command

        work = functools.partial(door("cli.bisect_run").search_cause, self, what, search, session, **how)
        return run_command(work, self)

    def asked(self) -> str:
        """Return what is searched, in words such as `--config moe --against base`, without where and how."""
        how = {*SearchOptions.__mro__, ClusterOptions, WorkerOptions}
        groups = [kind for kind in type(self).__mro__ if kind not in how]
        return shlex.join(words_of(self, *groups, but=HOW))


@dataclass(frozen=True, kw_only=True)
class PointOptions:
    """At which point of a pair a search begins."""

    HEADING = "Of a pair"

    variant: Annotated[str | None, option("The side that differs.", "NAME")] = None
    case: Annotated[str | None, option("At which it differs.", "NAME")] = None
    dtype: Annotated[str | None, option("The first of the case by default.", "NAME")] = None
    mode: Annotated[str | None, option("The first of the case by default.", "auto|explicit")] = None
    direction: Annotated[str | None, option("forward by default.", "forward|gradient")] = None
    leaf: Annotated[str | None, option("The output that differs; the first one by default.", "NAME")] = None

    def require(self, *names: str) -> None:
        """Reject a point that is not complete."""
        missing = [f"--{name}" for name in names if not getattr(self, name)]
        if missing:
            raise RequestError(f"a search begins at one point of a pair: give {' and '.join(missing)} too")


# --- commits -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CommitsOptions(SearchOptions):
    """The options of `samebits bisect commits`."""

    check: Annotated[tuple[str, ...], argument("-- CHECK...")] = ()
    good: Annotated[str | None, option("A commit that passes.", "REV")] = None
    bad: Annotated[str | None, option("A later commit that fails.", "REV")] = None
    toolchain: Annotated[
        tuple[Path, Path] | None,
        option(
            "Instead of commits: files of pins NAME==VERSION, one that passes and one that fails.",
            "LOCK_A LOCK_B",
        ),
    ] = None
    root: options.Tree = None
    whole: Annotated[bool, option("Run old trees as they were; CHECK is then any command line, run in them.")] = False
    setup: Annotated[
        str | None, option("With --whole: makes the tree's own environment, such as 'make install'.", "CMD")
    ] = None
    timeout: Annotated[
        float | None, option("Of one CHECK or setup; a commit that takes longer is UNTESTABLE.", "SECONDS", above=0)
    ] = None


@options.command(CommitsOptions, "commits", runs_user_code=False, context_settings={"allow_interspersed_args": False})
def bisect_commits(chosen: CommitsOptions) -> int:
    """Find the commit that introduced a failure.

    CHECK is a samebits command (check, prove, train, compile or golden check, with its options): today's samebits and
    suites run it over the implementations of old commits, in temporary folders; your tree is not touched. Commits that
    break are skipped and listed, merges are followed to both sides, and commits that leave the implementations as they
    are cost nothing. Folders of the repository from which Python imports (editable installs, PYTHONPATH) are those of
    the commit.

    With --whole, CHECK is any command line without a shell, run in a worktree of the commit. Its exit code counts as in
    `git bisect run`: 0 passes, 125 skips, 1 to 124 fail; beyond, it did not run. A samebits command counts by its
    document.

    With --toolchain, today's tree runs in virtual environments made for pinned packages, and cached: all
    minimal sets of packages that make it fail are found.
    """
    session = chosen.session()
    before = dict(os.environ)  # as the user has it: what `prepare` sets is for this process
    before |= {"JAX_PLATFORMS": chosen.platform} if chosen.platform else {}
    what, search = _toolchain(chosen, before) if chosen.toolchain is not None else _commits(chosen, before)
    from samebits.host import environment

    environment.prepare(platform=chosen.platform)
    from samebits.engine.run_work import EngineSettings

    return chosen.run(what, search, session, cached=False, settings=EngineSettings(workers=1))


def _toolchain(chosen: CommitsOptions, variables: Mapping[str, str]) -> tuple[str, Search]:
    """Return the search among pinned packages, with its name."""
    assert chosen.toolchain is not None
    of_commits = {"--good": chosen.good, "--bad": chosen.bad, "--whole": chosen.whole or None, "--setup": chosen.setup}
    wrong = next((name for name, value in of_commits.items() if value is not None), None)
    if wrong is not None:
        raise RequestError(f"{wrong} is of a search among commits; it does not go with --toolchain")
    from samebits.bisect.commits import toolchain

    good, bad = chosen.toolchain
    request = record_of(toolchain.ToolchainRequest, chosen, good=good, bad=bad, environment=variables)
    return "commits --toolchain", functools.partial(toolchain.bisect_toolchain, request)


def _commits(chosen: CommitsOptions, variables: Mapping[str, str]) -> tuple[str, Search]:
    """Return the search among commits, with its name."""
    if chosen.good is None or chosen.bad is None:
        raise RequestError("give both ends: --good REV, which passes, and --bad REV, which fails")
    if chosen.setup is not None and not chosen.whole:
        raise RequestError("--setup makes the environment of an old tree; it goes with --whole")
    from samebits.bisect.commits import run
    from samebits.bisect.commits.run import CommitsRequest

    request = record_of(CommitsRequest, chosen, setup=_setup_words(chosen.setup), environment=variables)
    return "commits", functools.partial(run.bisect_commits, request)


def _setup_words(setup: str | None) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(setup or ""))
    except ValueError as error:
        raise RequestError(f"--setup {setup}: {error}") from None
    if setup is not None and not words:
        raise RequestError("--setup is empty; give a command line, such as 'make install'")
    return words


# --- flags ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FlagsOptions(PointOptions, SearchOptions):
    """The options of `samebits bisect flags`."""

    pair: Annotated[str, argument()]
    mesh: Annotated[str | None, option("Where the variant runs; on one device by default.", "MESH")] = None
    compiler_options: Annotated[
        tuple[str, ...], option("Try these options of XLA, no others.", "NAME=VALUE", "--option")
    ] = ()
    only: Annotated[bool, option("Try the options together, and nothing else.")] = False
    passes: Annotated[bool, option("Try passes even where an option heals.")] = False
    target: Annotated[str, option("A slice whose compiled program is searched: v5p:2x2x1, or cpu:8.", "T")] = ""
    devices: options.Devices = None
    root: options.Tree = None


@options.command(FlagsOptions, "flags")
def bisect_flags(chosen: FlagsOptions) -> int:
    """Find which compiler option or HLO pass makes the two sides of PAIR differ in bits.

    Options are tried by prior: excess precision, precision of products, optimisation level, fast math; then passes by
    name, those that changed one of the two programs. That an option did something is proven by the digests of the
    programs, since XLA ignores names that it does not know. What heals is not faulty for that: the distance of both
    sides from float64 says which one came closer.

    --target: the program that the compiler of a target made is run on the CPU, all partitions at once, and searched is
    the pass or option that makes it differ from what was written, as `samebits compile PAIR --run` says it; no TPU is
    needed. --case is the name of a program there, or one together with --variant, --mesh and the others.
    """
    chosen.require("case", *(() if chosen.target else ("variant",)))
    if chosen.only and not chosen.compiler_options:
        raise RequestError("--only tries the options given: add --option NAME=VALUE")
    session = chosen.session()
    from samebits.bisect.flags import FlagsRequest
    from samebits.bisect.flags import bisect_flags as search
    from samebits.bisect.point import PointRequest
    from samebits.host import environment

    request = record_of(FlagsRequest, chosen, point=record_of(PointRequest, chosen), options=chosen.compiler_options)
    devices, platform = chosen.devices, chosen.platform
    if chosen.target:  # compiling needs no accelerator
        devices, platform = devices or Target(name=chosen.target).cpu_devices, platform or "cpu"
    environment.prepare(devices=devices, platform=platform)
    _reject_tpu()
    return chosen.run("flags", lambda session: search(request, session), session, cached=False)


def _reject_tpu() -> None:
    """Reject a TPU, which has room for one process: both sides run in a second one, which an option may crash."""
    from samebits.host.accelerator import expected_platform

    if expected_platform() == "tpu":
        raise RequestError(
            "bisect flags runs both sides in a process of their own beside this one, and a TPU belongs to one process "
            "at a time; --platform cpu bisects on the CPU, `samebits check --shake` shakes on the TPU"
        )


# --- mesh ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FailingPoint(PointOptions):
    """At which point of a pair the search begins, and with which input."""

    HEADING = PointOptions.HEADING

    input_: Annotated[str | None, option("Run this input alone, zero but for --value.", "LABEL")] = None
    value: Annotated[tuple[str, ...], option("One element of that input.", "NAME[I, J]=X")] = ()


@dataclass(frozen=True, kw_only=True)
class ConfigOptions:
    """Which trainings are compared, in place of a pair."""

    HEADING = "In place of a pair"

    config: Annotated[str | None, option("A configuration of the full model.", "NAME")] = None
    against: Annotated[str | None, option("Another one; all references on one device by default.", "NAME")] = None
    choice: Annotated[tuple[str, ...], option("Another side of a pair.", "PAIR=SIDE")] = ()
    defect: Annotated[str | None, option("A defect of the model, planted.", "NAME")] = None
    steps: Annotated[int | None, option("Steps of every run; 2 by default.", "N", least=1)] = None
    most: Annotated[int | None, option("The most runs; 12 by default.", "N", least=2)] = None


@dataclass(frozen=True, kw_only=True)
class MeshOptions(ConfigOptions, FailingPoint, SearchOptions):
    """The options of `samebits bisect mesh`."""

    pair: Annotated[str | None, argument()] = None
    mesh: Annotated[str | None, option("On which it fails, such as expert8 or expert4_fsdp2.", "MESH")] = None
    size: Annotated[tuple[str, ...], option("Another size, to begin with.", "NAME=N")] = ()
    only: Annotated[bool, option("Judge this point alone, and shrink nothing.")] = False
    devices: options.Devices = None
    root: options.Tree = None

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of `--size`, by name."""
        return {name: _integer(name, text) for name, text in (_split("--size", size) for size in self.size)}


@options.command(MeshOptions, "mesh")
def bisect_mesh(chosen: MeshOptions) -> int:
    """Shrink what fails while it fails: the mesh, then the sizes, then the inputs.

    PAIR with --variant, --case and --mesh is judged as `samebits check` judges it. Inputs are cut down to the fewest
    nonzero elements, and these to small integers, as long as the same leaf differs in the same kind.

    --config is judged by training a few steps beside all references on one device: it fails where the two are
    `different`, at the same step; which array is furthest may change with the sizes.
    """
    if (chosen.pair is None) == (chosen.config is None):
        raise RequestError("give a PAIR with --variant, --case and --mesh, or --config NAME; one of them")
    for name in given(chosen, ConfigOptions) if chosen.pair is not None else given(chosen, PointOptions, FailingPoint):
        other = "--config" if chosen.pair is not None else "a PAIR"
        raise RequestError(f"{name} goes with {other}; leave it out")
    sizes, session = chosen.sizes, chosen.session()
    return (_config_search if chosen.pair is None else _pair_search)(chosen, sizes, session)


def _config_search(chosen: MeshOptions, sizes: dict[str, int], session: Session) -> int:
    from samebits.bisect.mesh_config import ConfigRequest, bisect_config, wanted_devices
    from samebits.host import environment

    request = record_of(
        ConfigRequest, chosen, sizes=sizes, choices=chosen.choice, steps=chosen.steps or 2, most=chosen.most or 12
    )
    wanted = wanted_devices(request)
    devices = chosen.devices or (wanted if wanted > environment.asked_devices() else None)
    environment.prepare(devices=devices, platform=chosen.platform)
    return chosen.run("mesh", lambda session: bisect_config(request, session), session)


def _pair_search(chosen: MeshOptions, sizes: dict[str, int], session: Session) -> int:
    """Search from one failing point of a pair."""
    values = {name: _number(name, text) for name, text in (_split("--value", value) for value in chosen.value)}
    chosen.require("variant", "case", "mesh")
    from samebits.bisect.mesh import bisect_mesh as search
    from samebits.bisect.point import PointRequest
    from samebits.host import environment

    request = record_of(PointRequest, chosen, sizes=sizes, label=chosen.input_, values=values)
    environment.prepare(devices=chosen.devices, platform=chosen.platform)
    return chosen.run("mesh", lambda session: search(request, session), session, cached=False)


def _split(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value:
        example = "rows=4" if option == "--size" else "'x[0, 1]=1'"
        raise RequestError(f"{option} {text}: expected a name and a number, as in {example}")
    return name, value


def _integer(name: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise RequestError(f"--size {name}={text}: expected an integer of at least 1")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise RequestError(f"--value {name}={text}: '{text}' is not a number") from None


# --- pairs and steps -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TrainingChoice:
    """Which trainings are compared."""

    HEADING = "The trainings"

    config: Annotated[str | None, option("The training that differs: a configuration, or MATRIX/RUN.", "NAME")] = None
    against: Annotated[str | None, option("The good one; by default the same with all references.", "NAME")] = None
    choices: Annotated[tuple[str, ...], option("Another side in --config.", "PAIR[@SITE]=SIDE", "--choice")] = ()
    shard_mode: Annotated[Literal["auto", "explicit"] | None, option("Another sharding mode of --config.")] = None
    defect: Annotated[str | None, option("A defect of the model, planted into --config.", "NAME")] = None
    steps: Annotated[int, option("Of every run.", "N", least=1)] = 20


@dataclass(frozen=True, kw_only=True)
class EndpointOptions(TrainingChoice, SearchOptions):
    """The options of a search between two trainings."""

    mesh: Annotated[str | None, option("Another mesh, of --config or of a pair.", "MESH")] = None
    root: options.Tree = None

    def endpoints(self) -> EndpointsRequest:
        """Return the two trainings, once as many devices as they need are started."""
        from samebits.bisect.endpoints import EndpointsRequest, endpoints_of
        from samebits.host import environment
        from samebits.schema.meshes import MeshSpec

        request = record_of(EndpointsRequest, self)
        ends = endpoints_of(request)
        wanted = max(MeshSpec.parse(config.mesh).devices for config in (ends.good, ends.bad))
        devices = wanted if wanted > environment.asked_devices() else None
        environment.prepare(devices=devices, platform=self.platform_here())
        return request

    def platform_here(self) -> str | None:
        """Return the platform of this process: the one that was asked for."""
        return self.platform


@dataclass(frozen=True, kw_only=True)
class PairsOptions(ClusterOptions, EndpointOptions):
    """The options of `samebits bisect pairs`."""

    only: Annotated[
        str | None, option("Judge this one set of choices, as an earlier search named it.", "NAME,NAME")
    ] = None
    most: Annotated[int, option("The most sets that are judged.", "N", least=1)] = 200

    def platform_here(self) -> str | None:
        """Return the platform of this process: the CPU where trainings run on Ray."""
        return self.driver_platform(self.platform)


@options.command(PairsOptions, "pairs")
def bisect_pairs(chosen: PairsOptions) -> int:
    """Find the choices of the model, per pair and per layer, that make a training diverge from the good one.

    All minimal sets are named, including those that fail only in combination. Changes are mixed as `moe@layer2`: one
    side of one pair in one layer. Trainings run in a worker process: one that crashes or does not end is UNTESTABLE,
    and the search goes on.
    """
    session, request = chosen.session(), chosen.endpoints()
    settings = replace(chosen.settings_on(chosen.platform), workers=None if chosen.in_process else 1)
    choices = tuple(name for name in (chosen.only or "").split(",") if name)
    return chosen.run(
        "pairs",
        lambda session: search_on_engine(request, session, choices, chosen.most, settings),
        session,
        settings=settings,
    )


def search_on_engine(
    request: EndpointsRequest, session: Session, only: Sequence[str], most: int, settings: EngineSettings
) -> SearchFinding:
    """Find the choices that make the bad training diverge, with the search here and trainings in a worker process.

    Raises:
        RequestError: the request is invalid.
        NothingFails: the bad training does not diverge from the good one.
    """
    from samebits.bisect.pairs import bisect_pairs as search
    from samebits.engine.bisect_work import BisectWork, JudgeOnEngine
    from samebits.engine.drive import Limits
    from samebits.engine.run_work import executor_of

    work = BisectWork(request)
    with contextlib.closing(executor_of(work, 1, settings)) as executor:
        judge = JudgeOnEngine(work, executor, Limits(seconds=settings.seconds, bytes=settings.bytes))
        return search(request, session, only, most, judge)


@options.command(EndpointOptions, "steps")
def bisect_steps(chosen: EndpointOptions) -> int:
    """Find the first step that differs, and whether in the forward pass, the backward pass or the update.

    Every step of the training that differs starts from the good one's state before that step, so that differences which
    a run only carries along are not attributed to it.
    """
    session, request = chosen.session(), chosen.endpoints()
    from samebits.bisect.steps import bisect_steps as search

    return chosen.run("steps", lambda session: search(request, session), session)


# --- tensors -------------------------------------------------------------------------------------------------------


GROUPS = {"a PAIR": PointOptions, "two functions": TwoFunctions, "a training": TrainingChoice}
"""By what is searched, the options that go with it."""


@dataclass(frozen=True, kw_only=True)
class TensorsOptions(PointOptions, TwoFunctions, EndpointOptions):
    """The options of `samebits bisect tensors`."""

    names: Annotated[tuple[str, ...], argument("[PAIR | MODULE:FUNCTION MODULE:FUNCTION]")] = ()

    def point(self) -> PointRequest:
        """Return the point of the pair; what is not given is the first that there is."""
        from samebits.bisect.point import PointRequest

        named = {name: getattr(self, name) or "" for name in ("variant", "case", "mesh")}
        return record_of(PointRequest, self, pair=self.names[0], **named)

    def pair(self) -> Pair:
        """Return the declared pair, or the two functions as one."""
        from samebits.programs.catalogue import Locator, load

        if len(self.names) == 1:
            return load(Locator(name=self.names[0], root=None if self.root is None else str(self.root)))
        from samebits.cli.compare_run import functions_as_pair

        reference, variant = self.names
        functions = CompareFunctionsOptions(
            reference=reference, variant=variant, arg=self.arg, static=self.static, rename=self.rename
        )
        return functions_as_pair(replace(functions, mesh=self.mesh or "none", mode=self.mode or "auto"))


@options.command(TensorsOptions, "tensors")
def bisect_tensors(chosen: TensorsOptions) -> int:
    """Find the first tensor, in the order of computation, that is wrong although what it is computed from is right.

    PAIR, or two functions: both programs are interpreted and their values aligned by what they are, not by name. Named
    are the first value that occurs nowhere in the reference although its operands do, and its line on both sides. Of a
    pair, side and case are the first by default, and the output is the first that differs.

    --config: of a training, the first tensor that exceeds its bound when its block gets the good inputs. Both steps are
    interpreted at the smallest sizes, without compiling; what goes into each part of the model, and the cotangents of
    what comes out of it, are those of the good training. Forward and backward. Tensors that differ without reaching
    the loss, the gradients or the new state are passed over.
    """
    session = chosen.session()
    _require_one_kind(chosen)
    if not chosen.names:
        request = chosen.endpoints()
        from samebits.bisect.tensors import bisect_tensors as search

        return chosen.run("tensors", lambda session: search(request, session), session)
    from samebits.host import environment

    environment.prepare(platform=chosen.platform)
    return chosen.run("tensors", lambda _: _of_pair(chosen), session, cached=False)


def _of_pair(chosen: TensorsOptions) -> SearchFinding:
    from samebits.bisect.pair_tensors import align_pair
    from samebits.bisect.session import again

    words = [*chosen.names, *words_of(chosen, PointOptions, TwoFunctions)]
    return align_pair(chosen.pair(), chosen.point(), again("tensors", *words, mesh=chosen.mesh, root=chosen.root))


def _require_one_kind(chosen: TensorsOptions) -> None:
    """Raise unless the options are those of a training, of a pair, or of two functions."""
    if len(chosen.names) > 2:
        raise RequestError(f"got {len(chosen.names)} names; expected a PAIR, or two functions as MODULE:FUNCTION")
    kinds = {0: "a training", 1: "a pair", 2: "two functions"}
    allowed = {0: ("a training",), 1: ("a PAIR",), 2: ("a PAIR", "two functions")}[len(chosen.names)]
    for owner, group in GROUPS.items():
        for name in given(chosen, group) if owner not in allowed else ():
            raise RequestError(f"{name} goes with {owner}, and {kinds[len(chosen.names)]} was named; leave it out")
    if len(chosen.names) == 2 and not chosen.arg:
        raise RequestError(f"no --arg: declare what {chosen.names[0]} takes, as in {EXAMPLES}")


for _command in (bisect_commits, bisect_flags, bisect_mesh, bisect_pairs, bisect_steps, bisect_tensors):
    bisect.add_command(_command)
