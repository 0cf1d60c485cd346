"""Runs, environments and goldens made by hand: two arrays, twenty steps, no jax."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.host.environment import Environment
from samebits.host.permit import Permit
from samebits.schema.model import Config, Model
from samebits.train.golden.accept import GoldenCandidate, make_golden, seen_now
from samebits.train.golden.record import Golden, GoldenEvidence, sealed
from samebits.train.record import RunRecord, StepRecord, step_record
from tests.support.toy_model import toy

CONFIG = Config(name="one", mesh="data1")

HERE = Environment(
    versions={"samebits": "1", "python": "3.11", "jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": None, "numpy": "2.4"},
    platform="cpu",
    device_kind="cpu",
    devices=8,
    machine="x86_64",
    instruction_sets=("avx", "avx2"),
    flags={"XLA_FLAGS": "", "LIBTPU_INIT_ARGS": ""},
    settings={"jax_enable_x64": "False"},
    cpus=4,
)
ELSEWHERE = replace(HERE, instruction_sets=("avx", "avx2", "avx512f"))

LOSS_NOISE, LOSS_BOUND, LEAF_BOUND = 4, 9, 1e-6


def moved(value: Any, count: int) -> Any:
    """A float32 so many ulps up."""
    return (np.asarray(value, np.float32).view(np.int32) + np.int32(count)).view(np.float32)


def run_record(
    steps: int = 20,
    *,
    nudge: Mapping[int, int] | None = None,
    perplexity: Mapping[int, int] | None = None,
    scale: Mapping[int, float] | None = None,
    leaves: tuple[str, ...] = ("w", "b"),
    loss: Mapping[int, float] | None = None,
) -> RunRecord:
    """A run."""
    made: list[StepRecord] = []
    for number in range(1, steps + 1):
        value = np.float32((loss or {}).get(number, 3.0 / number))
        outputs = {
            "loss": moved(value, (nudge or {}).get(number, 0)) if np.isfinite(value) else value,
            "perplexity": moved(1.0 + 3.0 / number, (perplexity or {}).get(number, 0)),
            "gradients": {name: np.arange(1, 4, dtype=np.float32) / number for name in leaves},
        }
        if "w" in leaves:
            outputs["gradients"]["w"] = outputs["gradients"]["w"] * np.float32((scale or {}).get(number, 1.0))
        made.append(step_record(number, outputs, {name: np.full(3, number, np.float32) for name in leaves}))
    return RunRecord(
        config=CONFIG.name,
        digest=CONFIG.digest(),
        mesh=CONFIG.mesh,
        shard_mode=CONFIG.shard_mode,
        choice={},
        dtype=CONFIG.dtype,
        steps=tuple(made),
    )


def evidence(run: RunRecord, here: Environment = HERE) -> GoldenEvidence:
    """Evidence with one bound for all steps."""
    names, steps = run.steps[0].digests, len(run.steps)
    return GoldenEvidence(
        runs=7,
        rewrites={"repeated": 0, "one ulp of dither": LOSS_NOISE},
        seen=(seen_now(here, "2026-01-01"),),
        loss_spread=(LOSS_NOISE,) * steps,
        loss_bound=(LOSS_BOUND,) * steps,
        perplexity_spread=(LOSS_NOISE,) * steps,
        perplexity_bound=(LOSS_BOUND,) * steps,
        leaf_spread=dict.fromkeys(names, LEAF_BOUND / 3),
        leaf_bound=dict.fromkeys(names, LEAF_BOUND),
        basis="set by hand",
    )


class AnyTree(Permit):
    """A permit that asks no git."""

    def still(self) -> None:
        """Nothing to reject."""


def allowed(root: Path, reason: str = "made by hand") -> Permit:
    """A permit for a folder without git."""
    return AnyTree(root=root, folder=root, commit="c" * 40, author="A <a@b>", reason=reason, date="2026-01-01")


def model(root: Path) -> Model:
    """The toy model, with its goldens under `root`."""
    return toy(root)


def golden(
    run: RunRecord | None = None, *, before: Golden | None = None, here: Environment = HERE, root: Path = Path()
) -> Golden:
    """The sealed golden of a run."""
    run = run or run_record()
    candidate = GoldenCandidate(matrix="toy", config=CONFIG, run=run, evidence=evidence(run, here), here=here)
    made, _ = make_golden(model(root), candidate, allowed(root), before)
    return sealed(made)
