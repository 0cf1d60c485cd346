"""`--github` and `--junitxml` from the command line: of what holds, of what fails, and of wrong requests."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from junitparser.xunit2 import JUnitXml

from tests.support.foreign import FORWARD, PLANTED, write_pair
from tests.support.invoke import samebits, samebits_process
from tests.support.real_tree import compiled, write_real_pair


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository") / "numerics"
    write_pair(root, "good", extra=FORWARD)
    write_pair(root, "planted", optimized=PLANTED, extra=FORWARD)
    return root


@pytest.fixture(autouse=True)
def _workspace(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tree.parent))


def annotated(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("::")]


def failures(file: Path) -> list[str]:
    return [str(case.result[0].message) for suite in JUnitXml.fromfile(str(file)) for case in suite if case.result]


def test_a_pair_that_holds(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.xml"
    ended = samebits("check", "good", "--root", tree, "--github", "--junitxml", file)
    assert ended.code == 0, ended.out
    assert annotated(ended.out) == []
    (suite,) = JUnitXml.fromfile(str(file))
    assert (suite.name, suite.tests, suite.failures, suite.errors) == ("good", 2, 0, 0)


def test_a_difference_is_at_the_line_of_its_case(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.xml"
    ended = samebits("check", "--root", tree, "--github", "--junitxml", file)
    assert ended.code == 1, ended.out
    (line,) = annotated(ended.out)
    declaration = (tree / "suites" / "test_planted.py").read_text().splitlines()
    number = next(number for number, text in enumerate(declaration, 1) if "Case(" in text)
    assert line.startswith(
        f"::error file=numerics/suites/test_planted.py,line={number},"
        "title=samebits%3A planted/fast%2C case small%3A different::planted/fast, case small, float32, mesh data2"
    )
    assert "%0A  witness   out[1, 2]: reference=" in line and "%0A  replay    samebits check planted " in line
    assert ended.out.rstrip().endswith(line)
    (failure,) = failures(file)
    assert "reference=" in failure


def test_a_refuted_pair(tmp_path: Path) -> None:
    file = tmp_path / "r.xml"
    write_pair(tmp_path, "tripled", optimized="def fast(x):\n    return 3 * x\n", extra=FORWARD)
    ended = samebits("prove", "tripled", "--root", tmp_path, "--github", "--junitxml", file)
    assert ended.code == 1, ended.out
    (line,) = annotated(ended.out)
    assert "title=samebits%3A tripled/fast%2C case small%3A refuted::" in line
    assert len(failures(file)) == 1


def test_what_is_not_proved_is_a_warning_and_an_error(tmp_path: Path) -> None:
    opaque = """
    import jax, numpy as np

    def fast(x):
        return jax.pure_callback(lambda v: np.asarray(2 * v), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    """
    write_pair(tmp_path, "opaque", optimized=opaque, extra=FORWARD)
    file = tmp_path / "r.xml"
    ended = samebits("prove", "opaque", "--root", tmp_path, "--github", "--junitxml", file)
    assert ended.code == 3, ended.out
    (line,) = annotated(ended.out)
    assert line.startswith(f"::warning file={tmp_path}/suites/test_opaque.py,line=")
    (suite,) = JUnitXml.fromfile(str(file))
    assert (suite.failures, suite.errors) == (0, 1)


def test_a_claim_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(tmp_path / "cache"))
    claims = ('variant="turned", shows=VARIANT.gathers == 0', 'variant="turned", shows=VARIANT.gathers == 7')
    root = write_real_pair(tmp_path / "tree", claims=claims, variants=("turned",), targets=["cpu:8"])
    file = tmp_path / "r.xml"
    ended, _ = compiled(root, "--direction", "forward", "--github", "--junitxml", file)
    assert ended.code == 1, ended.out
    (line,) = annotated(ended.out)
    assert "%0A  claim     gathers == 7%0A  verdict   does not hold, required holds%0A  evidence  got 0%0A" in line
    (message,) = failures(file)
    assert message.startswith("gathers == 7: does not hold, required holds; got 0; ")


def test_a_run_that_compared_nothing(tree: Path, tmp_path: Path) -> None:
    root, file = tmp_path / "wide", tmp_path / "r.xml"
    axes = 'cases=(Case(id="small", sizes={"rows": 4}),), dtypes=("float32",), meshes=("data2",),'
    write_pair(root, "lonely", axes=axes)
    (root / "optimized_impls" / "lonely.py").unlink()
    ended = samebits("check", "--root", root, "--github", "--junitxml", file)
    assert ended.code == 2
    (line,) = annotated(ended.out)
    assert line.startswith(f"::error file={root}/suites/test_lonely.py,line=4,") and "lacks a twin" in line
    (message,) = failures(file)
    assert message == f"pair 'lonely' lacks a twin: write {root}/optimized_impls/lonely.py"


def test_a_wrong_request_is_an_annotation(tree: Path) -> None:
    ended = samebits("check", "good", "--case", "smal", "--root", tree, "--github")
    line = "pair 'good' has no case 'smal'; did you mean small?"
    assert (ended.code, ended.lines) == (2, [f"samebits: {line}"])
    assert annotated(ended.out) == [f"::error title=samebits::{line}"]


@pytest.mark.slow
def test_a_document_on_stdout_is_not_mixed_with_annotations(tree: Path) -> None:
    ended = samebits_process("check", "planted", "--root", tree, "--github", "--json", "/dev/stdout")
    assert (ended.code, json.loads(ended.out)["command"]) == (1, "check")
    assert len(annotated(ended.err)) == 1
    ended = samebits_process("check", "planted", "--root", tree, "--github", "--junitxml", "/dev/stdout")
    assert ElementTree.fromstring(ended.out).get("failures") == "1"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("prove", "model", "--config", "x"), "prove model"),
        (("compile", "model", "--preset", "x"), "compile model"),
        (("compile", "good", "--tune"), "compile --tune"),
    ],
)
def test_commands_without_such_results(words: tuple[str, ...], what: str, tree: Path) -> None:
    ended = samebits(*words, "--root", tree, "--github")
    line = f"samebits: --github does not go with `samebits {what}`; --json FILE writes its results"
    assert (ended.code, ended.lines) == (2, [line])
