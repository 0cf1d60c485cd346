"""Runs beside those of another document: the same bits, within the envelope, outside it, or not comparable."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from samebits.cluster.process_group import Board, ProcessGroup
from samebits.errors import CouldNotRun, RequestError
from samebits.train import matrix
from samebits.train.compare import compare_beside
from samebits.train.envelope import Envelope
from samebits.train.record import RunRecord, step_record

ENVELOPE = Envelope(config="base", loss=[1, 2])


def run(name: str, *losses: float) -> RunRecord:
    steps = tuple(
        step_record(number, {"loss": np.float32(loss), "perplexity": np.float32(2), "gradients": {}}, {})
        for number, loss in enumerate(losses, 1)
    )
    return RunRecord(config=name, digest="d", mesh="data8", shard_mode="auto", choice={}, dtype="float32", steps=steps)


def moved(loss: float, ulps: int) -> float:
    value = np.float32(loss)
    for _ in range(ulps):
        value = np.nextafter(value, np.float32(np.inf))
    return float(value)


@pytest.mark.parametrize(
    ("ulps", "verdict", "ok"), [(0, "bitwise", True), (3, "rounding", True), (9, "different", False)]
)
def test_which_it_is_is_said(ulps: int, verdict: str, ok: bool) -> None:
    (pairing,) = compare_beside(
        {"fsdp8": run("fsdp8", 1.5, moved(1.25, ulps))}, [run("fsdp8", 1.5, 1.25)], ENVELOPE, "one.json"
    )
    assert (pairing.a, pairing.b, pairing.verdict, pairing.ok) == ("fsdp8 of one.json", "fsdp8", verdict, ok)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], "--beside one.json: has no run 'fsdp8'; it must be of the same matrix"),
        ([run("fsdp8", 1.5)], "--beside one.json: run 'fsdp8' has 1 steps of configuration d; here it has 2 of d"),
        (
            [replace(run("fsdp8", 1.5, 1.25), digest="e")],
            "--beside one.json: run 'fsdp8' has 2 steps of configuration e; here it has 2 of d",
        ),
    ],
)
def test_another_matrix_is_rejected(others: list[RunRecord], message: str) -> None:
    with pytest.raises(RequestError) as error:
        compare_beside({"fsdp8": run("fsdp8", 1.5, 1.25)}, others, ENVELOPE, "one.json")
    assert str(error.value) == message


def test_other_bits_in_another_process_are_no_run() -> None:
    """Also where each process has the mesh to itself, and no exchange compares what they compute."""
    board = Board(2)
    groups = [ProcessGroup(number, 2, board, 60) for number in range(2)]
    for other, same in ((1.25, True), (moved(1.25, 1), False)):
        errors: list[str] = []

        def hold(number: int, loss: float, errors: list[str] = errors) -> None:
            try:
                vars(matrix)["_require_same_bits"](groups[number], run("fsdp8", 1.5, loss))
            except CouldNotRun as error:
                errors.append(str(error))

        thread = threading.Thread(target=hold, args=(1, other))
        thread.start()
        hold(0, 1.25)
        thread.join(60)
        assert errors == ([] if same else ["process 1 comes to other bits than process 0"] * 2)
    for group in groups:
        group.close()
