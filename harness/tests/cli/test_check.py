"""`samebits check`: what each request makes of a point that labels prove."""

from typing import Any

import pytest
from click.testing import CliRunner

from samebits.check.contract_audit import proof_notes
from samebits.cli import main, pipeline
from samebits.schema.finding import Finding
from tests.support.findings import finding


@pytest.mark.parametrize(
    ("options", "sparing"),
    [
        ([], True),
        (["--workers", "1"], True),
        (["--full"], False),
        (["--mesh", "context4"], False),
        (["--direction", "forward"], False),
        (["--repeat", "3"], False),
        (["--shake"], False),
    ],
)
def test_only_a_request_for_whole_pairs_is_sparing(
    options: list[str], sparing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for by name, or more thoroughly than usual, is executed."""
    efforts: list[Any] = []

    def run_command(command: Any, files: object) -> int:
        efforts.append(command.args[1].effort)
        return 0

    monkeypatch.setattr(pipeline, "run_command", run_command)
    done = CliRunner().invoke(main, ["check", "rms_norm", *options])
    assert done.exit_code == 0, done.output
    assert [effort.sparing for effort in efforts] == [sparing]


def _proved(pair: str, leaf: str, **more: Any) -> Finding:
    return finding(
        pair=pair,
        variant="v",
        case="c",
        dtype="float32",
        mesh="data4",
        mode="auto",
        direction="forward",
        leaf=leaf,
        verdict="proved",
        required="proved",
        ok=True,
        **more,
    )


def test_results_without_execution_are_counted_in_a_note() -> None:
    rows = [_proved("p", leaf, proof_alone=alone) for leaf, alone in (("a", True), ("b", False), ("c", True))]
    assert proof_notes(rows[1:2], all_sizes=False) == []
    (note,) = proof_notes(rows, all_sizes=False)
    assert note.startswith("2 of 3 proved results were not executed: the compiler was checked at other points")
    (note,) = proof_notes(rows, all_sizes=True)
    assert note.startswith("2 of 3 proved results were not executed: the compiler was checked at one point at least")


def test_results_for_every_size_are_counted_in_a_note() -> None:
    """The pair is named once, with the command that prints the sizes."""
    sizes: dict[str, Any] = {"moved": "all", "here": "these", "turned": "all"}
    places = (("moved", "a"), ("moved", "b"), ("here", "a"), ("turned", "a"))
    rows = [_proved(pair, leaf, sizes=sizes[pair]) for pair, leaf in places]
    assert proof_notes(rows, all_sizes=False) == [
        "3 of 4 proved results hold for every size, not only for those of their cases (moved, turned); "
        "`samebits prove moved --all-sizes` says for which"
    ]
