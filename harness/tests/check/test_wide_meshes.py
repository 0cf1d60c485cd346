"""Meshes of more than eight devices, on the CPU; slow, so they have a command of their own."""

from pathlib import Path

import pytest

from samebits.report.check import read_document
from tests.support.child import run_python

pytestmark = [pytest.mark.slow, pytest.mark.cpu_only]


@pytest.mark.parametrize(
    ("pair", "mesh", "devices"), [("sequence_reorder", "context128", 128), ("token_exchange", "expert64", 64)]
)
def test_a_wide_mesh_holds_and_every_device_is_used(pair: str, mesh: str, devices: int, tmp_path: Path) -> None:
    """What `--devices` promises: the same check on as many devices as asked for, on two cores."""
    report = tmp_path / "r.json"
    done = run_python("-m", "samebits", "check", pair, "--devices", str(devices), "--mesh", mesh, "--json", str(report))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    results = read_document(report).results
    assert {(r.place.mesh, r.run.devices) for r in results if r.ruling.verdict != "refused"} == {(mesh, devices)}
    assert {r.place.direction for r in results} == {"forward", "gradient"}
