"""Proofs of a whole training step: honest configurations are proved equal, planted defects are refuted."""

import dataclasses
import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samebits.interpret.data_movement import by_index
from samebits.interpret.equation import Type
from samebits.interpret.field.arithmetic import exp, negative, product, sum_of
from samebits.interpret.field.domain import Field
from samebits.interpret.field.element import VARIABLE, FieldElement
from samebits.interpret.field_proof.proof import FieldIdentity
from samebits.interpret.field_proof.result import ENOUGH
from samebits.report.prove_model import first_not_proved
from samebits.schema.meshes import Mode
from samebits.schema.model import Config, Defect
from samebits.train.prove_request import ProveRequest, StepLeaf, replay_words, steps
from samebits.train.prove_step import StepProver, _leaf
from samebits.train.request import load_model
from tests.support.invoke import REPOSITORY, samebits
from tests.support.toy_model import toy

QUICK = ("RMSNorm epsilon 1e-2", "router weights reversed")
PLANTED = Defect(
    name="an epsilon a ten-thousandth larger",
    run=Config(name="tiny", sizes={"experts": 0}),
    changes={"epsilon": 1.0001e-5},
)


@functools.cache
def prover() -> StepProver:
    return StepProver(load_model(REPOSITORY), REPOSITORY)


def proved(config: Config, defect: Defect | None = None) -> list[StepLeaf]:
    return prover().prove(config, defect)


def run_of(name: str) -> Config:
    return prover().model.all_configs()[name]


def assert_proved(leaves: list[StepLeaf]) -> None:
    assert first_not_proved(leaves) is None, first_not_proved(leaves)
    assert {leaf.leaf for leaf in leaves} >= {"loss", "perplexity", "gradients/head", "parameters/head", "nu/head"}
    bounds = [leaf.log2_error for leaf in leaves if leaf.log2_error is not None]
    assert len(bounds) > len(leaves) - 3  # the count of steps is a constant
    assert max(bounds) + math.log2(len(bounds)) <= ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "mode"),
    [
        ("sparse", "auto"),
        ("ring", "explicit"),
        pytest.param("sparse", "explicit", marks=pytest.mark.slow),
        pytest.param("ring", "auto", marks=pytest.mark.slow),
    ],
)
def test_experts_over_eight_shards_are_the_dense_ones(form: str, mode: Mode) -> None:
    assert_proved(proved(run_of(f"moe_parallelism/{form}_ep8").having(shard_mode=mode)))


@pytest.mark.slow
def test_stages_stack_their_parameters_and_compute_the_same() -> None:
    assert_proved(proved(run_of("pipeline_sharding/fsdp_pp_auto")))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in load_model(REPOSITORY).all_configs() if "/" in name))
def test_every_run_of_a_matrix_is_the_same_mathematics(name: str) -> None:
    config = run_of(name)
    leaves = proved(config)
    if "stage" in config.mesh and config.choice.get("moe") == "sparse":
        # Under stages the fields do not know every law of what is computed; float64 tells nothing apart.
        assert "different" not in {leaf.verdict for leaf in leaves}
        undecided = [leaf for leaf in leaves if leaf.verdict == "error"]
        reasons = ("do not know every law", "typed as replicated differs between devices", "random points")
        assert undecided and all(any(known in str(leaf.reason) for known in reasons) for leaf in undecided)
    else:
        assert_proved(leaves)


def test_a_planted_epsilon_is_refuted_though_the_loss_agrees() -> None:
    leaves = proved(PLANTED.run, PLANTED)
    first = first_not_proved(leaves)
    assert first is not None
    assert (first.leaf, first.verdict) == ("loss", "different")
    assert first.gap is not None and first.gap < 1e-7
    assert first.witness is not None and first.witness.startswith("loss[] is ")


def _defects() -> list[object]:
    found = load_model(REPOSITORY).defects()
    slow = pytest.mark.slow
    return [pytest.param(one, id=one.name, marks=() if one.name in QUICK else slow) for one in found if one.mathematics]


@pytest.mark.slow
@pytest.mark.parametrize("defect", _defects())
def test_a_mathematical_defect_is_refuted_with_its_first_leaf(defect: Defect) -> None:
    first = first_not_proved(proved(defect.run, defect))
    assert first is not None and first.verdict == "different", first
    assert first.leaf == "loss" or first.leaf.startswith("gradients/")
    assert first.witness is not None and first.witness.startswith(first.leaf)


# -- what keeps a proof of a step honest


def test_equal_residues_at_too_few_points_are_no_proof() -> None:
    head = StepLeaf(
        config="c", mesh="data1", shard_mode="auto", choice={}, defect=None, sizes={}, leaf="*", verdict="error"
    )
    few = FieldIdentity(True, 1, log2_error=-20.0, repetitions=24, degree=7)
    assert _leaf(head, "loss", dataclasses.replace(few, log2_error=-61.0)).verdict == "rounding"
    short = _leaf(head, "loss", few)
    assert short.verdict == "error" and short.log2_error is None
    assert short.reason == "more than 24 random points would be needed for an error probability below 2^-60"


@pytest.mark.parametrize(
    ("index", "primes"), [([2, 4, 8], 2), ([[3], [2]], 3), ([5, 6], 2), ([0, 8], 1), ([*range(9)], 1), ([], 1)]
)
def test_what_is_not_moved_does_not_count(index: list[Any], primes: int) -> None:
    def element(size: int, primes: int) -> FieldElement:
        parts = tuple(np.arange(size)[None] + np.zeros((2, 1), np.int64) for _ in range(primes))
        return FieldElement(parts, np.arange(size) + 10.0 * primes, VARIABLE)

    elements, places = [element(2, 1), element(3, 3), element(4, 2)], np.array(index, np.int64)
    moved = Field(2, 3).moved(elements, by_index(places), Type(places.shape, np.dtype("float32")))
    assert np.array_equal(moved.shadow, np.concatenate([part.shadow for part in elements])[places])
    assert len(moved.parts) == primes
    assert all(np.array_equal(part[1] + 0.0, moved.shadow % 10) for part in moved.parts)


@pytest.mark.parametrize("refilled", [False, True])
def test_exponentials_four_deep_keep_their_law(refilled: bool) -> None:
    domain = Field(2, 5, seed="deep", refilled=refilled)
    a, b = (domain.input(name, np.array([0.1]), Type((1,), np.dtype("float32"))) for name in "ab")
    left, right = exp(domain, sum_of(domain, a, b)), product(domain, exp(domain, a), exp(domain, b))
    for _ in range(3):
        left, right = exp(domain, negative(domain, left)), exp(domain, negative(domain, right))
    assert domain.same(left, right)
    assert len(left.parts) == (5 if refilled else 1)
    # One more: a random function of equal residues, or an image of residues of which the last is of one.
    assert domain.same(exp(domain, left), exp(domain, right)) is not refilled
    assert not domain.same(exp(domain, a), exp(domain, b))


# -- the command


@pytest.mark.slow
def test_the_command_prints_a_row_and_writes_every_leaf(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    ended = samebits("prove", "model", "--config", "hybrid/one_device", "--json", file)
    assert ended.code == 0, ended.out + ended.err
    assert "51 of 51  yes" in ended.out
    assert ended.out.splitlines()[-1].endswith("proved mathematics: 1 of 1 step")
    document = json.loads(file.read_text())
    assert (document["schema"], document["command"], document["model"]) == ("samebits/2", "prove model", "decoder")
    assert {result["verdict"] for result in document["results"]} == {"rounding"}


WRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    (("model", "--mesh", "exprt8"), "mesh axis 'exprt' is in no configuration of the model"),
    (("model", "--mesh", "expert3"), "batch 8 does not divide by 3"),
    (("model", "--shard-mode", "manual"), "--shard-mode manual: expected auto or explicit"),
    (("model", "--defect", "RMSNorm epsilon 1e-3"), "did you mean RMSNorm epsilon 1e-2?"),
    (("model", "--config", "tinny"), "config 'tinny' is unknown; did you mean tiny?"),
    (("model", "--matrix", "hybrid", "--config", "tiny"), "--matrix and --config: give one of them"),
    (("model", "--matrix", "hybrid", "--mesh", "fsdp2"), "--mesh changes one configuration"),
    (("model", "--choice", "moe"), "--choice moe: expected PAIR=SIDE"),
    (("model", "--variant", "sparse"), "--variant narrows pairs"),
    (("model", "rms_norm"), "'model' is proved alone"),
    (("rms_norm", "--choice", "moe=ring"), "--choice is of a full model"),
)


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_wrong_request_is_one_line(words: tuple[str, ...], said: str) -> None:
    ended = samebits("prove", *words)
    assert ended.code == 2
    assert len(ended.lines) == 1 and said in ended.err, ended.err


# Which training steps `samebits prove model` proves, and the options that select one of them again.
REQUESTS = (
    ProveRequest(),
    ProveRequest(config="alone", shard_modes=("auto", "explicit")),
    ProveRequest(config="toy/two"),
    ProveRequest(matrix="toy"),
)


@pytest.mark.parametrize("request_made", REQUESTS, ids=["default", "modes", "run of a matrix", "matrix"])
def test_every_step_is_selected_again_by_its_words(request_made: ProveRequest, tmp_path: Path) -> None:
    model = toy(tmp_path)
    for config, defect in steps(model, request_made):
        words = replay_words(model, request_made, config, defect)
        options = dict(zip(words[::2], words[1::2], strict=True))
        again = ProveRequest(
            config=options["--config"],
            meshes=tuple(options[name] for name in ("--mesh",) if name in options),
            shard_modes=tuple(options[name] for name in ("--shard-mode",) if name in options),
        )
        assert steps(model, again) == [(config, defect)]


def test_choices_are_repeated(tmp_path: Path) -> None:
    model = toy(tmp_path)
    ((config, _),) = steps(model, ProveRequest(config="alone"))
    words = replay_words(model, ProveRequest(config="alone", choices=("moe=ring", "norm=fast")), config, None)
    assert words[-4:] == ["--choice", "moe=ring", "--choice", "norm=fast"]
