"""`samebits prove MODULE:FUNCTION --property P`: verdicts, exit codes, wrong requests."""

import json
from pathlib import Path

import pytest

from tests.support.findings import flat_rows
from tests.support.invoke import Ended, samebits

FUNCTIONS = """\
import jax
import jax.numpy as jnp


def summed(x):
    return jnp.cumsum(x, axis=1)


def ahead(x):
    return x + jnp.roll(x, -1, axis=1)


def attention(x, segments, *, drop=False):
    same = segments[:, :, None] == segments[:, None] if not drop else True
    return jax.nn.softmax(jnp.where(same, jnp.einsum("btd,bsd->bts", x, x), -jnp.inf)) @ x


def shifted(x, segments):
    first = jnp.pad(segments, ((0, 0), (1, 0)))[:, :-1] == jnp.where(segments == 4, 3, segments)
    return x + jnp.where(first[..., None], jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1], 0)


def pooled(x, mask):
    return (x * mask[..., None]).sum(1) / mask.sum(1)[:, None]


def mean(x, mask):
    return x.mean(1)


def called_back(x):
    return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
"""
X, IDS, MASK = ("--arg", "x=f32[2,6,4]"), ("--arg", "segments=i32[2,6]"), ("--arg", "mask=bool[2,6]")
PACKED = "packed(segment_ids=segments)"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mixing.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)


def prove(function: str, *words: str) -> Ended:
    return samebits("prove", f"mixing.py:{function}", *words)


def test_an_honest_function_is_proved(tmp_path: Path) -> None:
    ended = prove("summed", "--property", "causal", *X, "--json", "p.json", "--html", "p.html", "--junitxml", "p.xml")
    assert ended.code == 0, ended.err
    assert "summed, causal: PROVED, whatever the values" in ended.out
    assert "summed, causal under differentiation: PROVED, whatever the values" in ended.out
    assert ended.out.splitlines()[-1].endswith("every property reaches its contract by proof")
    document = json.loads((tmp_path / "p.json").read_text())
    assert (document["schema"], document["command"]) == ("samebits/2", "prove")
    rows = flat_rows(document)
    assert [(r["verdict"], r["method"], r["direction"], r["leaf"]) for r in rows] == [
        ("proved", "dependence", "forward", "causal"),
        ("proved", "dependence", "gradient", "causal under differentiation"),
    ]
    assert 'tests="2"' in (tmp_path / "p.xml").read_text()
    assert samebits("report", "p.json", "--html", "again.html").code == 0
    assert samebits("diff", "p.json", "p.json").code == 0


def test_a_leak_is_refuted_with_its_witness_and_itself() -> None:
    words = ("--property", "causal", "--property", "window(size=6)", *X, "--forward")
    ended = prove("ahead", *words)
    assert ended.code == 1
    assert "witness    changing x[0, 1, 0] from " in ended.out and "moves out[0, 0, 0] from " in ended.out
    assert "it gets in by add(float32[2, 6, 4], float32[2, 6, 4]) at " in ended.out and "mixing.py:10" in ended.out
    replay = "samebits prove mixing.py:ahead --arg 'x=f32[2,6,4]' --property causal --property 'window(size=6)'"
    assert any(line.startswith("next: samebits prove mixing.py:ahead") for line in ended.out.splitlines())
    assert sorted(replay.split()) == sorted(ended.out.splitlines()[-1].removeprefix("next: ").split()[:-1])
    assert "under differentiation" not in ended.out


def test_what_cannot_be_followed_is_undecided() -> None:
    ended = prove("called_back", "--property", "causal", *X)
    assert ended.code == 3
    assert "causal: NOT PROVED" in ended.out and "pure_callback" in ended.out
    assert ended.out.splitlines()[-1].startswith("next: samebits prove mixing.py:called_back ")
    assert "the gradient was not asked" in ended.out


def test_segments_and_masks_are_drawn_to_show_something() -> None:
    ended = prove("attention", "--property", PACKED, *X, *IDS)
    assert ended.code == 0, ended.out
    assert "PROVED, whatever the values, for the values of segments tried" in ended.out
    assert "for segments, so it was drawn with ends after the first and before the last place" in ended.out
    assert prove("attention", "--property", PACKED, *X, *IDS, "--static", "drop=True").code == 1
    assert prove("shifted", "--property", PACKED, *X, *IDS, "--forward").code == 1  # at the last boundary alone
    assert prove("attention", "--property", PACKED, *X, *IDS, "--no-assumptions").code == 0
    ended = prove("pooled", "--property", "padding", *X, *MASK)
    assert ended.code == 0 and "for mask, so it was drawn with padding at both ends" in ended.out
    ended = prove("mean", "--property", "padding", *X, *MASK)
    assert ended.code == 1 and "moves out[" in ended.out


def test_a_property_is_decided_on_a_mesh() -> None:
    assert prove("summed", "--property", "causal", *X, "--mesh", "dp2").code == 0
    assert prove("ahead", "--property", "causal", *X, "--mesh", "dp2").code == 1


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a pair": (("rope", "--property", "causal"), "--property is of one function; write `samebits prove MODULE:FUNC"),
    "two functions": (
        ("mixing.py:summed", "mixing.py:ahead", "--property", "causal", *X),
        "--property is of one function",
    ),
    "no array": (("mixing.py:summed", "--property", "causal"), "no --arg"),
    "no function": (("mixing.py:other", "--property", "causal", *X), "has no function 'other'"),
    "an unknown property": (("mixing.py:summed", "--property", "causl", *X), "did you mean 'causal'?"),
    "no such argument": (
        ("mixing.py:summed", "--property", "causal(on=y)", *X),
        "property causal(on='y'): on names 'y'",
    ),
    "no such element": (
        ("mixing.py:summed", "--property", "independent(of='out[:, t]', on='x[:, t+9:]')", *X),
        "names no element of x[2, 6, 4]",
    ),
    "one document": (
        ("mixing.py:attention", "--property", PACKED, *X, "--arg", "segments=i32[2,6]:1..1"),
        "holds no row of two segments",
    ),
    "nothing padded": (
        ("mixing.py:pooled", "--property", "padding", *X, "--arg", "mask=bool[2,6]:true"),
        "mask has no padded places; pass one with both",
    ),
    "options of pairs": (
        ("mixing.py:summed", "--property", "causal", *X, "--case", "small"),
        "--case does not go with --property, which takes --arg, --static, --forward, --mesh, --no-assumptions",
    ),
    "options of two functions": (
        ("mixing.py:summed", "--property", "causal", *X, "--accept", "bitwise"),
        "--accept does not go with --property",
    ),
    "all sizes": (("mixing.py:summed", "--property", "causal", *X, "--all-sizes"), "--all-sizes does not go with"),
    "two meshes": (
        ("mixing.py:summed", "--property", "causal", *X, "--mesh", "dp2", "--mesh", "dp4"),
        "a second --mesh does not go with --property",
    ),
    "workers": (("mixing.py:summed", "--property", "causal", *X, "--workers", "2"), "--workers is about worker"),
    "the model": (("model", "--property", "causal"), "--property is of one function"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_gets_one_line(name: str) -> None:
    words, line = WRONG[name]
    ended = samebits("prove", *words)
    assert ended.code == 2, ended.out
    assert len(ended.lines) == 1 and line in ended.lines[0], ended.lines
