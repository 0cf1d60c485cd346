"""How far rounding alone moves the first run of a training, as `train --json` publishes it and reports say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from samebits.train.envelope import FLOOR, Envelope
from samebits.train.record import RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvelopeRecord:
    """How far rounding alone moves the first run.

    Args:
        config: of the run that was rewritten.
        rewrites: what was tried, and the largest distance of the loss that it gave, in float32 ulps.
        loss_noise, loss_bound: at each step, in ulps.
        perplexity_noise: at each step, in ulps, beyond what the loss moved it.
        leaf_noise, leaf_bound: of each array of a single step, relative to its norm.
        norm_noise, norm_bound: of the norms of the gradients, and of the parameters, at each step, relative to the norm
            of all of them.
        left_out: rewrites that change more than rounding does, so that no bound follows from them, and why.
    """

    config: str
    rewrites: Mapping[str, int]
    loss_noise: tuple[int, ...]
    loss_bound: tuple[int, ...]
    leaf_noise: Mapping[str, float]
    leaf_bound: Mapping[str, float]
    perplexity_noise: tuple[int, ...] = ()
    norm_noise: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    norm_bound: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def envelope_record(envelope: Envelope | None) -> EnvelopeRecord | None:
    """An envelope as it is published."""
    if envelope is None:
        return None
    return EnvelopeRecord(
        config=envelope.config,
        rewrites=dict(envelope.rewrites),
        loss_noise=tuple(envelope.loss),
        loss_bound=tuple(envelope.loss_bound(step) for step in range(1, len(envelope.loss) + 1)),
        leaf_noise=dict(envelope.leaves),
        leaf_bound={leaf: envelope.leaf_bound(leaf) for leaf in envelope.leaves},
        perplexity_noise=tuple(envelope.perplexity),
        norm_noise={kind: tuple(noise) for kind, noise in envelope.norms.items()},
        norm_bound={
            kind: tuple(envelope.norm_bound(kind, step) for step in range(1, len(noise) + 1))
            for kind, noise in envelope.norms.items()
        },
        left_out=dict(envelope.left_out),
    )


def measured_envelope(record: EnvelopeRecord | None, runs: Sequence[RunRecord]) -> Envelope | None:
    """The envelope that was published.

    Args:
        record: of a document.
        runs: of the same document, in one dtype.
    """
    if record is None:
        return None
    return Envelope(
        config=record.config,
        loss=[*record.loss_noise],
        leaves={**record.leaf_noise},
        rewrites={**record.rewrites},
        perplexity=[*record.perplexity_noise],
        norms={kind: [*noise] for kind, noise in record.norm_noise.items()},
        dtype=next((run.dtype for run in runs if run.dtype in FLOOR), "float32"),
    )


def envelope_lines(envelope: EnvelopeRecord | None) -> list[str]:
    """What rounding alone does to the first run, and what bounds come of it."""
    if envelope is None:
        return []
    tried = ", ".join(f"{name} {far}" for name, far in envelope.rewrites.items())
    leaves = max(envelope.leaf_noise, key=lambda leaf: envelope.leaf_noise[leaf])
    return [
        f"envelope: {envelope.config} against itself, largest distance of the loss in float32 ulps: {tried}",
        f"bounds: the loss {envelope.loss_bound[0]} ulp at step 1, {envelope.loss_bound[-1]} at the last "
        f"(2 x noise + 1, at least 4); "
        f"each array of a single step from the same state 3 x its own noise, at most {envelope.leaf_bound[leaves]:.1e} "
        f"of its norm ({leaves})",
        *_norm_bounds(envelope),
        *(
            f"no bound follows from {name}, which changes more than rounding does: {why}"
            for name, why in envelope.left_out.items()
        ),
    ]


def _norm_bounds(envelope: EnvelopeRecord) -> list[str]:
    """How far the norms of every step may move."""
    most = [f"{max(bounds):.1e} of that of all {kind}s" for kind, bounds in envelope.norm_bound.items()]
    return [f"norms of each array at every step: at most {', '.join(most)}"] if most else []
