"""`samebits prove` from the command line: reports, exit codes, wrong requests, and its numbers of devices."""

import json
import shlex
from pathlib import Path

import pytest

from tests.support.findings import flat_rows
from tests.support.invoke import samebits
from tests.support.rope_tree import write_tree

ATTENTION = "tests.prove.mathematics.attention:PAIR"
FEW = ("--case", "tokens", "--dtype", "float32")


def test_movement_is_proved_on_a_mesh_of_128_without_devices(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    ended = samebits("prove", "sequence_reorder", "--mesh", "context128", *FEW, "--verbose", "--json", file)
    assert ended.code == 0, ended.out
    assert "structured, gradient of x: PROVED: the same bits for every input" in ended.out
    assert "assumes    these shapes; false where" in ended.out
    assert "assumes    no -0.0, subnormal number or signalling NaN in the cotangent of out; false where" in ended.out
    assert ended.out.splitlines()[-1].endswith("every leaf reaches its contract by proof")
    document = json.loads(file.read_text())
    assert (document["schema"], document["command"]) == ("samebits/2", "prove")
    results = flat_rows(document)
    assert {(r["verdict"], r["method"], r["mesh"], r["ok"]) for r in results} == {
        ("proved", "labels", "context128", True)
    }
    assert {r["variant"] for r in results} == {"gather", "structured", "permute"}
    assert all(r["replay"].startswith("samebits prove sequence_reorder --variant ") for r in results)


@pytest.mark.slow
def test_formulas_are_proved_with_their_probability_and_bounds(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    ended = samebits(
        *("prove", "rms_norm", "--variant", "multiply", "--case", "qwen", "--direction", "gradient"),
        *("--verbose", "--json", file),
    )
    assert "multiply, gradient of scale: SAME FORMULAS: only rounding can differ" in ended.out
    assert "that different formulas agree by accident (Schwartz-Zippel: degree " in ended.out
    assert "taken as random functions: sqrt (" in ended.out
    results = flat_rows(json.loads(file.read_text()))
    assert {r["verdict"] for r in results} == {"rounding"}
    assert all(r["log2_error"] <= -60 and r["points"] >= 2 and r["degree"] > 1 for r in results)
    assert all(r["bound_optimized"] > 0 and "rms_norm.py:" in r["loses_most"] for r in results)


@pytest.mark.slow
def test_what_asks_for_bits_is_not_reached_by_equal_formulas() -> None:
    ended = samebits("prove", "embedding", "--variant", "gather", "--case", "out_of_range", "--direction", "forward")
    assert ended.code == 3
    assert "NOT reached by proof" in ended.out
    assert "equal formulas do not make equal bits: `samebits check` runs both sides" in ended.out


@pytest.mark.slow
def test_blockwise_attention_is_the_same_mathematics() -> None:
    """The first token attends to itself alone: its gradient of q cancels to 0, whose rounding a check measures."""
    ended = samebits("prove", ATTENTION, "--variant", "blocks_scanned", "--dtype", "bfloat16", "--verbose")
    assert "blocks_scanned, gradient of k: SAME FORMULAS" in ended.out
    assert "exp with its law" in ended.out
    assert ended.code == 3 and "8 leaves: same formulas 8; " in ended.out, ended.out
    undecided = [line for line in ended.out.splitlines() if "NOT reached by proof" in line]
    assert len(undecided) == 2 and all("the variant's operations can lose is up to 2" in line for line in undecided)
    assert "  where     gradient of q; capped, usual; bfloat16; data1" in ended.out
    *_, line = ended.out.splitlines()
    assert samebits(*shlex.split(line.removeprefix("next: samebits "))).code == 0


def test_a_changed_epsilon_is_refuted_with_a_witness(tmp_path: Path) -> None:
    root = write_tree(tmp_path)
    file = root / "optimized_impls" / "rope.py"
    file.write_text(file.read_text().replace("first * cos - second * sin", "first * cos - second * sin + 1e-7"))
    ended = samebits("prove", "rope", "--root", root, "--direction", "forward", "--verbose")
    assert ended.code == 1
    assert "paired, out: REFUTED" in ended.out
    assert "witness    out[0, 0] is " in ended.out
    assert "replay     samebits prove rope --variant paired" in ended.out
    assert ended.out.splitlines()[-1].startswith("next: samebits prove rope ")


@pytest.mark.slow
def test_honest_rope_needs_only_rounding(tmp_path: Path) -> None:
    """Sine and cosine are unknown functions; both sides ask them for the same angles."""
    ended = samebits("prove", "rope", "--root", write_tree(tmp_path), "--verbose")
    assert "paired, out: SAME FORMULAS" in ended.out and "paired, gradient of x: SAME FORMULAS" in ended.out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("sequence_reorde",), "did you mean sequence_reorder?"),
        (("sequence_reorder", "--mesh", "context0"), "mesh axis 'context' has size 0; expected at least 1"),
        (("sequence_reorder", "--mesh", "expert4"), "has no axis 'expert'"),
        (("rms_norm", "--case", "nope"), "pair 'rms_norm' has no case 'nope'"),
        (("rms_norm", "--json", "/nowhere/at/all.json"), "the folder '/nowhere/at' does not exist"),
    ],
)
def test_wrong_requests_get_one_line(words: tuple[str, ...], line: str) -> None:
    ended = samebits("prove", *words)
    assert ended.code == 2
    assert len(ended.lines) == 1 and line in ended.lines[0], ended.lines


EXCHANGE = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from samebits import Arg, AxisSize, Case, Pair


def rolled(x, *, cp):
    return jnp.roll(x.reshape(cp, -1), 1, axis=0).reshape(x.shape)


def ring(x, cp, step):
    table = [(rank, (rank + step) % cp) for rank in range(cp)]
    split = PartitionSpec("context")
    return jax.shard_map(lambda part: lax.ppermute(part, "context", table), in_specs=split, out_specs=split)(x)


def permuted(x, *, cp):
    return ring(x, cp, 1)


def wrong_at_six(x, *, cp):
    return ring(x, cp, 2 if cp == 6 else 1)


PAIR = Pair(
    name="exchange",
    reference=rolled,
    variants={"permuted": permuted, "wrong_at_six": wrong_at_six},
    args={"x": Arg(shape=("length",), spec=("context",))},
    cases=(
        Case(
            id="small",
            sizes={"length": 24},
            statics={"cp": AxisSize(axis="context")},
            symbols={"length": "context*part"},
        ),
    ),
    dtypes=("float32",),
    meshes=("context2", "context4", "context8"),
    gradients=False,
)
"""


@pytest.mark.slow
def test_a_fault_on_one_number_of_devices_fails_in_its_replay(tmp_path: Path) -> None:
    (tmp_path / "exchange.py").write_text(EXCHANGE)
    words = ("prove", f"{tmp_path}/exchange.py:PAIR", "--all-sizes", "--mesh", "context2", "--verbose")
    ended = samebits(*words, "--json", tmp_path / "p.json")
    honest, faulty = flat_rows(json.loads((tmp_path / "p.json").read_text()))
    assert (ended.code, honest["verdict"], honest["sizes"], faulty["verdict"]) == (1, "proved", "all", "different")
    (shown,) = honest["family"]["devices"]
    assert shown == {"axis": "context", "numbers": [*range(1, 17)], "most": 16, "why_not": None}
    assert "and every number of devices up to 16 on axis context" in ended.out
    assert (faulty["mesh"], faulty["family"]["mesh"], faulty["family"]["devices"]) == ("context2", "context6", [])
    assert " --mesh context6 " in faulty["replay"]
    assert f" --sizes length={6 * faulty['family']['counterexample']['part']}" in faulty["replay"]
    assert samebits(*shlex.split(faulty["replay"])[1:]).code == 1
