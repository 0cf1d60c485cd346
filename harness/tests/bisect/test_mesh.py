"""`samebits bisect mesh`: simulated models, a planted pair and a planted training; the minimum is found exactly."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from samebits.bisect import mesh
from samebits.bisect.point import PointRequest
from samebits.bisect.search.minimal_sets import one_minimal
from samebits.bisect.search.shrink import Axes, fewest_inputs, smaller_axes, smaller_sizes, smallest
from samebits.bisect.session import Session
from samebits.bisect.tensors import StepMixture, forms, key, label, origin, whole_step
from samebits.host import environment
from samebits.train.taps import Nesting, Tensor
from tests.bisect import planted_tree
from tests.support.invoke import samebits

environment.prepare()
SAME = settings(derandomize=True, deadline=None, max_examples=60)


# --- invented: which mesh, which sizes, which elements ----------------------------------------------------------------


@given(st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 4]))
@SAME
def test_the_smallest_mesh_that_fails_is_found(expert: int, fsdp: int) -> None:
    """It takes at least so many shards of the one, and of the other."""

    def fails(axes: Axes) -> bool:
        sizes = dict(axes)
        return sizes.get("expert", 1) >= expert and sizes.get("fsdp", 1) >= fsdp

    start: Axes = (("tensor", 2), ("expert", 8), ("fsdp", 4))
    found = smallest(start, smaller_axes, fails)
    assert found == ((("expert", expert), ("fsdp", fsdp)) if fsdp > 1 else (("expert", expert),))


def test_what_fails_on_one_device_ends_on_one_device() -> None:
    start: Axes = (("fsdp", 2), ("data", 4))
    assert smallest(start, smaller_axes, lambda axes: True) == (("data", 1),)


@given(st.integers(1, 24), st.integers(1, 8))
@SAME
def test_the_smallest_sizes_that_fail_are_found(rows: int, columns: int) -> None:
    """Exactly, wherever it goes on failing above."""
    found = smallest({"rows": 24, "columns": 8}, smaller_sizes, lambda s: s["rows"] >= rows and s["columns"] >= columns)
    assert found == {"rows": rows, "columns": columns}


def test_sizes_that_depend_on_each_other_shrink_together() -> None:
    """Half is always half of features; no size can shrink alone."""
    start = {"batch": 8, "features": 48, "half": 24}
    found = smallest(start, smaller_sizes, lambda s: s["features"] == 2 * s["half"] and s["half"] >= 3)
    assert found == {"batch": 1, "features": 6, "half": 3}


def test_smaller_points_are_smaller() -> None:
    """So the search ends."""
    for sizes in smaller_sizes({"a": 12, "b": 8, "c": 1}):
        assert sum(sizes.values()) < 21


@pytest.mark.parametrize("n", [3, 16, 192, 4096])
def test_one_element_among_many_is_found_in_few_looks(n: int) -> None:
    """By halves; and its value becomes the simplest that fails. Hypothesis' shrinker finds the same."""
    culprit = n // 2 + 1

    def fails(entries: Mapping[str, Any]) -> bool:
        return any(name == str(culprit) and value > 0.25 for name, value in entries.items())

    found = fewest_inputs({str(i): 0.3 + i for i in range(n)}, fails)
    assert dict(found.entries) == {str(culprit): 1}
    assert found.tried <= n.bit_length() + 4
    if n <= 192:
        entries = st.dictionaries(st.integers(0, n - 1).map(str), st.integers(-8, 8))
        drawn = find(entries, fails, settings=settings(derandomize=True, deadline=None, max_examples=4000))
        assert drawn == dict(found.entries)


@given(st.sets(st.integers(0, 39), min_size=1, max_size=4))
@SAME
def test_elements_that_only_fail_together_are_all_kept(needed: set[int]) -> None:
    names = {str(i) for i in needed}
    found = fewest_inputs({str(i): -1.5 for i in range(40)}, lambda entries: names <= set(entries))
    assert dict(found.entries) == dict.fromkeys(sorted(names, key=int), 1)


def test_a_failure_without_any_input_needs_none() -> None:
    assert dict(fewest_inputs({"a": 1.0, "b": 2.0}, lambda entries: True).entries) == {}


def test_values_out_of_the_domain_are_not_tried() -> None:
    """An id stays an id: 5 and 7 are allowed, and only what is above 4 fails."""
    tried: list[Any] = []

    def fails(entries: Mapping[str, Any]) -> bool:
        tried.extend(entries.values())
        return any(value > 4 for value in entries.values())

    found = fewest_inputs({"ids": 7}, fails, allowed=lambda name, value: value in (5, 7))
    assert dict(found.entries) == {"ids": 7}
    assert set(tried) <= {7}


def test_the_limit_of_looks_keeps_the_least_that_failed() -> None:
    """Every second of a thousand is needed, and forty looks are not enough to see that."""
    names = {str(i): 1.5 for i in range(1000)}
    needed = {str(i) for i in range(0, 1000, 2)}
    found = fewest_inputs(names, lambda entries: needed <= set(entries), most=40)
    assert needed <= set(found.entries)
    assert found.tried < 1000 * 12


@given(st.sets(st.integers(0, 30), max_size=3))
@SAME
def test_one_minimal_set_is_enough_where_one_is_asked_for(needed: set[int]) -> None:
    """Not all others are looked for; what fails with nothing at all gives the empty set."""
    names, culprit = [str(i) for i in range(31)], {str(i) for i in needed}
    assert one_minimal(names, lambda chosen: culprit <= chosen) == culprit


def test_the_limit_of_looks_keeps_the_smallest_that_failed() -> None:
    """Every second of sixty."""
    names = [str(i) for i in range(60)]
    looked = list[frozenset[str]]()

    def fails(chosen: frozenset[str]) -> bool:
        looked.append(chosen)
        return set(names[::2]) <= chosen

    found = one_minimal(names, fails, most=20)
    assert set(names[::2]) <= found
    assert len(looked) <= 20


# --- planted: a pair --------------------------------------------------------------------------------------------------


@pytest.mark.cpu_only
def test_a_planted_fault_is_found_with_its_mesh_and_element(tmp_path: Path) -> None:
    """Wrong on the second shard at one element: two shards, one row each, two columns, and that element alone."""
    root, report = planted_tree.write_tree(tmp_path / "tree"), tmp_path / "found.json"
    words = ("bisect", "mesh", "doubling", "--variant", "planted", "--case", "small", "--root", root)
    ended = samebits(*words, "--mesh", "expert8", "--journal", tmp_path / "journal", "--json", report)
    assert ended.code == 1, ended.err
    finding = json.loads(report.read_text())["finding"]
    inputs = finding["detail"].pop("input_search")
    assert finding["detail"] == {
        "mesh": "expert2",
        "sizes": {"rows": 2, "columns": 2},
        "inputs": {"x[1, 1]": 1},
        "signature": "out: different",
    }
    assert (inputs["input"], inputs["elements"], inputs["left"]) == ("ordinary", 6, 1)
    assert inputs["tried"] >= 1
    assert finding["candidates"] == []
    measures = {trial["point"]: trial["measures"] for trial in finding["trials"]}
    assert measures["expert2, rows=2, columns=2"] == {"devices": 2, "rows": 2, "columns": 2}
    assert finding["witness"] == "out[1, 1]: reference=2 (0x40000000), variant=3 (0x40400000)"
    assert "on expert2, rows=2, columns=2, 1 nonzero input: x[1, 1]=1; it passes on expert1" in finding["sentence"]
    assert any(trial["outcome"] == "untestable" for trial in finding["trials"])
    again = samebits(*ended.replay)
    assert again.code == 1
    assert "x[1, 1]=1: 1 of 4 elements of 'out' differ (other)" in again.out
    beside = [word if word != "x[1, 1]=1" else "x[0, 1]=1" for word in ended.replay]
    assert samebits(*beside).code == 0, "another element is right"


@pytest.mark.slow
@pytest.mark.cpu_only
def test_a_gradient_is_shrunk_together_with_its_cotangent(tmp_path: Path) -> None:
    """Eight shards also sum the shift's gradient in another order; that is rounding, and not what is looked for."""
    root = planted_tree.write_tree(tmp_path / "tree")
    asked = PointRequest(
        pair="doubling", variant="planted", case="small", mesh="expert8", root=root, direction="gradient"
    )
    found = mesh.bisect_mesh(asked, Session(journal=tmp_path / "journal"))
    assert found.detail["signature"] == "x: different"
    assert found.detail["mesh"] == "expert2"
    assert found.detail["sizes"] == {"rows": 2, "columns": 2}
    assert found.detail["inputs"] == {"x[1, 1]": 1, "cotangent of out[1, 1]": 1}
    assert found.witness == "x[1, 1]: reference=2 (0x40000000), variant=3 (0x40400000)"


@pytest.mark.slow
@pytest.mark.cpu_only
def test_sizes_that_also_fail_on_the_good_mesh_do_not_count(tmp_path: Path) -> None:
    """Below four columns the variant is wrong on one shard too: the fault of two shards is shown with four.

    A second search takes all from the journal, and comes to the same.
    """
    root = planted_tree.write_tree(tmp_path / "tree")
    asked = PointRequest(pair="doubling", variant="fragile", case="small", mesh="expert2", root=root, sizes={"rows": 4})
    session = Session(journal=tmp_path / "journal")
    found = mesh.bisect_mesh(asked, session)
    assert found.detail["mesh"] == "expert2"
    assert found.detail["sizes"] == {"rows": 2, "columns": 4}
    assert found.detail["inputs"] == {"x[1, 1]": 1}
    assert any("failed on a mesh that passes with larger sizes too" in note for note in found.notes)
    again = mesh.bisect_mesh(asked, session)
    assert (again.sentence, again.witness) == (found.sentence, found.witness)
    assert all(trial.remembered for trial in again.trials)


@pytest.mark.cpu_only
def test_an_honest_variant_leaves_nothing_to_search(tmp_path: Path) -> None:
    root = planted_tree.write_tree(tmp_path / "tree")
    words = ("bisect", "mesh", "doubling", "--variant", "honest", "--case", "small", "--root", root)
    report = tmp_path / "found.json"
    ended = samebits(*words, "--mesh", "expert8", "--journal", tmp_path / "journal", "--json", report)
    assert ended.code == 0
    finding = json.loads(report.read_text())["finding"]
    assert [(trial["outcome"], trial["looks"]) for trial in finding["trials"]] == [("pass", 2)]
    assert (finding["runs"], finding["repeats"]) == (1, 1)
    assert "passes: bitwise; there is nothing to search for" in ended.out


@pytest.mark.sampled(8)
@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a PAIR with --variant, --case and --mesh, or --config NAME; one of them"),
        (("doubling", "--config", "tiny"), "give a PAIR with"),
        (("doubling", "--variant", "planted"), "a search begins at one point of a pair: give --case and --mesh too"),
        (("doubling", "--steps", "3"), "--steps goes with --config; leave it out"),
        (("--config", "tiny", "--variant", "x"), "--variant goes with a PAIR; leave it out"),
        (("doubling", "--size", "rows"), "--size rows: expected a name and a number, as in rows=4"),
        (("doubling", "--size", "rows=0"), "--size rows=0: expected an integer of at least 1"),
        (("doubling", "--value", "x[0]=one"), "--value x[0]=one: 'one' is not a number"),
        (("POINT", "--variant", "plant"), "has no variant 'plant'; did you mean planted?"),
        (("POINT", "--case", "large"), "has no case 'large'"),
        (("POINT", "--mesh", "tensor2"), "--mesh tensor2: pair 'doubling' has no axis 'tensor'; it knows expert"),
        (("POINT", "--mesh", "expert64"), "mesh 'expert64' needs 64 devices"),
        (("POINT", "--dtype", "int8"), "has no dtype 'int8'; it has float32"),
        (("POINT", "--size", "row=2"), "--size row: case 'small' has no such size; it has rows, columns"),
        (("POINT", "--value", "z[0]=1"), "--value z[0]: no such array; expected one of x, shift"),
        (("POINT", "--value", "x[0]=1"), "--value x[0]: 'x' has shape (16, 12) here"),
        (("POINT", "--leaf", "outs"), "--leaf outs: unknown output; expected one of out"),
        (("POINT", "--value", "x=1"), "expected NAME[INDEX]=NUMBER"),
        (("POINT", "--input", "odd"), "--input 'odd': no such input here; expected one of ordinary"),
    ],
)
def test_wrong_requests_are_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    if words[:1] == ("POINT",):
        point = ("doubling", "--variant", "planted", "--case", "small", "--mesh", "expert8")
        words = (*point, *words[1:], "--root", str(planted_tree.write_tree(tmp_path)))
    ended = samebits("bisect", "mesh", *words)
    assert (ended.code, len(ended.lines)) == (2, 1), ended.err
    assert message in ended.lines[0]


# The points of a search for a tensor: what is taken, in which order, and who computed what is wrong.
def test_parts_that_call_others_come_after_those_that_do_not() -> None:
    names = ["moe@layer1", "router", "mesh"]
    assert [(form.words, sorted(form.taken)) for form in forms(names, {"moe@layer1"})] == [
        ("parts that call no others", ["mesh", "router"]),
        ("moe@layer1", ["moe@layer1"]),
        ("all together", ["mesh", "moe@layer1", "router"]),
    ]
    assert [form.words for form in forms(["mesh"], (), ["router"])] == ["parts that call no others, without router"]


def test_points_that_take_other_differences_have_other_keys() -> None:
    points = [(whole_step(["a", "b"]), False), (whole_step(["a"], ["b"], ["b"]), False), (whole_step(["a"]), True)]
    assert len({key(point) for point in points}) == 3
    assert label(points[1]) == "the whole step without b, in float64"


@pytest.mark.parametrize(
    ("tensor", "names"),
    [
        ("a:out:x", ["a"]),
        ("outer:out:x", ["a"]),
        ("other:out:x", ["option:shift"]),
        ("a:in:x", ["option:shift"]),
        ("step:out:loss", ["option:shift"]),
        ("a:in:x~", ["a"]),
    ],
)
def test_what_computed_a_tensor_is_named(tensor: str, names: list[str]) -> None:
    mixture = StepMixture("all", frozenset({"a", "option:shift"}))
    assert origin(Tensor(tensor, 0), mixture, Nesting({"a": {"outer"}}))[1] == names
