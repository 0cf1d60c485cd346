"""`samebits compile PAIR --tune` from the command line, and faults planted in single values."""

import json
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.compile import tune as tuning
from samebits.report.markdown import escaped
from tests.support.foreign import write_pair
from tests.support.invoke import Ended, samebits

REFERENCE = """
    def plain(x, *, tile=8):
        return x * 2 + 1
    """
OPTIMIZED = """
    import jax
    import jax.numpy as jnp


    def tiled(x, *, tile=8):
        if x.shape[0] % tile:
            raise ValueError(f"tile is {tile}; expected a divisor of {x.shape[0]}")
        return jax.lax.map(lambda row: row * 2 + 1, x.reshape(-1, tile)).reshape(x.shape)


    def whole(x, *, tile=8):
        return jnp.add(x + x, 1)


    def padded(x, *, tile=8):
        beside = jnp.sort(jnp.pad(x, (0, tile * 64)))
        return x * 2 + 1 + 0 * beside[0]
    """
SUITE = """
from samebits import Arg, Case, Pair, RealSize

PAIR = Pair(
    name="{name}",
    reference="plain",
    variants={variants!r},
    args={{"x": Arg(shape=("rows",))}},
    cases=(Case(id="small", sizes={{"rows": 4}}),),
    dtypes=("float32",),
    meshes=("data1",),
    modes=("auto",),
    gradients=False,
    compiled=(
        RealSize(
            case=Case(id="real", sizes={{"rows": 256}}, statics={{"tile": 8}}),
            layout="data*",
            dtype="float32",
            targets=("cpu:1",),
            {tune}
        ),
    ),
)
"""
TUNE = 'tune={"tile": (8, 16, 32)}, tune_sizes={"rows": 96},'
TWO = 'tune={"tile": (8, 32)}, tune_sizes={"rows": 96},'
HONEST = "row * 2 + 1"
FAULTY = "row * 2 + 1 + (tile == 32) * (row > 1)"
"""The body of `tiled`, and one in which a single value of the argument changes results."""

pytestmark = pytest.mark.usefixtures("own_cache")


def write(root: Path, *, variants: tuple[str, ...] = ("tiled",), tune: str = TUNE, body: str = HONEST) -> Path:
    optimized = OPTIMIZED.replace(HONEST + ",", body + ",")
    suite = textwrap.dedent(SUITE).format(name="scaled", variants=variants, tune=tune)
    write_pair(root, "scaled", reference=REFERENCE, optimized=optimized, suite=suite)
    return root


def tune(root: Path, *more: str | Path) -> tuple[Ended, dict[str, Any]]:
    file = root / "tuned.json"
    ended = samebits("compile", "scaled", "--tune", "--root", root, "--json", file, *more)
    return ended, json.loads(file.read_text()) if file.exists() else {}


DOCUMENTED = """
CLAIM = Documented(id="1", document="a guide", says="less memory", real=("real",))
PAIR = dataclasses.replace(PAIR, documented=(CLAIM,))
"""


@pytest.mark.slow
def test_a_pair_with_claims_of_a_document(tmp_path: Path) -> None:
    """They are held against production shapes, which the pair of the small size does not have."""
    suite = write(tmp_path) / "suites" / "test_scaled.py"
    suite.write_text(f"import dataclasses\nfrom samebits import Documented\n{suite.read_text()}{DOCUMENTED}")
    ended, document = tune(tmp_path)
    assert (ended.code, ended.err) == (0, ""), ended
    assert {trial["equal"] for trial in document["trials"]} == {True}


@pytest.mark.slow
def test_the_table_the_document_and_the_markdown(tmp_path: Path) -> None:
    values = 'tune={"tile": (8, 16, 7)}, tune_sizes={"rows": 112},'
    ended, document = tune(write(tmp_path, variants=("tiled", "whole"), tune=values), "--markdown", tmp_path / "t.md")
    assert (ended.code, ended.err) == (0, ""), ended
    assert (document["schema"], document["command"]) == ("samebits/2", "tune")
    tiled = [one for one in document["trials"] if one["side"] == "tiled"]
    assert [(one["value"], one["declared"], one["equal"]) for one in tiled] == [
        ("8", True, True),
        ("16", False, True),
        ("7", False, True),
    ]
    assert {one["verdict"] for one in tiled} <= {"proved", "bitwise"}
    assert [one["loop_turns"] for one in tiled[:2]] == [32, 16] and tiled[0]["program"] != tiled[1]["program"]
    assert tiled[2]["program"] is None and tiled[2]["refused"].startswith(
        "raised ValueError: tile is 7; expected a divisor of 256 ("
    )
    assert "7 is rejected: raised ValueError: tile is 7; expected a divisor of 256" in ended.out
    whole = [one for one in document["trials"] if one["side"] == "whole"]
    assert [one["same_as"] for one in whole] == [None, "8", "8"] and len({one["program"] for one in whole}) == 1
    assert [one["small"].startswith("the program of 8 at this small size") for one in whole] == [False, True, True]
    said = {one["side"]: one for one in document["best"]}
    assert said["whole"]["value"] is None
    assert said["whole"]["reason"] == "all 3 values give the same program: the argument changes nothing here"
    assert said["tiled"]["figure"] not in ("bytes_accessed", "optimal_seconds"), "loops of other lengths"
    assert "optimal_seconds of 2 of 2 values" in said["tiled"]["reason"]
    assert "counts a loop's body once, and the loops differ" in said["tiled"]["reason"]
    assert document["summary"] | {"seconds": 0} == {
        "trials": 6,
        "compiled": 5,
        "same_program": 2,
        "refused": 1,
        "different": 0,
        "unchecked": 0,
        "seconds": 0,
        "interrupted": False,
    }
    markdown = (tmp_path / "t.md").read_text()
    assert markdown.startswith("### samebits compile --tune: results equal\n")
    assert f"| 8 (declared) | {tiled[0]['verdict']} |" in markdown and escaped(said["tiled"]["reason"]) in markdown


def test_a_value_that_changes_the_result_is_reported(tmp_path: Path) -> None:
    """The faulty value fails in words, in the JSON and in the exit code, and cannot be the best."""
    ended, document = tune(write(tmp_path / "honest", tune=TWO))
    assert (ended.code, document["summary"]["different"]) == (0, 0), ended
    ended, document = tune(write(tmp_path / "faulty", tune=TWO, body=FAULTY), "--markdown", tmp_path / "t.md")
    assert (ended.code, document["summary"]["different"]) == (1, 1), ended
    assert [(one["value"], one["equal"]) for one in document["trials"]] == [("8", True), ("32", False)]
    assert document["trials"][1]["verdict"] == "different"
    assert "FAILS: 32 gives other results: out: " in ended.out and "1 with other results" in ended.out
    assert [one["value"] for one in document["best"]] != ["32"]
    assert (tmp_path / "t.md").read_text().startswith("### samebits compile --tune: other results\n")


@pytest.mark.slow
def test_a_small_size_that_does_not_tell_values_apart_says_so(tmp_path: Path) -> None:
    """Otherwise a fault in a value that only large sizes see would hide behind `proved`."""
    # No tile is larger than a sixth of the rows, which are 96 at the small size.
    clipped = OPTIMIZED.replace("        if x.shape", "        tile = min(tile, x.shape[0] // 6)\n        if x.shape")
    root = write(tmp_path)
    (root / "optimized_impls" / "scaled.py").write_text(textwrap.dedent(clipped))
    ended, document = tune(root)
    assert ended.code == 0, ended
    assert [one["small"].startswith("the program of 16 ") for one in document["trials"]] == [False, False, True]
    assert "32: not run separately: it is the program of 16 at this small size" in ended.out


@pytest.mark.slow
def test_memory_decides_where_it_differs(tmp_path: Path) -> None:
    ended, document = tune(write(tmp_path, variants=("padded",)))
    assert ended.code == 0, ended
    [found] = document["best"]
    numbers = {one["value"]: one[found["figure"]] for one in document["trials"]}
    assert found["value"] == min(numbers, key=lambda value: numbers[value]) == "8", found


WRONG = {
    "no sweep": ("", (), "pair 'scaled' declares no values to tune; write tune={'ARGUMENT': (VALUE, VALUE)} and"),
    "no such argument": (
        TUNE.replace("tile", "tille"),
        (),
        "pair 'scaled', real size 'real': tune names 'tille', not a static argument of plain; "
        "expected some of tile; did you mean 'tile'?",
    ),
    "options": (TUNE, ("--option", "a=b"), "--tune tries the values of a static argument, no compiler options;"),
    "unknown variant": (TUNE, ("--variant", "tilde"), "--variant tilde: no pair has it; expected some of plain, tiled"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_gets_one_line(name: str, tmp_path: Path) -> None:
    declared, more, message = WRONG[name]
    ended, _ = tune(write(tmp_path, tune=declared), *more)
    assert ended.code == 2 and len(ended.lines) == 1, ended
    assert ended.lines[0].startswith(f"samebits: {message}"), ended.lines


@pytest.mark.slow
def test_values_that_are_not_run_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the check of values broken, so that every value is run as the first, the planted fault goes unseen."""
    honest = tuning.run_small

    def broken(pair: Any, locator: Any, real: Any, wanted: Any, programs: Any) -> Any:
        found = honest(pair, locator, real, wanted, programs)
        first = tuning.tuned_argument(real)[1][0]
        return {key: replace(found[*key[:2], first], value=repr(key[2])) for key in found}

    root = write(tmp_path, body=FAULTY)
    assert tune(root)[0].code == 1
    monkeypatch.setattr(tuning, "run_small", broken)
    assert tune(root)[0].code == 0
