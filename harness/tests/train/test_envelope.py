"""What widens the envelope: rewrites of the reference that are rounding, and none that is another training."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from samebits.errors import CouldNotRun, RequestError
from samebits.host import environment
from samebits.schema.model import Config, Defect
from samebits.train.detection import GATES
from samebits.train.distance import FAR, ulps
from samebits.train.envelope import Envelope, dithered
from samebits.train.golden.runs import evidence_of
from samebits.train.matrix import MatrixResult, run_matrix
from tests.support.defective_model import detected_here
from tests.support.toy_model import MATRIX, toy, training


def test_the_envelope_of_a_run() -> None:
    envelope = Envelope(config="one")
    envelope.add("repeated", [0, 0, 0], [])
    envelope.add("rows permuted", [3, 1, 9], [])
    assert envelope.loss == [3, 3, 9]
    with pytest.raises(CouldNotRun, match=r"config 'one': with one ulp of dither, the loss .* is not finite at step 2"):
        envelope.add("one ulp of dither", [2, ulps(1.0, float("nan")), FAR], [])


def test_the_evidence_of_a_golden() -> None:
    def run(*losses: float, norm: float = 0.0) -> Any:
        steps = [
            SimpleNamespace(
                step=n,
                loss=x,
                loss_hex=x.hex(),
                perplexity_hex=x.hex(),
                grad_norm=5.0,
                param_norm=0.0,
                digests={"gradient/w": SimpleNamespace(l2=norm)},
            )
            for n, x in enumerate(losses, 1)
        ]
        return SimpleNamespace(config="one", steps=steps, dtype="float32")

    assert evidence_of(run(1.0, 2.0), [("rows permuted", run(1.0, 2.0))], []).loss_spread == (0, 0)
    with pytest.raises(CouldNotRun, match="config 'one': with rows permuted, the loss of the reference is not finite"):
        evidence_of(run(1.0, 2.0), [("rows permuted", run(1.0, float("nan")))], [])
    spread = evidence_of(run(1.0, 2.0), [("rows permuted", run(1.0, 2.0, norm=1e-9))], []).leaf_spread
    assert spread["gradient/w"] == pytest.approx(2e-10), "a zero that rounding moves, relative to all gradients"
    with pytest.raises(
        CouldNotRun, match="config 'one': with rows permuted, gradient/w of the reference is not finite"
    ):
        evidence_of(run(1.0, 2.0), [("rows permuted", run(1.0, 2.0, norm=float("inf")))], [])


environment.prepare()

HERE = Path(__file__).parent


def test_dither_moves_every_nonzero_float_by_one_ulp() -> None:
    array = np.array([1.0, -2.5, 0.0, 3e-40], np.float32)
    moved = dithered(array, np.random.default_rng(0))
    assert moved[2] == 0 and (moved[[0, 1, 3]] != array[[0, 1, 3]]).all()
    np.testing.assert_array_max_ulp(moved, array, maxulp=1)
    whole = np.arange(3)
    assert dithered(whole, np.random.default_rng(0)) is whole


def _of_mesh(scales: dict[str, float]) -> MatrixResult:
    """Runs on one mesh, with gradients scaled by name; `base_one_device` is the reference on one device."""
    names = ("base", "bad")
    matrix = replace(MATRIX, runs=tuple(Config(name=name, mesh="data2") for name in names))

    def build(config: Config, parts: Any) -> Any:
        return training(config, {}, scales.get(config.name, 1.0))

    return run_matrix(replace(toy(HERE, matrix=matrix), build=build), matrix, HERE, 20)


@pytest.mark.parametrize("elsewhere", [1.5, 1.0])
def test_a_reference_that_is_wrong_on_its_mesh_bounds_nothing(elsewhere: float) -> None:
    """Gradients that lack a sum over the mesh moved the first loss by a third, and any other run was within that."""
    result = _of_mesh({"base_one_device": elsewhere, "bad": 1.3})
    assert result.envelope is not None
    wrong = elsewhere != 1
    assert list(result.envelope.left_out) == (["one device"] if wrong else [])
    assert ("one device" in result.envelope.rewrites) != wrong
    (pairing,) = result.comparisons
    assert (pairing.verdict, pairing.first_step) == ("different", 1) and pairing.envelope < 100
    assert len(result.problems) == wrong
    for problem in result.problems:
        assert problem.exit_code == 3
        assert problem.message.startswith("config 'base' is another training on one device: ")


def test_rows_that_are_not_alike_give_no_bound() -> None:
    """Dropout that counts rows makes another training of another order: the other rewrites bound the runs."""
    model = toy(HERE)

    def build(config: Config, parts: Any) -> Any:
        made = training(config, {}, 1.0)

        def step(state: Any, batch: Any) -> Any:
            kept = np.array([1, 0] * 4, np.float32)
            return made.step(state, {**batch, "x": batch["x"] * kept[:, None]})

        return replace(made, step=step)

    result = run_matrix(replace(model, build=build), MATRIX, HERE, 20)
    assert result.envelope is not None and list(result.envelope.left_out) == ["rows permuted"]
    assert max(result.envelope.loss) < 100 and result.problems == []
    assert [pairing.ok for pairing in result.comparisons] == [True]


@pytest.mark.parametrize(("decay", "verdict"), [(0.9, "bitwise"), (0.89, "different")])
def test_averages_of_the_parameters_are_compared(decay: float, verdict: str) -> None:
    """No loss and no parameter depends on them; another run may have them for itself, and numbers are counted."""
    runs = tuple(Config(name=name, mesh="data1") for name in ("first", "second", "without"))
    matrix = replace(MATRIX, runs=runs)

    def build(config: Config, parts: Any) -> Any:
        made = training(config, {}, 1.0)
        if config.name == "without":
            return made
        keep = decay if config.name == "second" else 0.9

        def initial() -> Any:
            state = made.initial()
            return {**state, "average": {"slow": dict(state["parameters"])}}

        def step(state: Any, batch: Any) -> Any:
            average = state["average"]["slow"]
            after, outputs = made.step({name: state[name] for name in ("parameters", "step")}, batch)
            mixed = {name: keep * x + (1 - keep) * after["parameters"][name] for name, x in average.items()}
            return {**after, "average": {"slow": mixed}}, outputs

        spec = {**made.state_spec, "average": {"slow": made.state_spec["parameters"]}}
        return replace(made, initial=initial, step=step, state_spec=spec)

    result = run_matrix(replace(toy(HERE, matrix=matrix), build=build), matrix, HERE, 3)
    second, without = result.comparisons
    assert (second.verdict, without.verdict) == (verdict, "bitwise")
    assert str(second.first_leaf).startswith("state/average/slow/") == (verdict == "different")


# The gates, applied to defects of a model of two parameters: which sees what, and what is no defect.
environment.prepare()


def test_which_gate_sees_which_defect() -> None:
    """A gradient a thousandth too large: no printed loss and no bound of eight ulps need see it; this gate does."""

    def scaled(parts: Any) -> Any:
        return {"scale": 1.001}

    def build(config: Config, parts: Any) -> Any:
        return training(config, {}, parts.get("scale", 1.0))

    model = replace(
        toy(HERE), build=build, defects=lambda: (Defect(name="too large", run=MATRIX.runs[1], plant=scaled),)
    )
    found = run_matrix(model, MATRIX, HERE, 20)
    table = detected_here(model, found, HERE)
    (one,) = table.defects
    assert dict(zip(GATES, one.seen, strict=True))["samebits"]
    assert (one.step, one.first_loss_equal) == (1, True)
    assert table.false_alarms[-1] == 0 < table.healthy[-1]
    nothing = replace(model, defects=lambda: (Defect(name="none at all", run=MATRIX.runs[1]),))
    with pytest.raises(CouldNotRun, match="the defect 'none at all' changes no bit of two, so it is not a defect"):
        detected_here(nothing, found, HERE)
    with pytest.raises(RequestError, match="no defect is planted into a run of 'toy'"):
        detected_here(toy(HERE), found, HERE)
