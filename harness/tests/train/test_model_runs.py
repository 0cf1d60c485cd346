"""Training the full model: healthy runs stay inside the envelope, planted defects are named with step and leaf."""

import dataclasses
import functools
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samebits.cluster.process_group import Board, ProcessGroup
from samebits.errors import CouldNotRun, RequestError
from samebits.host import environment
from samebits.schema.contract import Contract, Exemption
from samebits.schema.domain import Domain
from samebits.schema.model import Config, Defect, Matrix, Model
from samebits.schema.pair import Pair
from samebits.train import matrix
from samebits.train.compare import Pairing, compare_beside, judge_runs
from samebits.train.detection import GATES
from samebits.train.distance import loss_ulps
from samebits.train.envelope import Envelope, distances
from samebits.train.matrix import MatrixResult, run_matrix
from samebits.train.parts import SAME_RUN, expected_verdict, promises_bits
from samebits.train.record import RunRecord, step_record
from samebits.train.request import load_model
from samebits.train.trainer import Trainer, pool
from tests.support.defective_model import detected_here, run_defect
from tests.support.foreign import AXES, write_pair
from tests.support.invoke import REPOSITORY
from tests.support.toys import toy

environment.prepare()

# One worker runs them all, so that the healthy runs are made once.
pytestmark = pytest.mark.xdist_group("model_runs")

ROOT = REPOSITORY
SMALL = {"layers": 1, "embed": 8, "head_dim": 4, "hidden": 8, "experts": 4, "seq": 8, "block": 4}
STEPS = 3

ON_ITS_WAY = {
    "router gradient dropped": "gradient/layers/router",
    "a microbatch repeated": "loss",
    "load-balance loss taken from one shard": "loss",
    "optimizer moments stored in bfloat16": "mu/",
    "positions of the wrong microbatch": "loss",
    "only the last microbatch's gradient kept": "gradient/",
    "segment ids used as weights": "loss",
    "tokens dropped at one expert": "loss",
}
"""Where each of the assembled model's defects must show first; all of them in the first step."""


@functools.cache
def _model() -> Model:
    return load_model(ROOT)


@functools.cache
def _small() -> MatrixResult:
    """Sparse experts over two shards, all parts optimized, against all references on one device."""
    one = Config(name="reference", sizes=SMALL)
    from suites.model.matrices import PARTS

    two = one.having(name="sparse", mesh="expert2", choice={**PARTS, "moe": "sparse"})
    return run_matrix(_model(), Matrix(name="small", about="two runs", runs=(one, two)), ROOT, STEPS)


@pytest.mark.slow
def test_sharded_sparse_experts_train_as_dense_ones() -> None:
    found = _small()
    (one,) = found.comparisons
    assert one.ok and not found.problems
    assert max(loss_ulps(found.runs["reference"].run, found.runs["sparse"].run)) <= 8
    assert found.envelope is not None and max(found.envelope.leaves.values()) < 1e-4


def _planted(found: MatrixResult, defect: Defect, name: str) -> tuple[Pairing, bool]:
    """A defect held against the first run, and whether its first loss is that of the healthy run `name`."""
    run, single = run_defect(_model(), defect, found, ROOT, len(found.runs[name].run.steps))
    first = found.matrix.runs[0].name
    assert found.envelope is not None
    apart = distances(found.forced[first], single)
    one = judge_runs(found.runs[first].run, run.run, apart, found.envelope, "rounding", "planted")
    return one, run.run.steps[0].loss_hex == found.runs[name].run.steps[0].loss_hex


@pytest.mark.slow  # as every other defect of the model
def test_a_router_without_gradient_is_found() -> None:
    defect = next(one for one in _model().defects() if one.name == "router gradient dropped")
    small = Defect(name=defect.name, run=_small().matrix.run("sparse"), plant=defect.plant)
    one, equal = _planted(_small(), small, "sparse")
    assert equal
    assert (one.verdict, one.first_step, one.first_leaf) == ("different", 1, "gradient/layers/router")


@pytest.mark.slow
def test_moments_in_bfloat16_are_found() -> None:
    run = _small().matrix.run("sparse")
    one, equal = _planted(_small(), Defect(name="bf16", run=run, changes={"mu_dtype": "bfloat16"}), "sparse")
    assert equal
    assert (one.verdict, one.first_step) == ("different", 1)
    assert str(one.first_leaf).startswith("mu/")


LOST = 2
"""A step that is not run again, of three."""


def _planted_at(number: int, change: Any) -> Model:
    """The model with a change of what one step gives, which its loss does not see: `change(new state, gradients)`."""
    import jax
    import jax.numpy as jnp

    def build(config: Config, parts: Any) -> Any:
        made = _model().build(config, parts)

        def step(state: Any, batch: Any) -> Any:
            after, outputs = made.step(state, batch)
            right, wrong = (after, outputs["gradients"]), change(after, outputs["gradients"])
            chosen = jax.tree.map(lambda x, y: jnp.where(state["count"] == number - 1, y, x), right, wrong)
            return chosen[0], {**outputs, "gradients": chosen[1]}

        return replace(made, step=step)

    return replace(_model(), build=build)


def _zeros(tree: Any, only: str = "") -> Any:
    return {name: array * (only not in name) for name, array in tree.items()}


BETWEEN: dict[str, tuple[Any, int, str]] = {
    "a gradient is zero": (lambda new, found: (new, _zeros(found, "router")), LOST, "gradient/layers/router"),
    "a gradient is garbage": (
        lambda new, found: (new, {**found, "final_norm": 1e5 * found["final_norm"]}), LOST, "gradient/final_norm",
    ),
    "moments are lost": (
        lambda new, found: ({**new, "mu": _zeros(new["mu"]), "nu": _zeros(new["nu"])}, found), LOST + 1, "parameter/",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BETWEEN)
def test_what_no_loss_sees_between_single_steps_is_found(name: str) -> None:
    """The losses are those of the healthy run, and the single steps are right: those of the healthy run are given."""
    change, step, leaf = BETWEEN[name]
    small, threads = _small(), pool()
    trainer = Trainer(_planted_at(LOST, change), small.matrix.run("sparse"), ROOT, threads)
    run = trainer.run(STEPS).run
    threads.shutdown()
    first = small.matrix.runs[0].name
    assert small.envelope is not None and LOST not in small.forced[first]
    single = small.forced[first], small.forced["sparse"]
    pairing = judge_runs(small.runs[first].run, run, distances(*single), small.envelope, "rounding", "planted")
    assert loss_ulps(small.runs["sparse"].run, run) == [0] * STEPS
    assert (pairing.verdict, pairing.first_step) == ("different", step)
    assert str(pairing.first_leaf).startswith(leaf)


def test_every_defect_can_be_planted() -> None:
    """An edit whose text is gone would otherwise be found by the slow tests alone."""
    from samebits.train.parts import chosen_parts

    for defect in _model().defects():
        parts = chosen_parts(_model(), defect.run, ROOT)
        planted = defect.plant(parts)
        assert defect.changes or {name for name in parts if planted[name] is not parts[name]}, defect.name


@functools.cache
def _assembled() -> MatrixResult:
    config = _model().all_configs()["assembled"]
    reference = config.having(name="reference", mesh="data1")
    reference = Config(name="reference", sizes=reference.sizes, options=reference.options)
    matrix = Matrix(name="assembled", about="every machinery at once", runs=(reference, config))
    return run_matrix(_model(), matrix, ROOT, 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_ITS_WAY)
def test_every_defect_of_the_model_has_its_step_and_leaf(name: str) -> None:
    found = _assembled()
    assert all(one.ok for one in found.comparisons), "the healthy run must pass, or a defect proves nothing"
    defect = next(one for one in _model().defects() if one.name == name)
    one, _ = _planted(found, defect, "assembled")
    assert one.verdict == "different"
    assert one.first_step == 1
    assert str(one.first_leaf).startswith(ON_ITS_WAY[name]), one


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moe_parallelism", "pipeline_sharding", "hybrid", "everything"])
def test_every_run_of_a_matrix_is_as_expected(name: str) -> None:
    matrix = next(matrix for matrix in _model().matrices if matrix.name == name)
    found = run_matrix(_model(), matrix, ROOT, 20)
    assert not found.problems
    assert len(found.comparisons) == len(matrix.runs) - 1
    assert [one for one in found.comparisons if not one.ok] == []


SAME_MATHEMATICS: tuple[dict[str, object], ...] = (
    {"options": {"remat": "full"}},
    {"options": {"remat": "dots"}},
    {"sizes": {"accumulate": 2}},
    {"sizes": {"microbatches": 2}},
    {"sizes": {"chunks": 4}},
    {"choice": {"attention": "blockwise"}, "sizes": {"block": 2}},
    {"choice": {"moe": "ring"}, "mesh": "expert2"},
    {"mesh": "tensor2", "shard_mode": "explicit"},
)
OTHER_MATHEMATICS: tuple[dict[str, object], ...] = (
    {"options": {"tied": True}},
    {"options": {"window": 2}},
    {"options": {"routing": "sigmoid"}},
    {"options": {"balance": 0.02}},
    {"options": {"z_loss": 1e-3}},
    {"options": {"epsilon": 1e-4}},
    {"options": {"clip": 0.5}},
    {"options": {"weight_decay": 0.2}},
)


@pytest.mark.slow
@pytest.mark.parametrize("change", SAME_MATHEMATICS, ids=str)
def test_what_keeps_the_mathematics_stays_inside_the_envelope(change: dict[str, object]) -> None:
    assert _beside(change).ok


@pytest.mark.slow
@pytest.mark.parametrize("change", OTHER_MATHEMATICS, ids=str)
def test_what_changes_the_mathematics_does_not(change: dict[str, object]) -> None:
    """Every option reaches the model; those that change the parameters' names or the loss are different at once."""
    pairing = _beside(change)
    assert pairing.verdict == "different"
    if change == {"options": {"tied": True}}:
        assert (pairing.first_step, pairing.first_leaf) == (1, "gradient/head (only in reference)")


def _beside(change: dict[str, object]) -> Pairing:
    one = Config(name="reference", sizes={**SMALL, "layers": 2}, options={"clip": 0.9})
    matrix = Matrix(name="two", about="two runs", runs=(one, one.having(name="changed", **change)))
    found = run_matrix(_model(), matrix, ROOT, STEPS)
    assert not found.problems
    return found.comparisons[0]


@pytest.mark.slow
def test_the_full_gate_sees_ten_of_ten_without_a_false_alarm() -> None:
    matrix = _model().matrices[0]
    found = run_matrix(_model(), matrix, ROOT, 20)
    table = detected_here(_model(), found, ROOT)
    assert len(table.defects) == 10
    assert [one.defect for one in table.defects if not one.seen[-1]] == []
    assert (GATES[-1], table.false_alarms[-1]) == ("samebits", 0)
    # What makes the table worth printing: the gates that see as much of one row flag every honest change of it too.
    assert all(alarms > 0 for alarms in table.false_alarms[1:4])


# What two training runs with different sides must give: equal bits exactly where the contracts promise them.
RUN = Config(name="run", mesh="data2")
ROUNDING = Contract(lowest="rounding", reason="sums in another order")


def flip(x: Any, *, factor: float = 2.0) -> Any:
    return x[::-1]


def flip_by_index(x: Any, *, factor: float = 2.0) -> Any:
    import jax.numpy as jnp

    return jnp.flip(x, 0)


def total(x: Any, *, factor: float = 2.0) -> Any:
    return (x * x).sum(1)


def total_backwards(x: Any, *, factor: float = 2.0) -> Any:
    return (x * x)[:, ::-1].sum(1)


def outputs(x: Any, *, factor: float = 2.0) -> Any:
    return {"moved": x[::-1], "total": x.sum(1)}


MOVING = dataclasses.replace(toy(flip, other=flip_by_index), meshes=("data2", "data4"))
COMPUTING = dataclasses.replace(toy(total, other=total_backwards), meshes=("data2", "data4"))
LEAVES = toy(outputs, other=lambda x, *, factor=2.0: outputs(x))
BY_LEAF = (Contract(leaf="out?'moved'?", direction="forward"), Contract(leaf="out?'total'?", direction="forward"))

PROMISED: dict[str, Pair] = {
    "proved": dataclasses.replace(COMPUTING, contracts=(Contract(lowest="proved"),)),
    "nothing declared, data moves": MOVING,
    "a lower contract that another overrules": dataclasses.replace(COMPUTING, contracts=(ROUNDING, Contract())),
    "a lower contract on another mesh": dataclasses.replace(
        COMPUTING, contracts=(Contract(), dataclasses.replace(ROUNDING, mesh="data4"))
    ),
    "a lower contract of another side": dataclasses.replace(
        COMPUTING,
        variants={"other": total_backwards, "third": total},
        contracts=(Contract(), dataclasses.replace(ROUNDING, variant="third")),
    ),
    "finite inputs": dataclasses.replace(COMPUTING, contracts=(Contract(domain=Domain(finite=("x",))),)),
    "every leaf by name": dataclasses.replace(LEAVES, contracts=BY_LEAF, gradients=False),
}
NOT_PROMISED: dict[str, Pair] = {
    "rounding": dataclasses.replace(COMPUTING, contracts=(ROUNDING,)),
    "nothing declared, floats are added": COMPUTING,
    "declared forward only": dataclasses.replace(COMPUTING, contracts=(Contract(direction="forward"),)),
    "rounding of the reference's own": dataclasses.replace(
        MOVING, contracts=(Contract(), dataclasses.replace(ROUNDING, variant="flip"))
    ),
    "one of two leaves": dataclasses.replace(LEAVES, contracts=BY_LEAF[:1], gradients=False),
    "a known difference": dataclasses.replace(MOVING, exemptions=(Exemption(reason="the last row is lost"),)),
    "no -0.0": dataclasses.replace(MOVING, contracts=(Contract(domain=Domain(no_negative_zero=("x",))),)),
}


@pytest.mark.parametrize("what", [*PROMISED, *NOT_PROMISED])
def test_bits_are_promised_where_the_contracts_promise_them(what: str) -> None:
    pair = {**PROMISED, **NOT_PROMISED}[what]
    assert promises_bits(pair, (pair.reference_name, "other"), RUN) == (what in PROMISED)


def test_a_run_that_is_repeated_is_promised_its_bits(tmp_path: Path) -> None:
    assert expected_verdict(RUN, RUN.having(name="again"), tmp_path) == ("bitwise", SAME_RUN)
    assert expected_verdict(RUN, RUN.having(name="again", seed=1), tmp_path) == ("rounding", "another seed")


@pytest.mark.parametrize(
    ("optimized", "extra", "expected"),
    [
        ("def fast(x):\n    return 2 * x\n", 'contracts=(Contract(lowest="proved"),),', "bitwise"),
        ("def fast(x):\n    return 2 * x * 1.0\n", "", "rounding"),
    ],
    ids=["proved", "none declared"],
)
def test_two_runs_are_held_to_it(tmp_path: Path, optimized: str, extra: str, expected: str) -> None:
    """A contract of `proved` promises bits; none promises rounding of what computes."""
    write_pair(tmp_path, "part", optimized=optimized, axes=AXES, extra=extra)
    found = expected_verdict(RUN, RUN.having(name="other", choice={"part": "fast"}), tmp_path)
    assert found == (expected, "contracts of all parts" if expected == "bitwise" else "contracts of part")


# Runs beside those of another document: the same bits, within the envelope, outside it, or not comparable.
ENVELOPE = Envelope(config="base", loss=[1, 2])


def run(name: str, *losses: float) -> RunRecord:
    steps = tuple(
        step_record(number, {"loss": np.float32(loss), "perplexity": np.float32(2), "gradients": {}}, {})
        for number, loss in enumerate(losses, 1)
    )
    return RunRecord(config=name, digest="d", mesh="data8", shard_mode="auto", choice={}, dtype="float32", steps=steps)


def moved(loss: float, ulps: int) -> float:
    value = np.float32(loss)
    for _ in range(ulps):
        value = np.nextafter(value, np.float32(np.inf))
    return float(value)


@pytest.mark.parametrize(
    ("ulps", "verdict", "ok"), [(0, "bitwise", True), (3, "rounding", True), (9, "different", False)]
)
def test_which_it_is_is_said(ulps: int, verdict: str, ok: bool) -> None:
    (pairing,) = compare_beside(
        {"fsdp8": run("fsdp8", 1.5, moved(1.25, ulps))}, [run("fsdp8", 1.5, 1.25)], ENVELOPE, "one.json"
    )
    assert (pairing.a, pairing.b, pairing.verdict, pairing.ok) == ("fsdp8 of one.json", "fsdp8", verdict, ok)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], "--beside one.json: has no run 'fsdp8'; it must be of the same matrix"),
        ([run("fsdp8", 1.5)], "--beside one.json: run 'fsdp8' has 1 steps of configuration d; here it has 2 of d"),
        (
            [replace(run("fsdp8", 1.5, 1.25), digest="e")],
            "--beside one.json: run 'fsdp8' has 2 steps of configuration e; here it has 2 of d",
        ),
    ],
)
def test_another_matrix_is_rejected(others: list[RunRecord], message: str) -> None:
    with pytest.raises(RequestError) as error:
        compare_beside({"fsdp8": run("fsdp8", 1.5, 1.25)}, others, ENVELOPE, "one.json")
    assert str(error.value) == message


def test_other_bits_in_another_process_are_no_run() -> None:
    """Also where each process has the mesh to itself, and no exchange compares what they compute."""
    board = Board(2)
    groups = [ProcessGroup(number, 2, board, 60) for number in range(2)]
    for other, same in ((1.25, True), (moved(1.25, 1), False)):
        errors: list[str] = []

        def hold(number: int, loss: float, errors: list[str] = errors) -> None:
            try:
                vars(matrix)["_require_same_bits"](groups[number], run("fsdp8", 1.5, loss))
            except CouldNotRun as error:
                errors.append(str(error))

        thread = threading.Thread(target=hold, args=(1, other))
        thread.start()
        hold(0, 1.25)
        thread.join(60)
        assert errors == ([] if same else ["process 1 comes to other bits than process 0"] * 2)
    for group in groups:
        group.close()
