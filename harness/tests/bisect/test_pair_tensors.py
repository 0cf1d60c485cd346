"""`samebits bisect tensors` of a pair and of two functions: the first value that makes an output differ."""

import json
import textwrap
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from samebits.bisect.pair_tensors import align_pair, first_point
from samebits.bisect.point import PointRequest
from samebits.bisect.session import again
from samebits.cli import main
from samebits.errors import RequestError
from samebits.report.bisect import TENSORS, tensor_rows
from tests.check.test_line_evidence import halved, plain, same
from tests.support.toys import toy

FUNCTIONS = """
    import jax.numpy as jnp

    def plain(x, s):
        y = x * s * 2
        return jnp.tanh(y).sum(-1)

    def fast(x, s):
        y = s * x
        return jnp.tanh(y).sum(-1)

    def long(x, s):
        for _ in range(40):
            x = jnp.sin(x)
        return x.sum(-1) * s.sum()

    def longer(x, s):
        for _ in range(40):
            x = jnp.sin(x)
        return x.mean(-1) * s.sum()

    def same(x, s):
        return jnp.tanh(2 * s * x).sum(-1)
"""
ARGS = ("--arg", "x=f32[4,8]", "--arg", "s=f32[8]")


def _request(**changes: str) -> PointRequest:
    given = {"pair": "toy", "variant": "", "case": "", "mesh": "", **changes}
    return PointRequest(**given)  # type: ignore[arg-type]


def test_the_first_variant_case_and_mesh_are_the_default() -> None:
    """Of a pair only its name must be given; what it does not have is rejected."""
    point = first_point(toy(plain, halved=halved), _request())
    assert (point.variant, point.case, point.mesh, point.direction) == ("halved", "small", "data4", "forward")
    with pytest.raises(RequestError, match="pair 'toy' has no case 'large'"):
        first_point(toy(plain, halved=halved), _request(case="large"))


@pytest.mark.parametrize(("direction", "leaf"), [("forward", "out"), ("gradient", "x")])
def test_a_declared_pair_is_aligned(direction: str, leaf: str) -> None:
    """The line on both sides, every tensor up to the first that differs, and the command that shows it again."""
    found = align_pair(toy(plain, halved=halved), _request(direction=direction), again("tensors"))
    assert found.found and found.replay == "samebits bisect tensors"
    assert f"mesh data4, {direction}: '{leaf}' differs: " in found.sentence
    assert "`factor * x`" in found.sentence and "`x * factor * 2`" in found.sentence
    assert found.witness.endswith("occurs nowhere in the reference, although its operands do")
    rows = tensor_rows(msgspec.to_builtins(dict(found.detail)))
    assert rows[-1][-1] == "first that differs" and {row[-1] for row in rows[:-1]} <= {"same", "another form"}


def test_an_honest_pair_has_no_tensor_that_differs() -> None:
    """Exit code 0, and it says what was compared."""
    pair = toy(plain, same=same)
    found = align_pair(pair, _request(), "")
    assert not found.found and not found.skipped
    where = "toy/same, case small, float32, mesh data4, forward"
    assert found.sentence == f"{where}: every output of the variant is that of the reference in float64"
    with pytest.raises(RequestError, match="--leaf nothing: unknown output; expected one of out"):
        align_pair(pair, _request(leaf="nothing"), "")


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of functions, which is the current one."""
    (tmp_path / "aligned_functions.py").write_text(textwrap.dedent(FUNCTIONS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def _run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["bisect", "tensors", *words])
    return result.exit_code, result.output


def test_two_functions_are_aligned_on_the_command_line(functions: Path) -> None:
    """The table, the sentence and the document."""
    code, output = _run("aligned_functions:plain", "aligned_functions:fast", *ARGS, "--json", "found.json")
    assert code == 1, output
    assert "aligned_functions.py:9 has `s * x`, the reference's twin at" in output
    assert "next: samebits bisect tensors aligned_functions:plain aligned_functions:fast --arg" in output
    assert "Values of the variant, in the order of computation" in output
    finding = json.loads((functions / "found.json").read_text())["finding"]
    assert finding["detail"]["lines"][0]["change"] == "missing"
    assert [row["occurs"] for row in finding["detail"]["tensors"]][:2] == [True, False]
    code, output = _run("aligned_functions:plain", "aligned_functions:same", *ARGS)
    assert code == 0 and "every output of the variant is that of the reference" in output


def test_of_many_tensors_the_last_are_shown(functions: Path) -> None:
    """The terminal shows those next to the first that differs."""
    code, output = _run("aligned_functions:long", "aligned_functions:longer", *ARGS)
    assert code == 1, output
    rows = [line for line in output.splitlines() if " float32[" in line and "aligned_functions.py:" in line]
    assert len([row for row in rows if row.strip()[0].isdigit()]) == TENSORS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "b", "c"), "got 3 names; expected a PAIR, or two functions as MODULE:FUNCTION"),
        (("toy", "--config", "x"), "--config goes with a training, and a pair was named; leave it out"),
        (("toy", "--arg", "x=f32[3]"), "--arg goes with two functions, and a pair was named; leave it out"),
        (("--leaf", "out"), "--leaf goes with a PAIR, and a training was named; leave it out"),
        (("a:f", "a:g"), "no --arg: declare what a:f takes, as in "),
    ],
)
def test_mixed_requests_are_rejected_in_one_line(words: tuple[str, ...], message: str) -> None:
    """Exit code 2, and what to do."""
    code, output = _run(*words)
    assert code == 2 and message in output.replace("\n", " ")
