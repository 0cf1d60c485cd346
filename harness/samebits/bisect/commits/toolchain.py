"""`samebits bisect commits --toolchain`: finds the packages whose versions cause a failure.

Virtual environments are built from files of pinned packages.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from samebits.bisect.commits.command import judge_written, require_check, samebits_command
from samebits.bisect.commits.run import Run, numbers_in_words
from samebits.bisect.search.history import least_runs
from samebits.bisect.search.minimal_sets import MinimalSets, minimal_sets
from samebits.bisect.search.trials import Judgement, SearchFinding, Trials, space_of_sets, untestable
from samebits.bisect.session import Session, again, files_digest
from samebits.errors import CouldNotRun, RequestError
from samebits.host.cache_folder import cache_folder
from samebits.host.installed import PACKAGE
from samebits.host.subprocesses import run_process
from samebits.programs import catalogue
from samebits.programs.catalogue import SUITES, default_root

NEEDED = (
    *("jax", "jaxlib", "numpy", "ml_dtypes", "click", "rich", "protobuf", "platformdirs", "msgspec"),
    *("pytest", "hypothesis"),
)
"""Packages that samebits and the suites import. Every environment has them, at the versions installed here unless a
file pins them."""
NEEDED_FOR_TRAINING = ("flax", "optax")
"""Packages that a full model imports."""

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*==\s*([^\s;#*]+)\s*(;[^#]*)?")

Pins = Mapping[str, tuple[str, ...]]
"""The pins of each package: one line, or one for each version of Python."""


def read_pins(path: Path) -> Pins:
    """Return the pins of a file, by normalized package name.

    Raises:
        RequestError: it cannot be read, pins nothing, or contains a line that is not a pin.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RequestError(f"--toolchain {path}: cannot be read: {reason}") from None
    pins: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        pin = re.sub(r"(^|\s)#.*", "", line).strip()
        if not pin:
            continue
        match = _PIN.fullmatch(pin)
        if match is None:
            raise RequestError(f"--toolchain {path}:{number}: expected NAME==VERSION, got '{pin}'")
        name = normalized_name(match[1])
        marker = f" {match[4].strip()}" if match[4] else ""
        pins[name] = (*pins.get(name, ()), f"{name}{match[2] or ''}=={match[3]}{marker}")
    if not pins:
        raise RequestError(f"--toolchain {path}: pins nothing; expected lines NAME==VERSION")
    return pins


def normalized_name(name: str) -> str:
    """Return a package's name as PEP 503 normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned_versions(pins: Pins, name: str) -> str:
    """Return the pinned versions of a package, in words."""
    lines = pins.get(name)
    if not lines:
        return "none"
    return " or ".join(re.sub(r"^.*?==\s*", "", line) for line in lines)


def required_pins(training: bool) -> Pins:
    """Return pins of the packages that samebits imports, at this environment's versions."""
    pins = {}
    for name in (*NEEDED, *(NEEDED_FOR_TRAINING if training else ())):
        try:
            pins[normalized_name(name)] = (f"{normalized_name(name)}=={version(name)}",)
        except PackageNotFoundError:  # noqa: S112
            continue  # the check itself reports a missing package
    return pins


def pins_text(pins: Pins) -> str:
    """Return pins in the format of a requirements file."""
    return "".join(f"{line}\n" for name in sorted(pins) for line in pins[name])


def build(pins: Pins, environment: Mapping[str, str]) -> Path:
    """Return the Python interpreter of a virtual environment with these packages, built once and cached.

    Raises:
        CouldNotRun: pip rejects the set or cannot install it; the message is pip's.
    """
    text = pins_text(pins)
    digest = hashlib.sha256(f"{sys.version}\n{text}".encode()).hexdigest()[:24]
    folder = cache_folder("toolchains") / digest
    python = folder / "bin" / "python"
    done = folder / "pins.txt"
    if done.is_file() and done.read_text(encoding="utf-8") == text and python.exists():
        return python
    # Installed with this Python's pip, because ensurepip is not available everywhere.
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], environment)
    draft = folder / "asked.txt"
    draft.write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-input", "--requirement", str(draft)], environment)
    draft.replace(done)  # written last: an environment without this file is incomplete
    return python


def _run(words: list[str], environment: Mapping[str, str]) -> None:
    own = {name: text for name, text in environment.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        ended = subprocess.run(words, env=own, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise CouldNotRun(f"{words[0]} cannot be started: {error.strerror or error}") from None
    if ended.returncode:
        lines = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")]
        # For a contradictory set, the first error names the packages and the last one only links to documentation.
        message = next((line for line in errors if "Cannot install" in line), (errors or lines or ["nothing said"])[-1])
        raise CouldNotRun(" ".join(message.removeprefix("ERROR:").split())[:300])


def package_path(folder: Path) -> Path:
    """Return a folder from which `samebits` can be imported, without any other package of its environment."""
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "samebits"
    if not link.exists():
        os.symlink(PACKAGE, link, target_is_directory=True)
    return folder


Point = frozenset[str]
"""The packages pinned as in the second file; the others are pinned as in the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolchainRequest:
    """The request.

    Args:
        good, bad: files of pins; the check passes with the first and fails with the second.
        check: a samebits command, as words.
        root: the tree to check, the same at every point; the current one by default.
        environment: environment variables of pip and of the check.
        extra: pins of the packages that samebits needs; this environment's versions by default.
        build: builds a virtual environment, and returns its Python interpreter.
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
        """The tree to check."""
        return self.root or default_root()


@dataclass(frozen=True, kw_only=True, slots=True)
class _ToolchainSearch:
    """Two files of pins, and the points between them.

    Args:
        extra: pins of the packages that samebits needs; the files take precedence.
    """

    request: ToolchainRequest
    good: Pins
    bad: Pins
    extra: Pins

    @property
    def names(self) -> list[str]:
        """The packages that the files pin differently."""
        return [name for name in dict.fromkeys([*self.good, *self.bad]) if self.good.get(name) != self.bad.get(name)]

    def pins(self, point: Point) -> Pins:
        """Return all pins of a point."""
        mixed = {name: (self.bad if name in point else self.good).get(name, ()) for name in [*self.good, *self.bad]}
        return {name: lines for name, lines in {**self.extra, **mixed}.items() if lines}

    def label(self, point: Point) -> str:
        """Return a point in words."""
        if len(point) in (0, len(self.names)):
            return "all as in the second file" if point else "all as in the first file"
        return ", ".join(f"{name} {pinned_versions(self.bad, name)}" for name in self.names if name in point)

    def changes(self, packages: Point) -> str:
        """Return the changed versions of packages, in words."""
        return " with ".join(
            f"{name} {pinned_versions(self.good, name)} -> {pinned_versions(self.bad, name)}"
            for name in self.names
            if name in packages
        )

    def diff(self, sets: Sequence[Point]) -> str:
        """Return the changed pins of the packages in any of the sets, as a diff."""
        return "\n".join(
            f"{sign}{line}"
            for name in self.names
            for sign, pins in (("-", self.good), ("+", self.bad))
            for line in pins.get(name, ())
            if any(name in packages for packages in sets)
        )


def bisect_toolchain(request: ToolchainRequest, session: Session) -> SearchFinding:
    """Find the packages whose versions cause a failure: all minimal sets of them.

    Sets that pip rejects, such as a jax with an incompatible jaxlib, cannot be judged and do not count as failing.

    Raises:
        RequestError: a file pins nothing, both files pin the same versions, or the check is invalid.
        NothingFails: the check passes with the second file.
        CouldNotRun: the result at an end is not reproducible.
    """
    check = require_check(request.check)
    extra = required_pins(check[0] == "train" or "model" in check) if request.extra is None else request.extra
    search = _ToolchainSearch(request=request, good=read_pins(request.good), bad=read_pins(request.bad), extra=extra)
    names = search.names
    if not names:
        raise RequestError(f"--toolchain {request.good} {request.bad}: both pin the same versions; nothing to search")
    with tempfile.TemporaryDirectory(prefix="samebits-toolchain-") as folder:
        tree = _copied(request.tree, Path(folder) / "tree")
        judge = _ToolchainJudge(request=request, check=check, pins=search.pins, tree=tree, folder=Path(folder))
        trials = session.trials(
            "commits --toolchain",
            judge,
            searched={
                "check": check,
                "timeout": request.timeout,
                "tree": files_digest([path for path in tree.rglob("*") if path.is_file()], tree),
                "bad": pins_text(search.pins(frozenset(names))),
            },
            key=lambda point: pins_text(search.pins(point)),
            label=search.label,
        )
        trials.space = space_of_sets(names)
        end: Point = frozenset(names)
        if trials.remembers(end):
            judge.wanted = trials.known(end).signature
        trials.ends(frozenset(), end)
        judge.wanted = trials.signature
        return _finding(search, check, trials, minimal_sets(names, trials.fails))


def _copied(tree: Path, to: Path) -> Path:
    """Copy the folders of a tree that are run, so that runs and edits do not affect each other."""
    if not (tree / SUITES).is_dir():
        raise RequestError(f"'{tree}' has no {SUITES}/; give the tree of the check with --root")
    for folder in catalogue.FOLDERS:
        if (tree / folder).is_dir():
            shutil.copytree(tree / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return to


@dataclass(kw_only=True, slots=True)
class _ToolchainJudge:
    """Judges one set of pins: builds its environment, and runs the check in it."""

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
            # Only samebits is on PYTHONPATH: other packages of its site-packages would shadow the pinned ones.
            environment = {**request.environment, "PYTHONPATH": str(package_path(self.folder / "path"))}
            words = samebits_command(self.check, self.tree, document, str(python))
            ended = request.run(words, Path.cwd(), environment, request.timeout)
        except CouldNotRun as error:
            return untestable(str(error))
        other = _other_version(document, pins)
        if other:
            return untestable(other)
        judgement = judge_written(ended, document, self.wanted, self.tree)
        if self.wanted is None and judgement.outcome == "fail":
            self.wanted = judgement.signature
        return judgement


def _other_version(document: Path, pins: Pins) -> str:
    """Name the package that ran with another version than its pin, from an earlier entry of `sys.path`."""
    try:
        ran: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))["environment"]["versions"]
    except (OSError, ValueError, KeyError, TypeError):  # without a document the exit code decides
        return ""
    for name, there in ran.items():
        lines = pins.get(name.replace("_", "-"), ())
        if len(lines) == 1 and ";" not in lines[0] and there and pinned_versions(pins, name.replace("_", "-")) != there:
            return f"ran with {name} {there}, and {lines[0]} is pinned"
    return ""


def _finding(
    search: _ToolchainSearch, check: tuple[str, ...], trials: Trials[Point], sets: MinimalSets
) -> SearchFinding:
    request, names, minimal = search.request, search.names, sets.minimal
    signature = trials.signature or ""
    changes = [search.changes(packages) for packages in minimal]
    cause = changes[0] if len(changes) == 1 else f"any of: {'; '.join(changes)};"
    start, end = trials.known(frozenset()), trials.known(minimal[0])
    notes = [f"{len(names)} packages differ: {', '.join(search.changes(frozenset({name})) for name in names)}"]
    unknown = trials.unjudged("untestable", "ambiguous")
    if not sets.whole:
        notes.append("the limit of runs is reached; there may be other sets")
    if unknown and any(len(packages) > 1 for packages in minimal):
        notes.append("no smaller set is known to fail; some could not be judged")
    return trials.finding(
        found=True,
        sentence=f"{cause} introduced it: PASS before, FAIL ({signature}) with it",
        culprits=tuple(tuple(name for name in names if name in packages) for packages in minimal),
        witness=f"before: {numbers_in_words(start)}; with it: {numbers_in_words(end)}",
        replay=_replay(search, check, minimal[0]),
        least=least_runs(len(names)),
        skipped=unknown,
        notes=tuple(notes),
        detail={
            "good": str(request.good),
            "bad": str(request.bad),
            "check": check,
            "signature": signature,
            "packages": {
                name: [pinned_versions(search.good, name), pinned_versions(search.bad, name)] for name in names
            },
            "diff": search.diff(minimal),
        },
    )


def _replay(search: _ToolchainSearch, check: tuple[str, ...], packages: Point) -> str:
    """Return the command that repeats the search between two files of pins that differ only in the culprits."""
    folder = cache_folder("toolchains") / "shown"
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for point in (frozenset[str](), packages):
        text = pins_text(search.pins(point))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        file = folder / f"{'-'.join(sorted(point))[:80] or 'before'}-{digest}.txt"
        file.write_text(text, encoding="utf-8")
        files.append(file)
    request = search.request
    options = {"root": request.root, "timeout": request.timeout}
    return again("commits", "--toolchain", *map(str, files), check=check, **options)
