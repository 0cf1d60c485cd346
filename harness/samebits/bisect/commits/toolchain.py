"""`samebits bisect commits --toolchain`: the packages whose versions cause a failure."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samebits.bisect.commits.command import judge_command, require_check, samebits_command
from samebits.bisect.commits.environments import (
    Pins,
    build,
    package_path,
    pinned_versions,
    pins_text,
    read_pins,
    required_pins,
)
from samebits.bisect.commits.finding import numbers_in_words
from samebits.bisect.commits.request import Run
from samebits.bisect.read_documents import read_observations
from samebits.bisect.result import Finding, Session, command, files_digest
from samebits.bisect.search.history import least_runs
from samebits.bisect.search.judgement import Judgement, untestable
from samebits.bisect.search.minimal_sets import minimal_sets
from samebits.bisect.search.trials import Trials
from samebits.compile.cache import cache_folder
from samebits.errors import CouldNotRun, RequestError
from samebits.host.package import PACKAGE
from samebits.host.subprocesses import ProcessResult, run_process
from samebits.programs import catalogue
from samebits.programs.catalogue import SUITES, default_root

Point = frozenset[str]
"""The packages that are as in the second file; the others are as in the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolchainRequest:
    """What is searched.

    Args:
        good, bad: files of pins; with the first the check passes, with the second it fails.
        check: a samebits command, word by word.
        root: the tree; the current one by default. It is today's at every point.
        timeout: of one check, in seconds.
        environment: of pip and of the check.
        extra: pins of what the harness needs beside; from this environment by default.
        build: makes an environment, and gives its Python.
        run: runs a command line.
    """

    good: Path
    bad: Path
    check: tuple[str, ...]
    root: Path | None = None
    timeout: float | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    extra: Pins | None = None
    build: Callable[[Pins, Mapping[str, str]], Path] = build
    run: Run = run_process

    @property
    def tree(self) -> Path:
        """The tree of today."""
        return self.root or default_root()


def bisect_toolchain(request: ToolchainRequest, session: Session) -> Finding:
    """Find the packages whose versions cause a failure: all minimal sets of them.

    Sets that pip refuses, as a jax beside a jaxlib that does not fit, cannot be judged and do not count as failing.

    Raises:
        RequestError: a file pins nothing, both pin the same, or the check is wrong.
        NothingFails: with the second file the check passes.
        CouldNotRun: an end does not repeat.
    """
    check = require_check(request.check)
    good, bad = read_pins(request.good), read_pins(request.bad)
    names = [name for name in dict.fromkeys([*good, *bad]) if good.get(name) != bad.get(name)]
    if not names:
        raise RequestError(f"--toolchain {request.good} {request.bad}: both pin the same; nothing tells them apart")
    extra = required_pins(check[0] == "train" or "model" in check) if request.extra is None else request.extra

    def pins(point: Point) -> Pins:
        mixed = {name: (bad if name in point else good).get(name, ()) for name in [*good, *bad]}
        return {name: lines for name, lines in {**extra, **mixed}.items() if lines}

    with tempfile.TemporaryDirectory(prefix="samebits-toolchain-") as folder:
        tree = _copied(request.tree, Path(folder) / "tree")
        judge = _ToolchainJudge(request=request, check=check, pins=pins, tree=tree, folder=Path(folder))
        own = PACKAGE
        code = [path for path in own.rglob("*.py") if "tests" not in path.relative_to(own).parts]
        trials = session.trials(
            judge,
            searched={
                "what": "toolchain",
                "check": check,
                "timeout": request.timeout,
                "tree": files_digest([path for path in tree.rglob("*") if path.is_file()], tree),
                "harness": files_digest(code, own),
                "bad": pins_text(pins(frozenset(names))),
            },
            key=lambda point: pins_text(pins(point)),
            label=lambda point: _label(point, names, good, bad),
        )
        end: Point = frozenset(names)
        if trials.remembers(end):
            judge.wanted = trials.known(end).signature
        trials.ends(frozenset(), end)
        judge.wanted = trials.signature
        found = minimal_sets(names, trials.fails)
        return _finding(request, check, trials, found.minimal, found.whole, good, bad, names, pins)


def _copied(tree: Path, to: Path) -> Path:
    """What of a tree runs, as it is now: what runs leaves nothing in the user's, and edits change nothing.

    Raises:
        RequestError: it has no suites.
    """
    if not (tree / SUITES).is_dir():
        raise RequestError(f"'{tree}' has no {SUITES}/; give the tree of the check with --root")
    for folder in catalogue.FOLDERS:
        if (tree / folder).is_dir():
            shutil.copytree(tree / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return to


@dataclass(kw_only=True, slots=True)
class _ToolchainJudge:
    request: ToolchainRequest
    check: tuple[str, ...]
    pins: Callable[[Point], Pins]
    tree: Path
    folder: Path
    wanted: str | None = None

    def __call__(self, point: Point) -> Judgement:
        request, pins = self.request, self.pins(point)
        document = self.folder / "document.json"
        document.unlink(missing_ok=True)
        try:
            python = request.build(pins, request.environment)
            # Nothing but the harness comes from outside: else its folder's packages would hide the pinned ones.
            environment = {**request.environment, "PYTHONPATH": str(package_path(self.folder / "path"))}
            words = samebits_command(self.check, self.tree, document, str(python))
            ended = request.run(words, Path.cwd(), environment, request.timeout)
        except CouldNotRun as error:
            return untestable(str(error))
        place = f"{self.tree}/"
        ended = ProcessResult(code=ended.code, out=ended.out.replace(place, ""), err=ended.err.replace(place, ""))
        text = document.read_text(encoding="utf-8").replace(place, "") if document.is_file() else ""
        other = _other_version(text, pins)
        if other:
            return untestable(other)
        found = judge_command(ended, read_observations(text) if text else None, self.wanted)
        if self.wanted is None and found.outcome == "fail":
            self.wanted = found.signature
        return found


def _other_version(text: str, pins: Pins) -> str:
    """What ran with another version than its pin, if anything: a path before the environment's own."""
    try:
        ran: dict[str, Any] = json.loads(text)["environment"]["versions"]
    except (ValueError, KeyError, TypeError):
        return ""
    for name, version in ran.items():
        lines = pins.get(name.replace("_", "-"), ())
        if (
            len(lines) == 1
            and ";" not in lines[0]
            and version
            and pinned_versions(pins, name.replace("_", "-")) != version
        ):
            return f"ran with {name} {version}, and {lines[0]} is pinned"
    return ""


def _label(point: Point, names: list[str], good: Pins, bad: Pins) -> str:
    if len(point) in (0, len(names)):
        return "all as in the second file" if point else "all as in the first file"
    return ", ".join(f"{name} {pinned_versions(bad, name)}" for name in names if name in point)


def _finding(
    request: ToolchainRequest,
    check: tuple[str, ...],
    trials: Trials[Point],
    minimal: tuple[Point, ...],
    whole: bool,
    good: Pins,
    bad: Pins,
    names: list[str],
    pins: Callable[[Point], Pins],
) -> Finding:
    def change(one: Point) -> str:
        return " with ".join(
            f"{name} {pinned_versions(good, name)} -> {pinned_versions(bad, name)}" for name in names if name in one
        )

    signature = trials.signature or ""
    sets = [change(one) for one in minimal]
    cause = sets[0] if len(sets) == 1 else f"any of: {'; '.join(sets)};"
    start, end = trials.known(frozenset()), trials.known(minimal[0])
    notes = [f"{len(names)} packages differ: {', '.join(change(frozenset({name})) for name in names)}"]
    unknown = [trial for trial in trials.tried if trial.outcome in ("untestable", "ambiguous")]
    if not whole:
        notes.append("the limit of runs is reached; there may be other sets")
    if unknown and any(len(one) > 1 for one in minimal):
        notes.append("no smaller set is known to fail; some could not be judged")
    shown = cache_folder("toolchains") / "shown"
    shown.mkdir(parents=True, exist_ok=True)
    files = []
    for point in (frozenset[str](), minimal[0]):
        text = pins_text(pins(point))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        file = shown / f"{'-'.join(sorted(point))[:80] or 'before'}-{digest}.txt"
        file.write_text(text, encoding="utf-8")
        files.append(file)
    words = ["samebits", "bisect", "commits", "--toolchain", *map(str, files)]
    if request.root is not None:
        words += ["--root", str(request.root.resolve())]
    if request.timeout is not None:
        words += ["--timeout", f"{request.timeout:g}"]
    return Finding(
        what="commits --toolchain",
        found=True,
        sentence=f"{cause} introduced it: PASS before, FAIL ({signature}) with it",
        culprits=tuple(tuple(name for name in names if name in one) for one in minimal),
        witness=f"before: {numbers_in_words(start)}; with it: {numbers_in_words(end)}",
        replay=command(*words, "--", *check),
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        least=least_runs(len(names)),
        skipped=tuple(f"{trial.point}: {trial.detail}" for trial in unknown),
        notes=tuple(notes),
        detail={
            "good": str(request.good),
            "bad": str(request.bad),
            "check": check,
            "signature": signature,
            "packages": {name: [pinned_versions(good, name), pinned_versions(bad, name)] for name in names},
            "diff": "\n".join(
                f"{sign}{line}"
                for name in names
                for sign, lock in (("-", good), ("+", bad))
                for line in lock.get(name, ())
                if any(name in one for one in minimal)
            ),
        },
    )
