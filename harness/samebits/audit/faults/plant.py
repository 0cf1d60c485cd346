"""Plants a fault and runs the public check on it and on the correct implementation, at the same points."""

from __future__ import annotations

import contextlib
import functools
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from samebits.audit.faults.fault import Fault, FaultRow
from samebits.audit.snapshots import compare_to_places, exceeds_contract, place
from samebits.check.run_points import run_points
from samebits.errors import DeclarationError, MeshError
from samebits.host.environment import devices_here
from samebits.host.installed import PACKAGE, is_installed
from samebits.host.interrupts import Stop
from samebits.host.isolation import undone
from samebits.programs.catalogue import Locator, load
from samebits.programs.implementations import implementation
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from samebits.user_errors import one_line


def plant(fault: Fault, pair: Pair) -> Pair:
    """Return the pair with the fault planted; a fault of samebits itself leaves the pair unchanged."""
    if not fault.old:
        return pair
    honest = implementation(pair, fault.side)
    path = inspect.getsourcefile(inspect.unwrap(honest))
    assert path is not None
    source = Path(path).read_text(encoding="utf-8")
    olds, news = ((text,) if isinstance(text, str) else text for text in (fault.old, fault.new))
    for old, new in zip(olds, news, strict=True):
        if source.count(old) != 1:
            raise DeclarationError(
                f"fault '{fault.name}': '{old}' occurs {source.count(old)} times in {path}; expected 1"
            )
        source = source.replace(old, new)
    name = f"faulty_{Path(path).parent.name}_{fault.pair}"
    module = ModuleType(name)
    module.__file__ = path
    # Dataclasses and tracebacks look a module up by its name.
    sys.modules[name] = module
    where = f"fault '{fault.name}': {path} with the edit"
    try:
        with undone(f"importing {path} with the fault '{fault.name}'", importing=True):
            exec(compile(source, path, "exec"), module.__dict__)
    except BaseException as error:  # `sys.exit()` is no `Exception`
        if Stop.caused(error):
            raise
        raise DeclarationError(f"{where} {one_line(error)}") from error
    function = getattr(module, honest.__name__, None)
    if function is None:
        raise DeclarationError(f"{where} has no function '{honest.__name__}'")
    if fault.side == pair.reference_name:
        return replace(pair, reference=function)
    declared = dict(pair.variants) if isinstance(pair.variants, Mapping) else {name: name for name in pair.variants}
    return replace(pair, variants={**declared, fault.side: function})


def check(fault: Fault, root: Path) -> FaultRow:
    """Check one fault and the correct implementation at the same points."""
    checks = FaultChecks(root)
    try:
        return checks.check(fault)
    finally:
        checks.close()


class FaultChecks:
    """Checks the faults of a tree one after another; give those of one pair in a row.

    The faults of a pair share its declaration, the programs of its correct implementation, and the results of that
    where they have the same points.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._locator = Locator(name="")
        self._pair: Pair | None = None
        self._programs = Programs()
        self._honest: dict[Request, list[Finding]] = {}

    def check(self, fault: Fault) -> FaultRow:
        """Check a fault and the correct implementation at the same points."""
        pair, patch = self._load(fault.pair), _patch(fault)
        request = fault.request if fault.request.variants else replace(fault.request, variants=(fault.side,))
        if request not in self._honest:
            self._honest[request] = list(self._run(pair, request, self._programs))
        honest = self._honest[request]
        if unfit := next((result for result in honest if result.ruling.verdict == "skipped"), None):
            raise MeshError(f"not tried here: {unfit.ruling.reason}")
        with modules_as_before(self._root):
            faulty_pair = plant(fault, pair)
            try:
                with patch, self._programs_for(fault) as programs:
                    results = list(self._run(faulty_pair, request, programs))
            except Exception as error:  # one of ours may be expected; any other is a miss
                name = type(error).__name__
                said = _without_fault(honest) or f"{name}: {error}"
                caught = name == fault.verdict
                return FaultRow.of(fault, caught=caught, honest=_all_ok(honest), said=said, failed=1)
        return _outcome(fault, honest, results)

    def close(self) -> None:
        """Drop all programs and stop their threads."""
        self._forget()
        self._programs.close()

    def _load(self, name: str) -> Pair:
        if self._pair is None or self._locator.name != name:
            self._forget()
            self._locator = Locator(name=name, root=str(self._root))
            self._pair = load(self._locator).on(devices_here()[0].platform)
        return self._pair

    def _forget(self) -> None:
        if self._pair is not None:
            self._programs.forget(self._pair.name)
        self._pair = None
        self._honest.clear()

    @contextlib.contextmanager
    def _programs_for(self, fault: Fault) -> Iterator[Programs]:
        """Lend the cache for a faulty run; what is traced in it is dropped at the end."""
        if fault.patch is None:
            with self._programs.for_now():
                yield self._programs
            return
        # The patch replaces a part of samebits: programs that were traced without it would hide it.
        programs = Programs()
        try:
            yield programs
        finally:
            programs.forget(fault.pair)
            programs.close()

    def _run(self, pair: Pair, request: Request, programs: Programs) -> Iterator[Finding]:
        return run_points(pair, self._locator, plan(pair, request, devices=8).points, programs)


def _outcome(fault: Fault, honest: list[Finding], results: list[Finding]) -> FaultRow:
    failed, by = [result for result in results if result.failed], "contract"
    if not _telling(fault, failed):
        # Contracts hold on every machine; what is equal on this one beyond them is held by a snapshot of verdicts.
        equal = {place(result) for result in honest if exceeds_contract(result)}
        results = [
            compare_to_places(result, equal, "the honest implementation's verdict of this run") for result in results
        ]
        failed, by = [result for result in results if result.failed], "snapshot"
    telling = _telling(fault, failed)
    first = next(iter(telling or failed), None)
    return FaultRow.of(
        fault,
        caught=bool(telling),
        honest=_all_ok(honest),
        said=_without_fault(honest) or _say(first),
        results=len(results),
        failed=len(failed),
        by=by if telling else "",
    )


def _telling(fault: Fault, failed: list[Finding]) -> list[Finding]:
    """Return the failures that the fault names."""
    return [
        r
        for r in failed
        if _has_verdict(r, fault.verdict)
        and (fault.kind is None or fault.kind in str(r.comparison.kind or r.ruling.reason))
    ]


def _has_verdict(result: Finding, verdict: str) -> bool:
    """Return whether a result has this verdict, or says that the planted code raised the exception of this name."""
    if result.ruling.verdict == verdict:
        return True
    # The first: the text of an exception may quote another one.
    raised = re.search(r"(?:^|\s)raised (\w+)", str(result.ruling.reason)) if result.ruling.verdict == "error" else None
    return raised is not None and raised[1] == verdict


def _all_ok(results: list[Finding]) -> bool:
    return bool(results) and all(result.ruling.ok for result in results)


def _without_fault(honest: list[Finding]) -> str:
    """Return the first failure of the correct implementation, with which a fault proves nothing."""
    failing = next((result for result in honest if not result.ruling.ok), None)
    return "" if failing is None else f"without the fault: {_say(failing)}"


def _say(result: Finding | None) -> str:
    if result is None:
        return "nothing failed"
    where = f"{result.place.mesh} {result.place.direction} {result.place.leaf}"
    ruling = result.ruling
    return f"{where}: {ruling.verdict}, {ruling.reason if ruling.snapshot else ruling.evidence or ruling.reason}"


def _patch(fault: Fault) -> contextlib.AbstractContextManager[Any]:
    """Return the patch of a fault, for the duration of a `with` block."""
    if fault.patch is None:
        return contextlib.nullcontext()
    target, replacement = fault.patch
    module, _, attribute = target.partition(":")
    outer, _, last = attribute.rpartition(".")
    try:
        holder = pkgutil.resolve_name(f"{module}:{outer}")
        getattr(holder, last)
    except (ImportError, AttributeError, ValueError) as error:
        raise DeclarationError(f"fault '{fault.name}': there is no '{target}' to patch: {error}") from error
    return mock.patch.object(holder, last, replacement)


_CONTAINERS = (dict, list, set)


@contextlib.contextmanager
def modules_as_before(root: Path) -> Iterator[None]:
    """Put names, classes and containers of a tree's modules back at the end."""
    spaces = list(_spaces(root))
    before = [(space, dict(vars(space))) for space in spaces]
    contents = {id(value): (value, value.copy()) for _, names in before for value in _containers(names)}
    try:
        yield
    finally:
        for space, names in before:
            _put_back(space, names)
        for value, content in contents.values():
            value.clear()
            (value.extend if isinstance(value, list) else value.update)(content)


def _spaces(root: Path) -> Iterator[ModuleType | type]:
    """Yield the loaded modules of a tree, and the classes that they define."""
    top = root.resolve()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(module, ModuleType) and isinstance(file, str) and _is_theirs(file, str(top)):
            yield module
            yield from {
                value
                for value in vars(module).values()
                if isinstance(value, type) and value.__module__ == module.__name__
            }


@functools.lru_cache(maxsize=65536)
def _is_theirs(file: str, top: str) -> bool:
    path = Path(file)
    return Path(top) in path.parents and PACKAGE.parent not in path.parents and not is_installed(file)


def _containers(names: Mapping[str, Any]) -> Iterator[Any]:
    yield from (value for name, value in names.items() if type(value) in _CONTAINERS and not name.startswith("__"))


def _put_back(space: ModuleType | type, names: Mapping[str, Any]) -> None:
    now = dict(vars(space))
    for name in now.keys() - names.keys():
        delattr(space, name)
    for name, value in names.items():
        if name not in now or now[name] is not value:
            setattr(space, name, value)
