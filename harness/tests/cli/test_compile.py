"""`samebits compile` from the command line: tables, JSON, Markdown, proofs by the same program, the cache."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.hlo.programs import TPU7X, needs_libtpu
from tests.support.invoke import Ended, samebits
from tests.support.real_tree import compiled, where, write_real_pair

CLAIMS = (
    'variant="turned", shows=VARIANT.gathers == 0',
    'variant="turned", shows=VARIANT.while_loops == 0',
    'variant="turned", shows=VARIANT.temp_bytes <= 0.5 * REFERENCE.temp_bytes, direction="gradient"',
    'variant="again", shows=VARIANT.program == REFERENCE.program',
    'variant="quarter", shows=VARIANT.program != REFERENCE.program',
    'variant="gather", shows=VARIANT.gathers == 1, direction="forward"',
    'variant="looped", shows=VARIANT.while_loops == 1, direction="forward"',
    'variant="looped", shows=VARIANT.while_loops == 0, direction="forward", '
    'finding="one loop with trip count 64 | row by row"',
)
SIDES = ["gather", "turned", "again", "quarter", "looped"]
TARGETS = ["cpu:8", "cpu:4"]
DIRECTIONS = ["forward", "gradient"]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the command over the tree."""

    ended: Ended
    document: dict[str, Any]
    markdown: str

    @property
    def lines(self) -> list[str]:
        return [line.strip() for line in self.ended.out.splitlines()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("real")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAMEBITS_CACHE_DIR", str(root / "cache"))
        yield write_real_pair(root, claims=CLAIMS, targets=TARGETS)


def _run(root: Path, *words: str) -> Run:
    file = root / "compiled.md"
    ended, document = compiled(root, "--markdown", file, "--whole", *words)
    return Run(ended=ended, document=document, markdown=file.read_text())


@pytest.fixture(scope="module")
def first(root: Path) -> Run:
    return _run(root)


@pytest.fixture(scope="module")
def second(root: Path, first: Run) -> Run:
    return _run(root, "--direction", "forward")


def test_the_table(first: Run) -> None:
    assert (first.ended.code, first.ended.err) == (0, ""), first.ended
    found = next(one for one in first.document["results"] if (one["side"], one["direction"]) == ("turned", "gradient"))
    version = found["compiler"]
    assert f"reorder, gradient: real, x float32[64,16]; data8 (auto) on cpu:8, jaxlib {version}" in first.lines
    assert f"reorder, gradient: real, x float32[64,16]; data4 (auto) on cpu:4, jaxlib {version}" in first.lines
    rows = [line.split() for line in first.lines]
    heads = [row for row in rows if row[:1] == ["side"]]
    assert len(heads) == 4 and all({"temp", "traffic", "loops", "program"} <= set(row) for row in heads)
    row = next(row for row in rows if row[:2] == ["turned", "0x"])
    assert row[-2:] == ["0", found["program"][:8]], "loops and the digest"
    looped = [line for line in first.lines if line.startswith("looped ") and "trips)" in line]
    assert len(looped) == 4 and "1 (64 trips)" in looped[0] and "2 (128 trips)" in looped[1]
    assert first.lines.count("holds: turned: gathers == 0 (got 0; us)") == 4
    assert "holds: looped: while_loops == 1 (got 1; us)" in first.lines
    assert "holds: turned: temp_bytes <= 0.5 x reference (got 0.0 MB, 0 x reference; us)" in first.lines
    assert "holds: gather: gathers == 1 (got 1; us)" in first.lines, "a claim about the reference itself"
    assert (
        "finding, claim not true: looped: while_loops == 0 (got 1; us; one loop with trip count 64 | row by row)"
        in first.lines
    )
    summary = "20 programs (0 cached), 16 comparisons, 4 the same program; 24 claims: all as declared (2 findings"
    assert first.lines[-1].startswith(f"{summary} among them); ")


def test_one_entry_per_side_direction_and_target(first: Run) -> None:
    said = [(one["pair"], one["side"], one["direction"], one["target"]) for one in first.document["results"]]
    assert said == [
        ("reorder", side, direction, target) for target in TARGETS for direction in DIRECTIONS for side in SIDES
    ]
    others = [one for one in first.document["comparisons"] if one["variant"] != "gather"]
    keys = ("pair", "variant", "reference", "direction", "target")
    assert [tuple(one[key] for key in keys) for one in others] == [
        ("reorder", side, "gather", direction, target)
        for target in TARGETS
        for direction in DIRECTIONS
        for side in SIDES[1:]
    ]


def test_what_the_figures_say(first: Run) -> None:
    found = {(one["side"], one["direction"]): one for one in where(first.document["results"], target="cpu:8")}
    forward, gradient = found["gather", "forward"], found["gather", "gradient"]
    assert (forward["gathers"], forward["scatters"], forward["while_loops"]) == (1, 0, 0)
    assert (gradient["gathers"], gradient["scatters"]) == (0, 1)
    assert found["turned", "forward"]["gathers"] == found["turned", "gradient"]["scatters"] == 0
    assert (found["looped", "forward"]["while_loops"], found["looped", "forward"]["loop_turns"]) == (1, 64)
    for one in found.values():
        assert (one["shapes"], one["mesh"], one["mode"], one["dtype"]) == (
            ["x float32[64,16]"],
            "data8",
            "auto",
            "float32",
        )
        assert (one["collectives"], one["wire_bytes"], one["sparsecore"], one["options"]) == ({}, 0, 0, {})
        # The columns are split over the devices; a gradient takes the cotangent too.
        assert one["argument_bytes"] == 64 * 16 * 4 // 8 * (1 if one["direction"] == "forward" else 2)
        assert one["output_bytes"] == 64 * 16 * 4 // 8
        assert one["peak_bytes"] >= one["output_bytes"] and one["bytes_accessed"] > 0
        assert one["optimal_seconds"] is None, "XLA:CPU has no estimate of time"
        assert one["compile_seconds"] > 0 and re.fullmatch("[0-9a-f]{32}", one["program"])


def test_ratios_are_variant_over_reference(first: Run) -> None:
    found = {tuple(one[key] for key in ("side", "direction", "target")): one for one in first.document["results"]}
    seen = 0
    for one in first.document["comparisons"]:
        variant, reference = (found[one[name], one["direction"], one["target"]] for name in ("variant", "reference"))
        for ratio, figure in (("temp", "temp_bytes"), ("peak", "peak_bytes"), ("bytes", "bytes_accessed")):
            if not reference[figure]:
                assert one[f"{ratio}_ratio"] is None, "a multiple of nothing says nothing"
                continue
            assert one[f"{ratio}_ratio"] == pytest.approx(variant[figure] / reference[figure], rel=1e-3, abs=1e-9)
            seen += one["variant"] != "gather"
        assert all(counts[0] != counts[1] for counts in one["operations"].values())
        assert one["wire_ratio"] is None
    assert seen > 30


def test_the_same_program_is_a_proof_and_another_constant_is_not(first: Run) -> None:
    assert first.lines.count("again: PROVED, same program: the same bits for every input on cpu:8") == 2
    assert first.lines.count("again: PROVED, same program: the same bits for every input on cpu:4") == 2
    assert first.ended.out.count("PROVED") == 4
    for one in where(first.document["comparisons"], variant="again"):
        assert (one["verdict"], one["reason"], one["same_program"], one["same_order"]) == (
            "proved",
            "same program",
            True,
            True,
        )
        assert one["operations"] == {}
    for one in where(first.document["comparisons"], variant="quarter"):
        assert (one["verdict"], one["same_program"], one["same_order"]) == (None, False, False)
        assert one["reason"] == "another program: the same operations, differently connected, shaped or configured"
    verdicts = {one["variant"] for one in first.document["comparisons"] if one["verdict"]}
    assert verdicts == {"again"}, "nor is the reference proved equal to itself"
    programs = {one["program"] for one in where(first.document["results"], side="quarter")}
    assert len(programs) == 4, "directions and targets are other programs"


def test_the_second_run_compiles_nothing_and_says_the_same(first: Run, second: Run) -> None:
    assert (second.ended.code, second.ended.err) == (0, "")
    assert "10 programs (10 cached)" in second.lines[-1]
    assert not any(one["cached"] for one in first.document["results"])
    assert all(one["cached"] for one in second.document["results"])
    assert _timeless(first) == _timeless(second)
    before, again = ("\n".join(run.lines[:-1]).split("\n\n") for run in (first, second))
    assert len(again) > 2 and [block for block in before if block in again] == again


def _timeless(run: Run) -> dict[str, Any]:
    """What a run says of the direction of the second one, but for its times."""
    results = [{**one, "cached": None, "compile_seconds": None} for one in run.document["results"]]
    compared = run.document["comparisons"]
    shown = {"results": where(results, direction="forward"), "comparisons": where(compared, direction="forward")}
    return {**run.document, **shown, "summary": None, "written": None}


@pytest.mark.slow
def test_without_the_cache_nothing_is_looked_up_and_nothing_kept(
    first: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    ended, document = compiled(root, "--no-cache", "--variant", "turned", "--direction", "forward")
    assert ended.code == 0 and not any(one["cached"] for one in document["results"])
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "elsewhere"))
    assert compiled(root, "--no-cache", "--variant", "turned", "--direction", "forward")[0].code == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [], "the journal too is removed at the end"


def test_the_markdown_can_be_pasted(first: Run) -> None:
    text = first.markdown
    assert text.startswith("### samebits compile: as declared\n")
    titles = [line for line in text.splitlines() if line.startswith("<summary>")]
    assert len(titles) == 4 and titles[0].startswith("<summary>reorder, forward: real, x float32[64,16]; data8 ")
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 4
    for lines in tables:
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
        assert len({len(row) for row in rows}) == 1 and len(rows[0]) >= 7, "every row has every column"
        assert rows[0][0].strip() == "side"
        assert {cell.strip() for cell in rows[1]} == {"---"}
        assert [row[0].strip() for row in rows[2:]] == SIDES
    assert "- holds: turned: gathers == 0 (got 0; us)" in text
    assert "- again: PROVED, same program: the same bits for every input on cpu:8" in text
    assert "one loop with trip count 64 \\| row by row" in text, "pipes are escaped"
    assert "temp_bytes \\<= 0.5 x reference" in text


def test_filters_take_patterns_and_keep_the_reference(root: Path, first: Run) -> None:
    ended, document = compiled(root, "reorder", "--variant", "t*", "--case", "re*", "--direction", "gr*")
    assert ended.code == 0, ended.err
    assert [(one["side"], one["direction"]) for one in where(document["results"], target="cpu:8")] == [
        ("gather", "gradient"),
        ("turned", "gradient"),
    ]
    claims = [judged["shows"] for one in document["comparisons"] for judged in one["expectations"]]
    assert claims == ["gathers == 0", "while_loops == 0", "temp_bytes <= 0.5 x reference"] * 2


def test_the_replay_line_compiles_the_same_again(root: Path, first: Run, tmp_path: Path) -> None:
    [one] = where(first.document["results"], side="looped", direction="gradient", target="cpu:8")
    words = shlex.split(one["replay"])
    assert words[:2] == ["samebits", "compile"]
    file = tmp_path / "again.json"
    assert samebits(*words[1:], "--json", file).code == 0
    results = json.loads(file.read_text())["results"]
    assert [(each["side"], each["direction"], each["target"]) for each in results] == [
        (side, "gradient", "cpu:8") for side in ("gather", "looped")
    ]
    assert {**results[1], "cached": False} == {**one, "cached": False}


@pytest.mark.slow
def test_outputs_lie_as_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns go in and rows are asked for: the exchange belongs to the component, as in a model around it."""
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    for name, extra, sent in (("columns", "", 0), ("rows", 'out_spec={"out": ("data",)},', 1)):
        write_real_pair(tmp_path, name, extra=extra, variants=("turned",))
        ended, document = compiled(tmp_path, name, "--direction", "forward")
        assert ended.code == 0, ended
        assert [one["collectives"].get("all-to-all", 0) for one in document["results"]] == [sent] * 2
        assert all(bool(one["wire_bytes"]) == bool(sent) for one in document["results"])


@pytest.mark.slow
@needs_libtpu
def test_a_slice_instead_of_the_declared_targets(root: Path) -> None:
    ended, document = compiled(root, "--target", "v5e:2x2", "--direction", "forward")
    assert (ended.code, ended.err) == (0, ""), ended
    assert {(one["target"], one["mesh"]) for one in document["results"]} == {("v5e:2x2", "data4")}
    assert {one["compiler"] for one in document["results"]} == {document["environment"]["versions"]["libtpu"]}
    proved = {one["variant"]: one["verdict"] for one in document["comparisons"]}
    assert proved == {"gather": None, "turned": None, "again": "proved", "quarter": None, "looped": None}
    assert document["results"][0]["optimal_seconds"] > 0, "the TPU compiler estimates the time"
    assert "estimate" in ended.out and "on v5e:2x2, libtpu " in ended.out


@pytest.mark.slow
@needs_libtpu
@pytest.mark.parametrize("targets", [("cpu:8", TPU7X), (TPU7X, "cpu:8")])
def test_targets_with_as_many_devices_share_no_program(targets: tuple[str, str], root: Path) -> None:
    """Eight devices each, and one mesh by name: the second target was once given the first one's program."""
    narrow = ("--variant", "turned", "--direction", "forward", "--no-cache")
    together = compiled(root, *narrow, *(word for target in targets for word in ("--target", target)))[1]
    for target in targets:
        alone = compiled(root, *narrow, "--target", target)[1]["results"]
        found = where(together["results"], target=target)
        assert [one["program"] for one in found] == [one["program"] for one in alone]
    digests = [{one["program"] for one in where(together["results"], target=target)} for target in targets]
    assert not digests[0] & digests[1]
