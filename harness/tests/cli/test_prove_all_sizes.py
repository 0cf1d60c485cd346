"""`samebits prove --all-sizes` from the command line: proved, refuted at sizes, undecided; document and exit codes."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.findings import flat_rows
from tests.support.invoke import Ended, clean_environment, command, samebits, samebits_process

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


RING = """
import jax.numpy as jnp

from samebits import Arg, AxisSize, Case, Pair


def gather(x, *, cp):
    blocks = x.reshape(x.shape[0], 2 * cp, -1)
    order = jnp.stack([jnp.arange(cp), 2 * cp - 1 - jnp.arange(cp)], axis=1).reshape(-1)
    return jnp.take(blocks, order, axis=1).reshape(x.shape)


def stacked(x, *, cp):
    blocks = x.reshape(x.shape[0], 2, cp, -1)
    return jnp.stack([blocks[:, 0], blocks[:, 1, ::-1]], axis=2).reshape(x.shape)


def wrong_at_sixteen(x, *, cp):
    return x if cp == 16 else stacked(x, cp=cp)


def length(case, mesh):
    return 2 * mesh.size("context") * case.sizes["group"]


PAIR = Pair(
    name="ring",
    reference=gather,
    variants={"stacked": stacked, "wrong_at_sixteen": wrong_at_sixteen},
    args=lambda case, mesh: {"x": Arg(shape=("batch", length(case, mesh)), spec=(None, "context"))},
    cases=(Case(id="small", sizes={"batch": 2, "group": 3}, statics={"cp": AxisSize(axis="context")}),),
    dtypes=("float32",),
    meshes=("context2",),
)
"""

PIPE = """
import jax

from samebits import Arg, Case, Pair


def plain(x):
    return x[::-1]


def on_mesh(x):
    devices = jax.sharding.get_abstract_mesh().shape.get("data", 1)
    return x if x.shape[0] == 3 * devices else x[::-1]


PAIR = Pair(
    name="pipe",
    reference=plain,
    variants={"on_mesh": on_mesh},
    args={"x": Arg(shape=("rows", 3), spec=("data",))},
    cases=(Case(id="small", sizes={"rows": 4}, symbols={"rows": "n + 1"}),),
    dtypes=("float32",),
    meshes=("data4",),
    gradients=False,
)
"""


SOME_SIZES = """
import jax.numpy as jnp

from samebits import Arg, Case, Pair


def copy(x, *, chunk):
    return x[:]


def last_chunk_lost(x, *, chunk):
    whole = x.shape[0] // chunk * chunk
    return jnp.concatenate([x[:whole], jnp.zeros_like(x[whole:])])


def odd_counts(x, *, chunk):
    return x[::-1] if x.shape[0] % 2 else x


def not_divisible(x, *, chunk):
    return x if x.shape[0] % chunk == 0 else x[::-1]


def long(x, *, chunk):
    return x[::-1] if x.shape[0] > 2**16 else x


def narrow_index(x, *, chunk):
    return x[jnp.arange(x.shape[0]).astype(jnp.uint16).astype(jnp.int32)]


def group_of_one(x, *, chunk):
    return x[::-1] if x.shape[1] == 1 else x


PAIR = Pair(
    name="some_sizes",
    reference=copy,
    variants={f.__name__: f for f in (last_chunk_lost, odd_counts, not_divisible, long, narrow_index, group_of_one)},
    args={"x": Arg(shape=("length", "width"), spec=("data",))},
    cases=(Case(id="small", sizes={"length": 16, "width": 2}, statics={"chunk": 4}),),
    dtypes=("float32",),
    meshes=("data2",),
    gradients=False,
)
"""


def _replayed(folder: Path, row: dict[str, Any]) -> Ended:
    """The replay of a result, as a process of its own, for its devices, in the folder of the declaration."""
    words = shlex.split(row["replay"])
    assert words[:2] == ["samebits", "check"]
    return samebits_process(*words[1:], "--in-process", cwd=folder)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_a_fault_at_sixteen_devices_fails_in_its_replay(tmp_path: Path, direction: str) -> None:
    (tmp_path / "ring.py").write_text(RING)
    words = ("prove", f"{tmp_path}/ring.py:PAIR", "--all-sizes", "--direction", direction)
    ended = samebits(*words, "--json", tmp_path / "p.json")
    honest, faulty = flat_rows(json.loads((tmp_path / "p.json").read_text()))
    assert (ended.code, honest["verdict"], faulty["verdict"]) == (1, "proved", "different")
    assert honest["family"]["statics"] == {"cp": "context"}
    assert faulty["family"]["counterexample"]["context"] == 16
    assert "--mesh context16" in faulty["replay"]
    assert "--sizes batch=" in faulty["replay"]
    replayed = _replayed(tmp_path, faulty)
    assert (replayed.code, "different" in replayed.out) == (1, True), replayed
    few = ("--variant", "wrong_at_sixteen", "--direction", direction, "--mode", "auto")
    passed = samebits("check", f"{tmp_path}/ring.py:PAIR", *few)
    assert passed.code == 0, passed.out  # the fault is beyond the declared meshes


@pytest.mark.slow
def test_faults_at_some_sizes_are_refuted_there(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(SOME_SIZES)
    ended = samebits("prove", f"{tmp_path}/some.py:PAIR", "--all-sizes", "--json", tmp_path / "p.json")
    rows = {row["variant"]: row for row in flat_rows(json.loads((tmp_path / "p.json").read_text()))}
    assert (ended.code, {row["verdict"] for row in rows.values()}) == (1, {"different"})
    at = {name: row["family"]["counterexample"] for name, row in rows.items()}
    assert at["long"]["length"] == at["narrow_index"]["length"] == 65537
    assert at["odd_counts"]["length"] % 2 == 1 and at["not_divisible"]["length"] % 4
    assert at["last_chunk_lost"]["length"] % 4 and at["group_of_one"]["width"] == 1
    for row in rows.values():
        words = shlex.split(row["replay"])[1:]
        assert samebits(*(f"{tmp_path}/{w}" if w.startswith("some.py") else w for w in words)).code == 1, row["replay"]
    passed = samebits("check", f"{tmp_path}/some.py:PAIR", "--fresh")
    assert passed.code == 0, passed.out  # every fault is beyond the declared sizes


@pytest.mark.slow
def test_a_check_says_what_is_proved_for_all_sizes(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(RING)
    words = ("check", f"{tmp_path}/ring.py:PAIR", "--all-sizes", "--direction", "forward")
    assert samebits(*words, "--json", tmp_path / "c.json").code == 0
    results = flat_rows(json.loads((tmp_path / "c.json").read_text()))
    shown = {row["variant"]: (row["verdict"], row["sizes"], row["family"] is not None) for row in results}
    assert shown == {
        "gather": ("proved", "these", False),
        "stacked": ("proved", "all", True),
        "wrong_at_sixteen": ("proved", "these", False),
    }


def test_a_contract_for_all_sizes_fails_in_a_check(tmp_path: Path) -> None:
    contract = 'contracts=(Contract(lowest="proved", sizes="all", mode="auto"),),\n    gradients=False,'
    declared = RING.replace('meshes=("context2",),', f'meshes=("context2",),\n    {contract}')
    (tmp_path / "ring.py").write_text(declared.replace("import Arg,", "import Contract, Arg,"))
    ended = samebits("check", f"{tmp_path}/ring.py:PAIR", "--mode", "auto", "--json", tmp_path / "c.json")
    results = flat_rows(json.loads((tmp_path / "c.json").read_text()))
    assert (ended.code, {row["variant"] for row in results if not row["ok"]}) == (1, {"wrong_at_sixteen"})
    assert "the contract requires all sizes: at batch=2, group=1, context=16: out[0, 1] is x[0, 31]" in ended.out


def test_a_refutation_on_a_mesh_divides_by_its_devices(tmp_path: Path) -> None:
    (tmp_path / "pipe.py").write_text(PIPE)
    ended = samebits("prove", f"{tmp_path}/pipe.py:PAIR", "--all-sizes", "--json", tmp_path / "p.json")
    (row,) = flat_rows(json.loads((tmp_path / "p.json").read_text()))
    assert (ended.code, row["family"]["counterexample"]) == (1, {"n": 11})
    assert "--mesh data4 " in row["replay"]
    assert row["replay"].endswith("--sizes rows=12")
    assert samebits(*shlex.split(row["replay"])[1:]).code == 1


def _prove(folder: Path, variant: str, *words: str) -> tuple[int, str, dict[str, object]]:
    (folder / "flips.py").write_text(DECLARATION)
    file = folder / "p.json"
    ended = samebits("prove", "flips:PAIR", "--all-sizes", "--variant", variant, "--json", file, *words)
    (row,) = flat_rows(json.loads(file.read_text()))
    return ended.code, ended.out, row


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("how", [("--workers", "2"), ("--in-process",)], ids=["workers", "in process"])
def test_the_command_ends_by_itself(tmp_path: Path, how: tuple[str, ...]) -> None:
    """In a process of its own, whose worker processes, z3 and profile function are gone with it."""
    (tmp_path / "flips.py").write_text(DECLARATION)
    words = command("prove", "flips.py:PAIR", "--all-sizes", *how)
    ended = subprocess.run(words, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended
    for verdict in ("taken, out: PROVED FOR ALL SIZES", "wrong_at_sixteen, out: REFUTED", "unrolled, *: NOT PROVED"):
        assert verdict in ended.stdout, ended


def test_the_model_is_not_proved_for_all_sizes() -> None:
    assert samebits("prove", "model", "--all-sizes").code == 2


def test_a_reference_alone_is_a_wrong_request() -> None:
    ended = samebits("prove", "sequence_reorder", "--all-sizes", "--variant", "gather", "--case", "bshd")
    assert ended.code == 2
    assert "no point of a variant; all sizes" in ended.err
