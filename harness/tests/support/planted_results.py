"""The results of the check of a pair with a planted fault, at points that show where the fault ends."""

import functools
from collections.abc import Sequence
from typing import Any

from samebits.audit.faults.fault import Fault, all_faults
from samebits.audit.faults.plant import plant
from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator, load
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.finding import Finding
from tests.support.child import ROOT


@functools.cache
def _faults() -> Sequence[Fault]:
    """All of the repository, from the files of all its pairs."""
    return all_faults(ROOT)


def planted_results(pair: str, fault: str, **request: tuple[str, ...]) -> list[Finding]:
    """Check a pair with one of its planted faults."""
    locator, programs = Locator(name=pair, root=str(ROOT)), Programs()
    (known,) = (known for known in _faults() if (known.pair, known.name) == (pair, fault))
    filters: dict[str, Any] = dict(request)
    declared = plant(known, load(locator))
    try:
        return list(run_points(declared, locator, plan(declared, Request(**filters), devices=8).points, programs))
    finally:
        programs.close()
