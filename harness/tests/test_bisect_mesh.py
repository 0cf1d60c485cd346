"""`samebits bisect mesh`: invented models, a planted pair, a planted training; the smallest must come out exactly."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import shlex
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from harness import environment
from harness.bisect import mesh, mesh_config
from harness.bisect.finding import Session
from harness.bisect.mesh_config import AskedConfig, bisect_config
from harness.model import Config, Defect, Model, Parts
from harness.search.entries import fewest
from harness.search.shrink import smallest
from harness.search.smaller import Axes, smaller_axes, smaller_sizes
from harness.tests import planted_tree, toy_model
from harness.tests.invoke import samebits

environment.prepare()
ROOT = Path(__file__).resolve().parents[2]
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

    found = fewest({str(i): 0.3 + i for i in range(n)}, fails)
    assert dict(found.entries) == {str(culprit): 1}
    assert found.looks <= n.bit_length() + 4
    if n <= 192:
        entries = st.dictionaries(st.integers(0, n - 1).map(str), st.integers(-8, 8))
        drawn = find(entries, fails, settings=settings(derandomize=True, deadline=None, max_examples=4000))
        assert drawn == dict(found.entries)


@given(st.sets(st.integers(0, 39), min_size=1, max_size=4))
@SAME
def test_elements_that_only_fail_together_are_all_kept(needed: set[int]) -> None:
    names = {str(i) for i in needed}
    found = fewest({str(i): -1.5 for i in range(40)}, lambda entries: names <= set(entries))
    assert dict(found.entries) == dict.fromkeys(sorted(names, key=int), 1)


def test_a_failure_without_any_input_needs_none() -> None:
    assert dict(fewest({"a": 1.0, "b": 2.0}, lambda entries: True).entries) == {}


def test_values_out_of_the_domain_are_not_tried() -> None:
    """An id stays an id: 5 and 7 are allowed, and only what is above 4 fails."""
    tried: list[Any] = []

    def fails(entries: Mapping[str, Any]) -> bool:
        tried.extend(entries.values())
        return any(value > 4 for value in entries.values())

    found = fewest({"ids": 7}, fails, allowed=lambda name, value: value in (5, 7))
    assert dict(found.entries) == {"ids": 7}
    assert set(tried) <= {7}


def test_the_limit_of_looks_keeps_the_least_that_failed() -> None:
    """Every second of a thousand is needed, and forty looks are not enough to see that."""
    names = {str(i): 1.5 for i in range(1000)}
    needed = {str(i) for i in range(0, 1000, 2)}
    found = fewest(names, lambda entries: needed <= set(entries), most=40)
    assert needed <= set(found.entries)
    assert found.looks < 1000 * 12


# --- planted: a pair --------------------------------------------------------------------------------------------------


def replayed(out: str) -> list[str]:
    """The words of the printed command."""
    printed = re.search(r"shown again by: samebits (.*)", out)
    assert printed is not None, out
    return shlex.split(printed[1])


@pytest.mark.cpu_only
def test_a_planted_fault_comes_out_with_its_mesh_sizes_and_element(tmp_path: Path) -> None:
    """Wrong on the second shard at one element: two shards, one row each, two columns, and that element alone."""
    root, report = planted_tree.write_tree(tmp_path / "tree"), tmp_path / "found.json"
    words = ("bisect", "mesh", "doubling", "--variant", "planted", "--case", "small", "--root", root)
    ended = samebits(*words, "--mesh", "expert8", "--journal", tmp_path / "journal", "--json", report)
    assert ended.code == 1, ended.err
    finding = json.loads(report.read_text())["finding"]
    assert finding["detail"] == {
        "mesh": "expert2",
        "sizes": {"rows": 2, "columns": 2},
        "inputs": {"x[1, 1]": 1},
        "signature": "out: different",
    }
    assert finding["witness"] == "out[1, 1]: reference=2 (0x40000000), optimized=3 (0x40400000)"
    assert "on expert2, rows=2, columns=2, 1 nonzero input: x[1, 1]=1; it passes on expert1" in finding["sentence"]
    assert any(trial["outcome"] == "untestable" for trial in finding["trials"])
    again = samebits(*replayed(ended.out))
    assert again.code == 1
    assert "x[1, 1]=1: 1 of 4 elements of 'out' differ (other)" in again.out
    beside = [word if word != "x[1, 1]=1" else "x[0, 1]=1" for word in replayed(ended.out)]
    assert samebits(*beside).code == 0, "another element is right"


@pytest.mark.cpu_only
def test_sizes_that_also_fail_where_it_passed_are_another_failure(tmp_path: Path) -> None:
    """Below four columns the variant is wrong on one shard too: the fault of two shards is shown with four.

    A second search takes all from the journal, and comes to the same.
    """
    root = planted_tree.write_tree(tmp_path / "tree")
    asked = mesh.Asked(pair="doubling", variant="fragile", case="small", mesh="expert2", root=root, sizes={"rows": 4})
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
    ended = samebits(*words, "--mesh", "expert8", "--journal", tmp_path / "journal")
    assert ended.code == 0
    assert "passes: bitwise; there is nothing to search for" in ended.out


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a PAIR with --variant, --case and --mesh, or --config NAME; one of them"),
        (("doubling", "--config", "tiny"), "give a PAIR with"),
        (("doubling", "--variant", "planted"), "is shrunk from one failing point: give --case and --mesh too"),
        (("doubling", "--steps", "3"), "--steps goes with --config; leave it out"),
        (("--config", "tiny", "--variant", "x"), "--variant goes with a PAIR; leave it out"),
        (("doubling", "--size", "rows"), "--size rows: expected a name and a number, as in rows=4"),
        (("doubling", "--size", "rows=0"), "--size rows=0: expected a whole number of at least 1"),
        (("doubling", "--value", "x[0]=one"), "--value x[0]=one: 'one' is no number"),
        (("POINT", "--variant", "plant"), "has no variant 'plant'; did you mean planted?"),
        (("POINT", "--case", "large"), "has no case 'large'"),
        (("POINT", "--mesh", "tensor2"), "--mesh tensor2: pair 'doubling' has no axis 'tensor'; it knows expert"),
        (("POINT", "--mesh", "expert64"), "mesh 'expert64' needs 64 devices"),
        (("POINT", "--dtype", "int8"), "has no dtype 'int8'; it has float32"),
        (("POINT", "--size", "row=2"), "--size row: case 'small' has no such size; it has rows, columns"),
        (("POINT", "--value", "z[0]=1"), "--value z[0]: no such array; expected one of x, shift"),
        (("POINT", "--value", "x[0]=1"), "--value x[0]: 'x' has shape (16, 12) here"),
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


# --- planted: a training ----------------------------------------------------------------------------------------------


def sharded_fault(shards: int, layers: int) -> Model:
    """The toy model, whose gradients are wrong from so many shards and layers on."""

    def build(config: Config, parts: Parts) -> Any:
        del parts
        devices = int(re.sub(r"\D", "", config.mesh))
        wrong = devices >= shards and config.sizes["layers"] >= layers
        return toy_model.training(config, {}, 1.5 if wrong else 1.0)

    honest = toy_model.toy(Path(__file__).parent)
    return dataclasses.replace(honest, build=build, configs=(Config(name="many", mesh="data8", sizes={"layers": 6}),))


@pytest.mark.cpu_only
def test_a_training_is_shrunk_to_the_least_shards_and_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong on four shards or more, with three layers or more."""
    monkeypatch.setattr(mesh_config, "load_model", lambda root: sharded_fault(4, 3))
    toy_model.write_tree(tmp_path / "tree")
    asked = AskedConfig(config="many", root=tmp_path / "tree")
    found = bisect_config(asked, Session(journal=tmp_path / "journal"))
    assert found.detail == {"mesh": "data4", "sizes": {"layers": 3}, "signature": "step 1"}
    assert "it passes on data2" in found.sentence
    assert re.search(r"element .*: reference=-?\d.*\(0x[0-9a-f]+\), here=", found.witness)
    again = samebits(*shlex.split(found.replay)[1:], "--journal", tmp_path / "other")
    assert again.code == 1
    few = bisect_config(dataclasses.replace(asked, most=3), Session(journal=tmp_path / "third"))
    assert any("the limit of 3 runs came first" in note for note in few.notes)


EXCHANGE = "back = Exchange(_before(got), got, _row(place, me), sent)"


def _wrong_way_back(parts: Parts) -> Parts:
    """Rows go home to the places that they had at the experts: an error that one shard does not have."""
    module = inspect.getmodule(parts["moe"])
    assert module is not None
    source = inspect.getsource(module)
    assert source.count(EXCHANGE) == 1
    copy = types.ModuleType("faulty_moe")
    copy.__file__ = module.__file__
    edited = source.replace(EXCHANGE, EXCHANGE.replace("place", "first"))
    exec(compile(edited, str(module.__file__), "exec"), copy.__dict__)
    return {**parts, "moe": getattr(copy, parts["moe"].__name__)}


@pytest.mark.slow
@pytest.mark.cpu_only
def test_two_expert_shards_suffice_for_a_fault_of_the_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight: and one shard exchanges nothing, so it passes."""
    from harness.train.finding import load_model

    model = load_model(ROOT)
    sparse = model.all_configs()["moe_parallelism/sparse_ep8"]
    planted = Defect(name="wrong way back", run=sparse, plant=_wrong_way_back)
    monkeypatch.setattr(mesh_config, "load_model", lambda root: dataclasses.replace(model, defects=lambda: (planted,)))
    asked = AskedConfig(config="moe_parallelism/sparse_ep8", defect="wrong way back", root=ROOT)
    found = bisect_config(asked, Session(journal=tmp_path / "journal"))
    assert found.detail["mesh"] == "expert2", found
    assert "it passes on expert1" in found.sentence
    assert found.detail["sizes"]["experts"] == 4
