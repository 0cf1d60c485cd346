"""The rules that every golden satisfies, verified before it is written and whenever it is read."""

from __future__ import annotations

import math
from collections.abc import Iterator

from samebits.train.golden.record import WINDOW, Golden, GoldenEvidence, GoldenStep, recorded_steps


def broken_rule(golden: Golden) -> str | None:
    """The first broken rule of a golden, as one line that names the field; None if all hold."""
    return next(_broken(golden), None)


def _broken(golden: Golden) -> Iterator[str]:
    if golden.window < WINDOW:
        yield f"window is {golden.window} steps; expected at least {WINDOW}"
    if [step.step for step in golden.steps] != list(range(1, golden.window + 1)):
        yield f"steps are not 1 to {golden.window}, as window says"
    if golden.environment_digest != golden.environment.digest():
        yield f"environment_digest is not that of environment ({golden.environment.digest()})"
    yield from _steps(golden)
    yield from _evidence(golden.evidence, golden)
    for place, acceptance in (
        ("accepted", golden.accepted),
        *((f"history[{i}]", x) for i, x in enumerate(golden.history)),
    ):
        for name in ("date", "commit", "author", "reason", "last_loss"):
            if not getattr(acceptance, name).strip():
                yield f"{place}.{name} is empty; it is mandatory"


def _steps(golden: Golden) -> Iterator[str]:
    kept, names = recorded_steps(golden.window), golden.steps[0].leaves.keys() if golden.steps else ()
    for index, step in enumerate(golden.steps):
        place = f"steps[{index}]"
        yield from _numbers(step, place)
        if step.step in kept and not step.leaves:
            yield f"{place}.leaves is empty; at step {step.step} every array is recorded"
        if step.step in kept and step.leaves.keys() != names:
            yield f"{place}.leaves are not those of steps[0]: {sorted(step.leaves.keys() ^ names)[0]}"
        for name, leaf in step.leaves.items():
            if not (math.isfinite(leaf.l1) and math.isfinite(leaf.l2)):
                yield f"{place}.leaves.{name} is not finite"


def _numbers(step: GoldenStep, place: str) -> Iterator[str]:
    for name in ("loss", "perplexity", "grad_norm", "param_norm"):
        pair = name in ("loss", "perplexity")
        try:
            exact = float.fromhex(getattr(step, f"{name}_hex" if pair else name))
        except (ValueError, OverflowError):
            yield f"{place}.{name}{'_hex' if pair else ''} is not a hexadecimal float"
            continue
        if not math.isfinite(exact):
            yield f"{place}.{name} is not finite"
        elif pair and exact != getattr(step, name):
            yield f"{place}.{name} is {getattr(step, name)!r} and {name}_hex says {exact!r}"


def _evidence(evidence: GoldenEvidence, golden: Golden) -> Iterator[str]:
    if not evidence.seen:
        yield "evidence.seen is empty; the environment of the run itself belongs there"
    if evidence.runs < 3:
        yield f"evidence.runs is {evidence.runs}; a spread needs at least 3"
    for kind in ("loss", "perplexity"):
        spread, bound = getattr(evidence, f"{kind}_spread"), getattr(evidence, f"{kind}_bound")
        for name, values in ((f"{kind}_spread", spread), (f"{kind}_bound", bound)):
            if len(values) != golden.window:
                yield f"evidence.{name} has {len(values)} numbers; expected one per step, {golden.window}"
        for index, (noise, limit) in enumerate(zip(spread, bound, strict=False)):
            if limit < noise:
                yield (
                    f"evidence.{kind}_bound[{index}] is {limit} ulps, tighter than the spread of {noise} seen at step "
                    f"{index + 1}"
                )
    leaves = golden.steps[0].leaves if golden.steps else {}
    for name in leaves:
        if name not in evidence.leaf_bound or name not in evidence.leaf_spread:
            yield f"evidence.leaf_bound has no '{name}'"
        elif not evidence.leaf_bound[name] >= evidence.leaf_spread[name]:
            yield (
                f"evidence.leaf_bound.{name} is {evidence.leaf_bound[name]:.3g}, tighter than the spread of "
                f"{evidence.leaf_spread[name]:.3g}"
            )
