"""Properties in a declaration: `samebits prove` decides them of each side, and a leak fails the pair."""

import json
import re
from pathlib import Path

import pytest

from tests.support.findings import flat_rows
from tests.support.invoke import Ended, samebits

SIDES = """\
import jax
import jax.numpy as jnp


def summed(x):
    return jnp.cumsum(x, axis=1)


def scanned(x):
    return jnp.moveaxis(jax.lax.associative_scan(jnp.add, jnp.moveaxis(x, 1, 0)), 0, 1)


def ahead(x):
    return x + jnp.roll(x, -1, axis=1)


def scaled_ahead(x):
    return 1.0 * x + jnp.roll(x, -1, axis=1)


@jax.custom_vjp
def stopped(x):
    return jnp.cumsum(x, axis=1)


stopped.defvjp(lambda x: (stopped(x), None), lambda kept, cotangent: 1 / 0)
"""

SUITE = """\
from samebits import Arg, Case, Pair, Property, pair_test

PAIR = Pair(
    name="mix",
    reference="sides_of_mix:{reference}",
    variants={{"{variant}": "sides_of_mix:{variant}"}},
    args={{"x": Arg(shape=("batch", "length", 4))}},
    cases=(Case(id="small", sizes={{"batch": 2, "length": 6}}),),
    dtypes=("float32",),
    meshes=("none", "data2"),
    properties=({properties},),
)

test_mix = pair_test(PAIR)
"""


WORKERS = ("--workers", "1", "--verbose")
"""What is decided in another process, from what travels there."""


def declared(folder: Path, reference: str, variant: str, properties: str, *words: str | Path) -> Ended:
    (folder / "suites").mkdir()
    (folder / "sides_of_mix.py").write_text(SIDES)
    text = SUITE.format(reference=reference, variant=variant, properties=properties)
    (folder / "suites" / "test_mix.py").write_text(text)
    return samebits("prove", "mix", "--root", folder, "--json", folder / "d.json", *words)


def test_a_declared_property_is_proved_of_each_side(tmp_path: Path) -> None:
    ended = declared(tmp_path, "summed", "scanned", "Property('causal'), Property('batch_rows', variant='scanned')")
    assert ended.code == 0, ended.out + ended.err
    rows = [row for row in flat_rows(json.loads((tmp_path / "d.json").read_text())) if row["method"] == "dependence"]
    assert {(row["variant"], row["leaf"].split(" ")[0]) for row in rows} == {
        ("summed", "causal"),
        ("scanned", "causal"),
        ("scanned", "batch_rows"),
    }
    assert {row["mesh"] for row in rows} == {"none", "data2"}
    assert {row["direction"] for row in rows} == {"forward", "gradient"}
    assert all(row["replay"].startswith("samebits prove mix --variant ") for row in rows)


def test_a_declared_property_that_leaks_fails_the_pair(tmp_path: Path) -> None:
    page = tmp_path / "d.html"
    words = (*WORKERS, "--html", page)
    ended = declared(tmp_path, "ahead", "scaled_ahead", "Property('causal', variant='scaled_ahead')", *words)
    assert ended.code == 1
    assert "scaled_ahead, causal: REFUTED" in ended.out and "changing x[0, 1, 0] from " in ended.out
    assert "ahead, out: REFUTED" not in ended.out and "  ahead, causal" not in ended.out
    matrices = re.findall(r'<svg[^>]*class="reads-matrix".*?</svg>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(matrices) == 2 and 'aria-label="what each output reads, forward"' in matrices[0]
    clicked = (
        r'<g tabindex="0">.*<text y="\d+">output group 0 reads input group 1, which it must not, by add\(.*sides_of_mix'
    )
    assert re.search(clicked, matrices[0])


def test_forward_alone_traces_no_gradient_of_a_property(tmp_path: Path) -> None:
    asked = (tmp_path, "summed", "stopped", "Property('causal', variant='stopped')", "--direction", "forward")
    ended = declared(*asked)
    assert ended.code == 0, ended.out + ended.err
    assert "ZeroDivisionError" not in (tmp_path / "d.json").read_text() + ended.out


def test_a_declared_property_that_does_not_fit_is_a_mistake(tmp_path: Path) -> None:
    ended = declared(tmp_path, "summed", "scanned", "Property('causal', on='y')")
    assert ended.code == 2
    assert "pair 'mix', case 'small', property causal(on='y'): on names 'y'; the arrays are x" in ended.err


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ("'causal'", "properties holds 'causal'; expected Property('causal', ...)"),
        ("Property('causal', case='big')", "property causal: case=big matches nothing; expected some of small"),
        ("Property('causal', variant='other')", "property causal: variant=other matches nothing"),
        ("Property('window')", "property window needs size; write window(size=4)"),
    ],
)
def test_a_wrong_declaration_gets_one_line(tmp_path: Path, properties: str, line: str) -> None:
    ended = declared(tmp_path, "summed", "scanned", properties)
    assert ended.code == 2 and line in ended.err, ended.err
