"""`samebits prove --all-sizes` from the command line: proved, refuted at sizes, undecided; document and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.invoke import samebits

DECLARATION = """
import jax.numpy as jnp

from samebits import Arg, Case, Pair


def plain(x):
    return x[::-1]


def taken(x):
    return jnp.take(x, x.shape[0] - 1 - jnp.arange(x.shape[0]), axis=0)


def wrong_at_sixteen(x):
    return x if x.shape[0] == 16 else x[::-1]


def unrolled(x):
    return jnp.stack([x[i] for i in range(x.shape[0])][::-1])


PAIR = Pair(
    name="flip",
    reference=plain,
    variants={"taken": taken, "wrong_at_sixteen": wrong_at_sixteen, "unrolled": unrolled},
    args={"x": Arg(shape=("rows", 3))},
    cases=(Case(id="small", sizes={"rows": 4}),),
    dtypes=("float32",),
    gradients=False,
)
"""


def _prove(folder: Path, variant: str, *words: str) -> tuple[int, str, dict[str, object]]:
    (folder / "flips.py").write_text(DECLARATION)
    file = folder / "p.json"
    ended = samebits("prove", "flips:PAIR", "--all-sizes", "--variant", variant, "--json", file, *words)
    (row,) = json.loads(file.read_text())["results"]
    return ended.code, ended.out, row


def test_all_sizes_are_proved_with_their_conditions(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # type: ignore[attr-defined]
    code, out, row = _prove(tmp_path, "taken")
    assert (code, row["verdict"], row["method"]) == (0, "proved", "all sizes")
    assert "x float32[rows, 3]; every number of devices; where rows >= 1" in out
    assert row["family"]["shapes"] == {"x": "float32[rows, 3]"}  # type: ignore[index]


def test_a_fault_at_one_size_is_refuted_at_it(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # type: ignore[attr-defined]
    code, out, row = _prove(tmp_path, "wrong_at_sixteen")
    assert (code, row["verdict"]) == (1, "different")
    assert row["family"]["counterexample"] == {"rows": 16}  # type: ignore[index]
    assert "at rows=16: out[" in out


def test_code_that_needs_a_number_is_undecided(tmp_path: Path, monkeypatch: object) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # type: ignore[attr-defined]
    code, out, row = _prove(tmp_path, "unrolled")
    assert (code, row["verdict"]) == (3, "error")
    assert "cannot be traced with symbols for sizes" in out


def test_the_model_is_not_proved_for_all_sizes() -> None:
    assert samebits("prove", "model", "--all-sizes").code == 2


def test_a_reference_alone_is_a_wrong_request() -> None:
    ended = samebits("prove", "sequence_reorder", "--all-sizes", "--variant", "gather", "--case", "bshd")
    assert ended.code == 2
    assert "no point of a variant in auto mode" in ended.err
