"""Plants a fault and runs the public check on it and on the correct implementation, at the same points."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import pkgutil
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from samebits.audit.faults.fault import Fault
from samebits.audit.snapshots.hold import compare_to_places
from samebits.audit.snapshots.record import exceeds_contract, place
from samebits.check.run_points import run_points
from samebits.errors import DeclarationError
from samebits.programs.catalogue import Locator, load
from samebits.programs.implementations import implementation
from samebits.programs.plan import plan
from samebits.programs.program_cache import Programs
from samebits.schema.pair import Pair
from samebits.schema.result import Result


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultOutcome:
    """The result of checking a fault.

    Args:
        caught: whether a result failed with the verdict and kind that the fault names.
        honest: whether every result at the same points satisfies its contract without the fault.
        said: the first relevant failure, in one line.
        results, failed: the number of results, and how many of them failed.
        by: `contract`, or `snapshot` if the contract accepts the result and only the comparison with the verdicts of
            the correct implementation, taken in the same run, does not.
    """

    caught: bool
    honest: bool
    said: str
    results: int
    failed: int
    by: str = "contract"


def plant(fault: Fault, pair: Pair) -> Pair:
    """The pair with the fault planted; a fault of samebits itself leaves the pair unchanged.

    Raises:
        DeclarationError: the text to edit does not occur exactly once, so the table is out of date.
    """
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
    module = types.ModuleType(name)
    module.__file__ = path
    # Dataclasses and tracebacks look a module up by its name.
    sys.modules[name] = module
    exec(compile(source, path, "exec"), module.__dict__)
    function = getattr(module, honest.__name__)
    if fault.side == pair.reference_name:
        return dataclasses.replace(pair, reference=function)
    declared = dict(pair.variants) if isinstance(pair.variants, Mapping) else {name: name for name in pair.variants}
    return dataclasses.replace(pair, variants={**declared, fault.side: function})


def check(fault: Fault, root: Path, programs: Programs | None = None) -> FaultOutcome:
    """Check a fault and the correct implementation at the same points.

    Args:
        fault: the fault to plant.
        root: the tree of its pair.
        programs: the cache of compiled programs; None for a new one.
    """
    own = programs or Programs()
    try:
        return _check(fault, root, own)
    finally:
        own.forget(fault.pair)
        if programs is None:
            own.close()


def _check(fault: Fault, root: Path, programs: Programs) -> FaultOutcome:
    locator = Locator(name=fault.pair, root=str(root))
    pair = load(locator)
    honest = _run(pair, locator, fault, programs)
    if fault.patch is not None:
        # The patch replaces a part of samebits; cached programs that were traced without it would hide it.
        programs.forget(pair.name)
    faulty_pair = plant(fault, pair)
    try:
        with _patched(fault):
            results = _run(faulty_pair, locator, fault, programs)
    except Exception as error:  # one of ours may be what must be raised; any other is a miss, and the others are run
        name = type(error).__name__
        return FaultOutcome(
            caught=name == fault.verdict, honest=_all_ok(honest), said=f"{name}: {error}", results=0, failed=1
        )
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
    return FaultOutcome(
        caught=bool(telling),
        honest=_all_ok(honest),
        said=_say(first),
        results=len(results),
        failed=len(failed),
        by=by if telling else "",
    )


def _telling(fault: Fault, failed: list[Result]) -> list[Result]:
    """The failures that the fault names."""
    return [
        r
        for r in failed
        if r.verdict == fault.verdict and (fault.kind is None or fault.kind in str(r.kind or r.reason))
    ]


def _run(pair: Pair, locator: Locator, fault: Fault, programs: Programs) -> list[Result]:
    request = fault.request if fault.request.variants else dataclasses.replace(fault.request, variants=(fault.side,))
    points = plan(pair, request, devices=8).points
    return list(run_points(pair, locator, points, programs))


def _all_ok(results: list[Result]) -> bool:
    return bool(results) and all(result.ok for result in results)


def _say(result: Result | None) -> str:
    if result is None:
        return "nothing failed"
    where = f"{result.mesh} {result.direction} {result.leaf}"
    return f"{where}: {result.verdict}, {result.reason if result.snapshot else result.evidence or result.reason}"


@contextlib.contextmanager
def _patched(fault: Fault) -> Iterator[None]:
    if fault.patch is None:
        yield
        return
    target, replacement = fault.patch
    module, _, attribute = target.partition(":")
    outer, _, last = attribute.rpartition(".")
    with mock.patch.object(pkgutil.resolve_name(f"{module}:{outer}"), last, replacement):
        yield
