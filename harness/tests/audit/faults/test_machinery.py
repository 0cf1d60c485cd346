"""The planted faults of samebits itself: each patches a function that exists, on the pair that it names."""

import importlib
from operator import attrgetter

import pytest

from samebits.audit.faults.fault import Fault
from samebits.audit.faults.machinery import machinery_faults

FAULTS = machinery_faults(pair="reorder", side="fast", mesh="context4")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_is_replaced_exists(fault: Fault) -> None:
    assert fault.patch is not None
    module, _, attribute = fault.patch[0].partition(":")
    assert callable(attrgetter(attribute)(importlib.import_module(module)))


def test_every_fault_is_on_the_requested_pair_and_mesh() -> None:
    assert {(fault.pair, fault.side, *fault.request.meshes) for fault in FAULTS} == {("reorder", "fast", "context4")}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
