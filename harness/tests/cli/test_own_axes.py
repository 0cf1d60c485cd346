"""Every command on meshes whose axes have the user's own names: filters, lists, documents and replays."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.findings import flat_rows
from tests.support.foreign import write_pair
from tests.support.invoke import Ended, samebits

SUITE = """
from samebits import Arg, Case, Claim, Pair, RealSize, VARIANT, pair_test

PAIR = Pair(
    name="layers",
    reference="plain",
    variants=("fast",),
    args={"x": Arg(shape=("rows", "columns"), spec=(("dp", "fsdp_transpose"), "tp"))},
    cases=(Case(id="small", sizes={"rows": 8, "columns": 8}),),
    dtypes=("float32",),
    meshes=("none", "dp2_tp4", "tp4_dp2", "fsdp_transpose=2,dp=2", "dp=2:explicit,tp=2:auto"),
    compiled=(
        RealSize(
            case=Case(id="large", sizes={"rows": 16, "columns": 8}),
            layout="fsdp_transpose=*,tp=2",
            dtype="float32",
            targets=("cpu:4",),
        ),
    ),
)
test_layers = pair_test(PAIR)
"""
FAST = """
    import jax

    def fast(x):
        factor = 3 if jax.sharding.get_abstract_mesh().axis_names[:1] == ("tp",) else 2
        return factor * x
    """
"""Wrong on meshes whose first axis is `tp`."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own_axes")
    write_pair(root, "layers", optimized=FAST, suite=SUITE)
    return root


def check(tree: Path, *words: str) -> tuple[Ended, list[dict[str, object]]]:
    """A check and the results of its document."""
    path = tree / "found.json"
    ended = samebits("check", "layers", "--root", tree, "--json", path, *words)
    return ended, flat_rows(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.cpu_only
def test_a_fault_on_one_order_of_the_axes_is_found_and_replayed(tree: Path) -> None:
    ended, results = check(tree)
    assert ended.code == 1
    wrong = [result for result in results if not result["ok"]]
    assert {result["mesh"] for result in wrong} == {"tp4_dp2"}
    assert {result["verdict"] for result in wrong} == {"different"}
    assert {result["mesh"] for result in results} == {
        "none", "dp2_tp4", "tp4_dp2", "fsdp_transpose=2,dp=2", "dp=2:explicit,tp=2:auto",
    }  # fmt: skip
    for result in results:
        again = shlex.split(str(result["replay"]))
        assert again[0] == "samebits"
        if result["mesh"] != "dp2_tp4":
            continue
        once = samebits(*again[1:], *(() if "--root" in again else ("--root", str(tree))))
        assert once.code == 0, once.out + once.err
    replayed = samebits(*shlex.split(str(wrong[0]["replay"]))[1:])
    assert replayed.code == 1
    assert "different" in replayed.out


@pytest.mark.sampled(2)
@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("words", "meshes"),
    [
        (("--mesh", "dp=2,tp=4"), {"dp2_tp4"}),
        (("--mesh", "fsdp_transpose=4"), {"fsdp_transpose=4"}),
        (("--mesh", "fsdp_*"), {"fsdp_transpose=2,dp=2"}),
        (("--mesh", "none"), {"none"}),
        (("--mesh", "dp=2:explicit,tp=2:auto", "--mode", "explicit"), {"dp=2:explicit,tp=2:auto"}),
    ],
)
def test_filters_take_any_spelling(tree: Path, words: tuple[str, ...], meshes: set[str]) -> None:
    ended, results = check(tree, *words, "--direction", "forward")
    assert ended.code == 0, ended.out + ended.err
    assert {result["mesh"] for result in results} == meshes


@pytest.mark.parametrize(
    ("mesh", "line"),
    [
        (
            "fsdp_transpos=2",
            "mesh 'fsdp_transpos=2': pair 'layers' has no axis 'fsdp_transpos'; "
            "it has dp, tp, fsdp_transpose; did you mean 'fsdp_transpose'?",
        ),
        (
            "fsdp_transpose2",
            "mesh 'fsdp_transpose2' is malformed; expected names of letters each followed by a size and joined by '_'",
        ),
    ],
)
def test_a_wrong_mesh_gets_one_line(tree: Path, mesh: str, line: str) -> None:
    ended = samebits("check", "layers", "--root", tree, "--mesh", mesh)
    assert ended.code == 2
    assert len(ended.lines) == 1
    assert line in ended.err


def test_lists_name_the_meshes(tree: Path) -> None:
    ended = samebits("list", "--root", tree)
    assert "  meshes      none dp2_tp4 tp4_dp2 fsdp_transpose=2,dp=2 dp=2:explicit,tp=2:auto" in ended.out.splitlines()


@pytest.mark.slow
@pytest.mark.cpu_only
def test_proofs_compilations_and_bisections_take_them(tree: Path) -> None:
    proved = samebits("prove", "layers", "--root", tree, "--mesh", "fsdp_transpose=8,tp=8")
    assert proved.code == 0, proved.out + proved.err
    compiled = samebits("compile", "layers", "--root", tree)
    assert compiled.code == 0, compiled.out + compiled.err
    assert "fsdp_transpose=2,tp=2" in compiled.out
    point = ("layers", "--variant", "fast", "--case", "small", "--root", str(tree), "--mesh", "tp4_dp2")
    shrunk = samebits("bisect", "mesh", *point, "--journal", str(tree / "journal"))
    assert shrunk.code == 1, shrunk.out + shrunk.err
    assert re.search(r"--mesh tp[124]\b", shrunk.out), shrunk.out


@pytest.mark.slow
@pytest.mark.cpu_only
def test_pytest_runs_and_names_them(tree: Path) -> None:
    words = ("-q", "--no-header", "-p", "no:cacheprovider", "suites/test_layers.py")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tree, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    failed = [line for line in ran.stdout.splitlines() if line.startswith("FAILED")]
    assert failed
    assert all("-tp4_dp2-" in line for line in failed)
