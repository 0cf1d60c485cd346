"""Every planted fault is caught, by the verdict that it names, and its honest twin passes at the same points."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from harness import environment
from harness.tests.faults import all_faults
from harness.tests.faults.fault import Fault, check
from harness.tests.faults.several import checked

environment.prepare()
FAULTS = all_faults()

MOST = 1
"""Edits of one pair in the normal run, beside all breakages of the harness; the others are slow tests."""


def _param(fault: Fault) -> Any:
    name = f"{fault.pair}: {fault.name}".replace(" ", "_")
    return pytest.param(fault, id=name, marks=(pytest.mark.slow,) if fault in _SLOW else ())


def _slow() -> list[Fault]:
    quick: Counter[str] = Counter()
    found = []
    for fault in FAULTS:
        if fault.slow or (fault.patch is None and quick[fault.pair] == MOST):
            found.append(fault)
        elif fault.patch is None:
            quick[fault.pair] += 1
    return found


_SLOW = _slow()


@pytest.mark.cpu_only
@pytest.mark.parametrize("fault", [_param(fault) for fault in FAULTS])
def test_fault_is_caught(fault: Fault) -> None:
    """The public check fails on the fault and holds without it."""
    found = check(fault)
    assert found.honest, f"the honest '{fault.side}' fails at the same points; the fault proves nothing"
    assert found.caught, f"'{fault.name}' came out as: {found.said} ({found.failed} of {found.results} results failed)"


def test_there_are_at_least_forty_with_names_of_their_own() -> None:
    """The promise of the README, and ids that pytest can tell apart."""
    names = {(fault.pair, fault.name) for fault in FAULTS}
    assert len(names) == len(FAULTS) >= 40


@pytest.mark.cpu_only
def test_processes_are_gone_when_their_faults_are_not_wanted_any_more() -> None:
    """What is left running is closed under the interpreter's end, which then prints a traceback."""
    quick = [number for number, fault in enumerate(FAULTS) if fault.verdict == "CheckerBroken"][:3]
    found = checked(quick, workers=2)
    number, first = next(found)
    assert number in quick and first.caught
    found.close()
    assert [one for one in threading.enumerate() if "ExecutorManager" in type(one).__name__] == []


def test_a_fault_that_edits_nothing_is_refused() -> None:
    """A table that went out of date must not count as caught."""
    from harness.catalogue import Locator, load
    from harness.tests.faults.fault import ROOT, plant

    stale = Fault(name="stale", pair="rms_norm", side="multiply", old="no such text", new="")
    with pytest.raises(AssertionError, match="occurs 0 times"):
        plant(stale, load(Locator(name="rms_norm", root=str(ROOT))))


def test_a_stale_patch_is_a_miss_and_does_not_end_the_run() -> None:
    """As where the patched function has another signature by now."""
    from harness.tests.faults import rms_norm

    def stale() -> None:
        """Takes no arguments."""

    fault = Fault(
        name="stale",
        pair="rms_norm",
        side="multiply",
        patch=("harness.interpret.identity:compared", stale),
        request=rms_norm.FAULTS[0].request,
        verdict="CheckerBroken",
    )
    found = check(fault)
    assert (found.caught, found.honest) == (False, True)
    assert "TypeError: " in found.said and "stale() takes 0 positional arguments" in found.said


def test_an_honest_edit_is_not_caught() -> None:
    """The machinery itself is no reason for a failure: an edit that changes nothing passes."""
    from harness.tests.faults import rms_norm

    template = rms_norm.FAULTS[0]
    unchanged = Fault(
        name="unchanged",
        pair=template.pair,
        side=template.side,
        old=template.old,
        new=template.old,
        request=template.request,
    )
    found = check(unchanged)
    assert found.honest
    assert not found.caught
