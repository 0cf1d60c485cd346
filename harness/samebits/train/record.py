"""The record of a training run, step by step, as published by `train --json` and stored in goldens."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafRecord:
    """The digest and norms of one array of a step.

    Args:
        digest: of its bytes in C order, little endian, and of its dtype.
        l1, l2: sums of its absolute values, and root of the sum of squares, in float64.
    """

    digest: str
    l1: float
    l2: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRecord:
    """One step of a run.

    Args:
        step: counted from 1.
        loss, loss_hex: what is minimised, in decimal and exactly (`float.hex`).
        perplexity, perplexity_hex: exp of the mean loss of a token.
        grad_norm, param_norm: over all gradients before clipping, and all updated parameters, in float64.
        digests: of every gradient (`gradient/LEAF`) and every updated parameter (`parameter/LEAF`).
    """

    step: int
    loss: float
    loss_hex: str
    perplexity: float
    perplexity_hex: str
    grad_norm: float
    param_norm: float
    digests: dict[str, LeafRecord]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One run, as `train --json` publishes it.

    Args:
        config: the name of the configuration.
        digest: of the configuration.
        mesh, shard_mode, choice, dtype: of the configuration.
        steps: in order.
        tokens_per_second_per_device, step_seconds: from the median step after the first.
        temp_bytes: the compiler's own count of temporary memory, per device.
        compile_seconds: tracing and compiling.
    """

    config: str
    digest: str
    mesh: str
    shard_mode: str
    choice: dict[str, str]
    dtype: str
    steps: tuple[StepRecord, ...] = ()
    tokens_per_second_per_device: float | None = None
    step_seconds: float | None = None
    temp_bytes: int | None = None
    compile_seconds: float = 0.0

    @property
    def bits(self) -> str:
        """A digest of all recorded bits; equal for runs with identical bits."""
        text = "\n".join(
            f"{s.step} {s.loss_hex} {s.perplexity_hex} "
            + " ".join(f"{name}={leaf.digest}" for name, leaf in sorted(s.digests.items()))
            for s in self.steps
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(slots=True)
class Recorded:
    """A run with the states from which single steps can be restarted.

    Args:
        run: the published record.
        states: the whole state before some of the steps, by step number.
    """

    run: RunRecord
    states: dict[int, Any] = field(default_factory=dict)


def leaf_record(array: Array) -> LeafRecord:
    """Return an array's digest and norms."""
    array = np.ascontiguousarray(array)
    wide = np.abs(array.astype(np.float64))
    digest = hashlib.sha256(f"{array.dtype} {array.size} ".encode() + array.tobytes()).hexdigest()[:16]
    return LeafRecord(digest=digest, l1=float(wide.sum()), l2=float(np.sqrt(np.square(wide).sum())))


def step_record(number: int, outputs: Mapping[str, Array], parameters: Mapping[str, Array]) -> StepRecord:
    """Return the record of a step, from its outputs on the host."""
    kinds = (("gradient", outputs["gradients"]), ("parameter", parameters))
    digests = {f"{kind}/{name}": leaf_record(array) for kind, tree in kinds for name, array in tree.items()}
    norms = {
        kind: float(np.sqrt(sum(leaf.l2**2 for name, leaf in digests.items() if name.startswith(f"{kind}/"))))
        for kind, _ in kinds
    }
    loss, perplexity = float(outputs["loss"]), float(outputs["perplexity"])
    return StepRecord(
        step=number,
        loss=loss,
        loss_hex=loss.hex(),
        perplexity=perplexity,
        perplexity_hex=perplexity.hex(),
        grad_norm=norms["gradient"],
        param_norm=norms["parameter"],
        digests=digests,
    )
