"""`samebits prove --all-sizes` of code that asks for the mesh: for which numbers of devices it holds, and a replay."""

import json
import shlex
from pathlib import Path

import pytest

from tests.support.findings import flat_rows
from tests.support.invoke import samebits

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
