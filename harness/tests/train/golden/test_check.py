"""A golden compared with a run: every bit in its own environment, its evidence in another, and which one was used."""

import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from samebits.host.environment import Environment
from samebits.report.document import to_json
from samebits.train.distance import FAR
from samebits.train.golden.check import (
    MOST_ARRAYS,
    CheckedGolden,
    GoldenCurveStep,
    check_golden,
    norm_bound,
    other_configuration,
    relative_change,
    ulps,
)
from samebits.train.golden.record import Golden, broken_rule, read_golden
from samebits.train.request import load_model
from tests.support.golden_samples import CONFIG, ELSEWHERE, HERE, LEAF_BOUND, LOSS_BOUND, evidence, golden, run_record
from tests.support.invoke import REPOSITORY


def test_the_same_run_is_the_same() -> None:
    found = check_golden(golden(), run_record(), HERE)
    assert (found.status, found.lane, found.ok, found.exit_code) == ("same", "exact", True, 0)


@pytest.mark.parametrize("step", [1, 7, 20])
@pytest.mark.parametrize("kind", ["nudge", "perplexity"])
def test_one_ulp_is_found_at_any_step(step: int, kind: str) -> None:
    run = run_record(**{kind: {step: 1}})  # type: ignore[arg-type]
    found = check_golden(golden(), run, HERE)
    assert (found.status, found.lane, found.exit_code) == ("changed", "exact", 1)
    assert (found.first_step, found.ulps) == (step, 1)
    assert found.first_leaf == {"nudge": "loss", "perplexity": "perplexity"}[kind]
    assert f"at step {step} by 1 ulp" in found.message


@pytest.mark.parametrize(("step", "leaf"), [(1, "gradient/w"), (20, "gradient/w"), (7, "norm of all gradients")])
def test_an_array_that_changed_is_named(step: int, leaf: str) -> None:
    found = check_golden(golden(), run_record(scale={step: 1.25}), HERE)
    assert (found.first_step, found.first_leaf) == (step, leaf)


def test_a_sign_that_no_norm_sees_is_found_at_every_step() -> None:
    """Between the steps for which every array is recorded there is one digest of all arrays."""
    for step in range(1, 21):
        found = check_golden(golden(), run_record(scale={step: -1.0}), HERE)
        assert (found.first_step, found.ok) == (step, False)


def test_an_array_more_or_less_is_a_change() -> None:
    for leaves in (("w",), ("w", "b", "extra")):
        found = check_golden(golden(), run_record(leaves=leaves), HERE)
        assert found.status == "changed" and found.first_step == 1
        assert "only" in str(found.first_leaf)


def test_a_shorter_run_is_a_change() -> None:
    run = run_record()
    for here in (HERE, ELSEWHERE):
        found = check_golden(golden(), replace(run, steps=run.steps[:-1]), here)
        assert (found.status, found.first_step, found.first_leaf) == ("changed", 20, "number of steps")
        assert found.message == "today's run has 19 steps, and the golden 20"
        assert (found.changed, found.ulps, found.relative) == ((), None, None)


@pytest.mark.parametrize(("far", "ok"), [(0, True), (LOSS_BOUND, True), (LOSS_BOUND + 1, False)])
def test_another_environment_is_held_to_the_evidence(far: int, ok: bool) -> None:
    found = check_golden(golden(), run_record(nudge={20: far}), ELSEWHERE)
    assert (found.ok, found.lane) == (ok, "evidence")
    assert "another environment (instruction_sets avx/avx2 -> avx/avx2/avx512f); evidence of one environment" in (
        found.message.replace(", in ", ", ")
    )
    if not ok:
        assert (found.first_step, found.first_leaf, found.ulps, found.bound) == (20, "loss", far, LOSS_BOUND)


@pytest.mark.parametrize(("scale", "ok"), [(1 + 5e-7, True), (1 + 5e-6, False), (float("nan"), False)])
def test_norms_are_held_to_the_evidence_elsewhere(scale: float, ok: bool) -> None:
    found = check_golden(golden(), run_record(scale={10: scale}), ELSEWHERE)
    assert (found.ok, found.lane) == (ok, "evidence")
    if not ok:
        assert (found.first_step, found.first_leaf) == (10, "gradient/w")


def test_a_norm_that_is_not_finite_is_found_elsewhere() -> None:
    """Its arrays are not recorded at this step; the norm of all of them is."""
    result = check_golden(golden(), run_record(scale={7: float("nan")}), ELSEWHERE)
    assert (result.ok, result.first_step, result.first_leaf) == (False, 7, "norm of all gradients")
    assert result.message.startswith("norm of all gradients is not finite at step 7, beyond the evidence")


@pytest.mark.parametrize(("scale", "ok"), [(1 + 1e-6, True), (1 - 1e-6, True), (1 + 1e-3, False), (0, False)])
def test_the_norm_of_all_is_held_at_every_step(scale: float, ok: bool) -> None:
    """Also where arrays are not recorded, and the loss is the recorded one."""
    found = check_golden(golden(), run_record(scale={7: scale}), ELSEWHERE)
    assert (found.ok, found.lane) == (ok, "evidence")
    if not ok:
        assert (found.first_step, found.first_leaf) == (7, "norm of all gradients")
        assert found.bound == norm_bound(golden(), "gradient") > LEAF_BOUND


@pytest.mark.parametrize(("scale", "ok"), [(1e-9, True), (1e-3, False), (1.0, False)])
def test_a_zero_is_held_to_the_norm_of_its_kind(scale: float, ok: bool) -> None:
    """A bound that is relative to the zero would accept anything."""
    recorded = golden(run_record(scale={10: 0.0}))
    found = check_golden(recorded, run_record(scale={10: scale}), ELSEWHERE)
    assert found.ok == ok and (ok or found.first_leaf == "gradient/w")
    assert not check_golden(golden(), run_record(scale={10: 0.0}), ELSEWHERE).ok, "what becomes zero is far"


def test_perplexity_is_held_to_the_evidence_elsewhere() -> None:
    assert check_golden(golden(), run_record(perplexity={20: LOSS_BOUND}), ELSEWHERE).ok
    assert not check_golden(golden(), run_record(perplexity={20: LOSS_BOUND + 1}), ELSEWHERE).ok


@pytest.mark.parametrize(
    ("loss", "perplexity", "wrong"),
    [
        (0, 24, "perplexity"),  # its loss did not move
        (3, 6, None),
        (3, 12, None),
        (3, 12 + LOSS_BOUND, "perplexity"),
        (3, -24, "perplexity"),  # it moved the other way
        (LOSS_BOUND + 1, 4 * (LOSS_BOUND + 1), "loss"),
    ],
)
def test_a_perplexity_may_move_as_its_loss_does(loss: int, perplexity: int, wrong: str | None) -> None:
    """Of a loss of 3 and a perplexity of 4, one ulp of the loss is two of the perplexity."""
    recorded = golden()
    found = check_golden(recorded, run_record(nudge={1: loss}, perplexity={1: perplexity}), ELSEWHERE)
    assert (found.ok, found.first_leaf) == (wrong is None, wrong)


def test_a_nan_is_beyond_every_bound() -> None:
    found = check_golden(golden(), run_record(loss={3: math.nan}), ELSEWHERE)
    assert (found.ok, found.first_step, found.ulps) == (False, 3, FAR)


def test_an_array_that_is_gone_fails_elsewhere_too() -> None:
    assert not check_golden(golden(), run_record(leaves=("w",)), ELSEWHERE).ok


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (replace(HERE, cpus=96), True),
        (replace(HERE, versions={**HERE.versions, "samebits": "2"}), True),
        (replace(HERE, versions={**HERE.versions, "libtpu": "0.1"}), True),
        (replace(HERE, flags={**HERE.flags, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}), True),
        (replace(HERE, flags={**HERE.flags, "XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}), False),
        (replace(HERE, versions={**HERE.versions, "jax": "0.11.0"}), False),
        (replace(HERE, versions={**HERE.versions, "optax": "1"}), False),
        (replace(HERE, instruction_sets=()), False),
        (replace(HERE, devices=4), False),
        (replace(HERE, settings={"jax_enable_x64": "True"}), False),
        (replace(HERE, machine="aarch64"), False),
    ],
)
def test_the_environment_is_what_moves_bits(other: Environment, same: bool) -> None:
    assert (other.digest() == HERE.digest()) is same
    assert bool(HERE.unlike(other)) is not same


def test_a_configuration_that_is_another_is_named() -> None:
    assert other_configuration(golden(), CONFIG) is None
    assert other_configuration(golden(), CONFIG.having(name="renamed")) is None
    assert other_configuration(golden(), CONFIG.having(seed=3)) == "seed 0 -> 3"


def test_distances() -> None:
    assert ulps((1.0).hex(), (1.0).hex()) == 0
    assert ulps((1.0).hex(), (1.0 + 2**-40).hex()) == 1  # float64 that float32 does not see
    assert ulps((1.0).hex(), math.inf.hex()) == FAR
    assert relative_change(2.0, 1.0) == 0.5
    assert relative_change(0.0, 1e-30) == 1.0
    assert relative_change(1.0, math.nan) == math.inf


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"loss_bound": (3,) * 20}, "evidence.loss_bound[0] is 3 ulps, tighter than the spread of 4 seen at step 1"),
        ({"perplexity_bound": (*(9,) * 19, 2)}, "evidence.perplexity_bound[19] is 2 ulps, tighter than the spread"),
        (
            {"leaf_bound": {"gradient/w": 0.0}},
            "evidence.leaf_bound.gradient/w is 0, tighter than the spread of 3.33e-07",
        ),
        ({"leaf_bound": {"gradient/w": math.nan}}, "evidence.leaf_bound.gradient/w is nan, tighter than the spread"),
        ({"leaf_bound": {}}, "evidence.leaf_bound has no 'gradient/w'"),
        ({"loss_bound": (9,) * 19}, "evidence.loss_bound has 19 numbers; expected one per step, 20"),
        ({"seen": ()}, "evidence.seen is empty"),
        ({"runs": 2}, "evidence.runs is 2; a spread needs at least 3"),
    ],
)
def test_evidence_that_breaks_a_rule(changed: dict[str, object], message: str) -> None:
    honest = golden()
    broken = replace(honest, evidence=replace(honest.evidence, **changed))  # type: ignore[arg-type]
    assert broken_rule(honest) is None
    assert str(broken_rule(broken)).startswith(message)


def test_goldens_that_break_a_rule() -> None:
    made = golden()
    step = made.steps[4]
    broken = {
        "window is 19 steps; expected at least 20": replace(made, window=19),
        "steps are not 1 to 20, as window says": replace(made, steps=made.steps[:-1]),
        "environment_digest is not that of environment": replace(made, environment_digest="0" * 16),
        "steps[4].loss is 1.0 and loss_hex says": _with(made, 4, loss=1.0),
        "steps[4].loss is not finite": _with(made, 4, loss_hex="nan"),
        "steps[4].grad_norm is not a hexadecimal float": _with(made, 4, grad_norm="0x1.zz"),
        "steps[9].leaves is empty; at step 10 every array": _with(made, 9, leaves={}),
        "steps[9].leaves are not those of steps[0]: gradient/b": _with(
            made, 9, leaves={k: v for k, v in made.steps[9].leaves.items() if k != "gradient/b"}
        ),
        "accepted.reason is empty; it is mandatory": replace(made, accepted=replace(made.accepted, reason=" ")),
        "accepted.commit is empty; it is mandatory": replace(made, accepted=replace(made.accepted, commit="")),
        "history[0].author is empty; it is mandatory": replace(made, history=(replace(made.accepted, author=""),)),
    }
    assert step.leaves == {}
    for message, one in broken.items():
        assert str(broken_rule(one)).startswith(message)


def test_files_stay_small() -> None:
    assert [bool(step.leaves) for step in golden().steps] == [number in (1, 10, 20) for number in range(1, 21)]
    assert evidence(run_record()).runs == 7


def _with(made: Golden, index: int, **changes: Any) -> Golden:
    steps = list(made.steps)
    steps[index] = replace(steps[index], **changes)
    return replace(made, steps=tuple(steps))


# --- recorded and today's numbers beside each other: every change is where it was planted, and nothing else is one ---


def test_equal_runs_are_zero_apart_at_every_step() -> None:
    checked = check_golden(golden(), run_record(), HERE)
    assert [step.step for step in checked.steps] == list(range(1, 21))
    assert all(step.loss == step.recorded_loss and step.grad_norm == step.recorded_grad_norm for step in checked.steps)
    assert {(step.loss_ulps, step.loss_bound) for step in checked.steps} == {(0, 0)}
    assert (checked.changed, checked.changed_count) == ((), 0)


def test_a_moved_loss_is_at_its_step() -> None:
    checked = check_golden(golden(), run_record(nudge={7: 3}), HERE)
    assert {step.step: step.loss_ulps for step in checked.steps if step.loss_ulps} == {7: 3}
    assert checked.changed == (), "a loss is not an array"


def test_an_array_is_named_at_its_first_step() -> None:
    checked = check_golden(golden(), run_record(scale={1: 1.25, 10: 1.5}), HERE)
    (change,) = [change for change in checked.changed if change.leaf == "gradient/w"]
    assert (change.step, change.bound) == (1, 0) and change.relative == pytest.approx(0.2)
    assert [step.step for step in checked.steps if step.grad_norm != step.recorded_grad_norm] == [1, 10]


def test_elsewhere_the_bounds_are_those_of_the_evidence() -> None:
    checked = check_golden(golden(), run_record(nudge={20: 2}, scale={1: 1 + 1e-7, 10: 2}), ELSEWHERE)
    assert {step.loss_bound for step in checked.steps} == {LOSS_BOUND}
    assert [change.step for change in checked.changed] == [10], "what is within its bound has not changed"
    assert checked.changed[0].bound > 0


def test_a_run_that_ends_early() -> None:
    run = run_record()
    checked = check_golden(golden(), replace(run, steps=run.steps[:-2]), HERE)
    assert [step.loss for step in checked.steps[-2:]] == [None, None] and checked.steps[-1].recorded_loss is not None
    assert checked.steps[-1].loss_ulps == FAR


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_read_again(value: float) -> None:
    """JSON has no such number."""
    checked = check_golden(golden(), run_record(loss={3: value}), HERE)
    assert (checked.steps[2].loss, checked.steps[2].loss_ulps) == (None, FAR)
    steps = msgspec.json.decode(to_json(checked))["steps"]
    assert msgspec.convert(steps, tuple[GoldenCurveStep, ...]) == checked.steps


def test_many_arrays_are_counted_and_the_first_are_listed() -> None:
    leaves = tuple(f"w{number}" for number in range(2 * MOST_ARRAYS))
    checked = check_golden(golden(), run_record(leaves=leaves), HERE)
    assert len(checked.changed) == MOST_ARRAYS < checked.changed_count


def test_what_was_not_run_has_no_curve() -> None:
    assert CheckedGolden(name="m/r", status="not run", message="no").steps == ()


MODEL = load_model(REPOSITORY)
FOLDER = MODEL.origin / "goldens" / "cpu"
RUNS = [(matrix.name, run.name) for matrix in MODEL.matrices for run in matrix.runs]


@pytest.mark.parametrize(("matrix", "run"), RUNS)
def test_every_run_of_every_matrix_has_a_golden_of_its_own(matrix: str, run: str) -> None:
    golden = read_golden(FOLDER / f"{matrix}__{run}.json")
    config = next(one for one in MODEL.matrices if one.name == matrix).run(run)
    assert not other_configuration(golden, config)
    assert golden.window >= 20 and golden.accepted.reason and golden.accepted.author and golden.accepted.commit


def test_no_golden_is_unused() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{matrix}__{run}.json" for matrix, run in RUNS}
