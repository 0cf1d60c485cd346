"""`samebits bisect tensors` of a pair and of two functions: the first value that makes an output differ."""

import json
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from samebits.bisect import tensors
from samebits.bisect.pair_tensors import align_pair, first_point
from samebits.bisect.point import PointRequest
from samebits.bisect.search.trials import Judgement, Trials, failed, passed, untestable
from samebits.bisect.session import again
from samebits.bisect.tensors import BlockSearch, Point, StepMixture, judged_outputs, key, label
from samebits.cli import main
from samebits.errors import RequestError
from samebits.report.bisect import TENSORS, tensor_rows
from samebits.train.taps import Tensor
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


# --- tensors of zeros that rounding moves: their bound is finite, so that a wrong one is beyond it -------------------

ZERO, LIVE = Tensor("part:out:zero", 0), Tensor("part:out:live", 0)


@pytest.mark.parametrize(
    ("value", "outcome"), [(0.0, "pass"), (3e-17, "pass"), (1e-6, "fail"), (1e6, "fail"), (np.nan, "fail")]
)
def test_a_zero_that_rounding_moves_has_a_bound(value: float, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interpreted(*asked: Any) -> Any:
        dithered = len(asked) == 5
        return {ZERO: np.full(2, 1e-17 * dithered), LIVE: np.ones(2)}, SimpleNamespace(containers=set())

    def ran(*_: Any) -> Any:
        values = {ZERO: np.full((2, 1), value), LIVE: np.ones(2)}
        return SimpleNamespace(values=values, apart={ZERO: np.inf, LIVE: 0.0}, missing=list), None

    monkeypatch.setattr(tensors, "_interpreted", interpreted)
    monkeypatch.setattr(tensors, "_run", ran)
    sides: Any = SimpleNamespace(good=None, mixture=lambda taken: (None, None))
    judgement = tensors._judged(tensors._GoodStep(sides), StepMixture("all", frozenset()), False)
    assert judgement.outcome == outcome
    assert outcome == "pass" or judgement.signature == str(ZERO)


# --- A wrong tensor is blamed only where what computed it changes the outputs of the step: simulated steps -----------

NAMES = ("harmless", "wrong", "later")


def searched(matters: set[str], names: tuple[str, ...] = NAMES, whole: bool = True) -> BlockSearch:
    """Every difference makes a tensor of its own wrong; those that matter also change the outputs."""

    def judge(point: Point) -> Judgement:
        form = point[0]
        if form.whole and not whole:
            return untestable("cannot be interpreted")
        if form.whole:
            moved = sorted(form.without & matters)
            return failed("loss", moved=moved) if form.taken & matters else passed(moved=moved)
        first = next((name for name in names if name in form.taken), None)
        return passed() if first is None else failed(f"output of {first}", names=[first])

    return BlockSearch(names, (), Trials(judge, key=key, label=label))


@pytest.mark.parametrize("matters", [{"wrong"}, {"later"}, {"wrong", "later"}, set(NAMES)])
def test_the_first_difference_that_reaches_the_outputs_is_blamed(matters: set[str]) -> None:
    search = searched(matters)
    outcome = search.run(False)
    first = next(name for name in NAMES if name in matters)
    assert outcome.point is not None and (outcome.reaches, outcome.remarks()) == (True, [])
    assert search.trials.known(outcome.point).signature == f"output of {first}"
    assert len(search.idle) == NAMES.index(first)


def test_a_step_that_cannot_be_judged_says_so() -> None:
    search = searched({"wrong"}, whole=False)
    outcome = search.run(False)
    assert outcome.point is not None and search.trials.known(outcome.point).signature == "output of harmless"
    assert outcome.remarks() == ["whether the difference reaches loss, gradients and new state was not tried"]


def test_the_only_difference_is_not_tried_against_nothing() -> None:
    search = searched({"wrong"}, ("wrong",))
    assert search.run(False).reaches and search.trials.runs == 2


@pytest.mark.parametrize(
    ("value", "before", "outcome", "moved"),
    [(1.0, None, "pass", []), (2.0, None, "fail", []), (1.0, 2.0, "pass", ["loss"]), (2.0, 2.0, "fail", [])],
)
def test_outputs_are_held_to_their_bounds(value: float, before: float | None, outcome: str, moved: list[str]) -> None:
    good, other = {"loss": np.float64(1)}, None if before is None else {"loss": np.float64(before)}
    judgement = judged_outputs(
        good, {"loss": 0.5}, {"loss": np.float64(value)}, other, lambda _, a, b: float(abs(a - b))
    )
    assert (judgement.outcome, judgement.numbers["moved"]) == (outcome, moved)


def test_outputs_of_other_sizes_cannot_be_judged() -> None:
    judged = judged_outputs({"x": np.ones(2)}, {"x": 1.0}, {"x": np.ones(3)}, None, lambda *_: 0.0)
    assert judged.outcome == "untestable"
