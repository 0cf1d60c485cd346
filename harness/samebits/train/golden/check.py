"""Compares a run with its golden: bit for bit in the golden's environment, else within the golden's evidence.

In: a `Golden` and a `RunRecord`. Out: a `CheckedGolden` with the first change, and both runs step by step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from samebits.host.environment import Environment
from samebits.schema.model import Config
from samebits.train import distance
from samebits.train.distance import ALL, FAR, LENGTH, NORM_FLOOR, leaf_order, perplexity_distance
from samebits.train.golden.record import Golden, GoldenStep, config_values, golden_steps
from samebits.train.record import RunRecord

MOST_ARRAYS = 40
"""How many changed arrays a result lists."""

_NUMBERS = ("loss", "perplexity", LENGTH)


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenCurveStep:
    """One step of the recorded run and of today's.

    Args:
        step: counted from 1.
        recorded_loss, loss: then and today; None where a number is not finite, or a run has no such step.
        loss_ulps: their distance in float32 ulps.
        loss_bound: the accepted distance: 0 in the recorded environment.
        recorded_grad_norm, grad_norm: over all gradients before clipping.
        recorded_param_norm, param_norm: over all updated parameters.
    """

    step: int
    recorded_loss: float | None
    loss: float | None
    loss_ulps: int
    loss_bound: int
    recorded_grad_norm: float | None
    grad_norm: float | None
    recorded_param_norm: float | None
    param_norm: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GoldenArrayChange:
    """An array that changed, at the first step where it did.

    Args:
        step: counted from 1.
        leaf: such as `gradient/final_norm`.
        relative: how far its norm moved; 0 where only its bits did, None where that is not known.
        bound: how far it may move; 0 in the recorded environment.
    """

    step: int
    leaf: str
    relative: float | None
    bound: float


@dataclass(frozen=True, slots=True)
class GoldenChange:
    """One number or digest that differs from the recorded one."""

    step: int
    leaf: str
    ulps: int | None
    relative: float | None
    bound: float = 0.0

    @property
    def beyond(self) -> bool:
        """Whether it exceeds the bound."""
        return self.bound < (self.ulps if self.ulps is not None else self.relative or 0.0)


def ulps(a: str, b: str) -> int:
    """Return the distance of two numbers in `float.hex` form, in float32 ulps; at least 1 if they differ."""
    return 0 if a == b else max(1, distance.ulps(float.fromhex(a), float.fromhex(b)))


def relative_change(old: float, new: float) -> float:
    """Return `|old - new|` over the larger magnitude: at most 2; 1 if one is zero, infinite if one is not finite."""
    if old == new:
        return 0.0
    if not (np.isfinite(old) and np.isfinite(new)):
        return float("inf")
    return abs(old - new) / max(abs(old), abs(new))


def norm_change(old: float, new: float, of_kind: float) -> float:
    """Return as `relative_change`, of norms; where the old one is zero, relative to all arrays of its kind."""
    if old or not np.isfinite(new):
        return relative_change(old, new)
    return new / of_kind if of_kind else float("inf") if new else 0.0


def curve(golden: Golden, today: tuple[GoldenStep, ...], *, exact: bool) -> tuple[GoldenCurveStep, ...]:
    """Return both runs, step by step.

    Args:
        exact: whether bits must be the same, as in the recorded environment.
    """
    steps = []
    for place in range(max(len(golden.steps), len(today))):
        old = golden.steps[place] if place < len(golden.steps) else None
        new = today[place] if place < len(today) else None
        bounds = golden.evidence.loss_bound
        steps.append(
            GoldenCurveStep(
                step=place + 1,
                recorded_loss=_number(old, "loss_hex"),
                loss=_number(new, "loss_hex"),
                loss_ulps=ulps(old.loss_hex, new.loss_hex) if old and new else FAR,
                loss_bound=0 if exact or place >= len(bounds) else bounds[place],
                recorded_grad_norm=_number(old, "grad_norm"),
                grad_norm=_number(new, "grad_norm"),
                recorded_param_norm=_number(old, "param_norm"),
                param_norm=_number(new, "param_norm"),
            )
        )
    return tuple(steps)


def first_changes(changes: Iterable[GoldenChange]) -> tuple[GoldenArrayChange, ...]:
    """Return the arrays that changed, each once, in the order in which they did."""
    changed: dict[str, GoldenArrayChange] = {}
    for change in changes:
        if change.leaf not in _NUMBERS:
            relative = None if change.relative is None or not math.isfinite(change.relative) else change.relative
            changed.setdefault(
                change.leaf,
                GoldenArrayChange(step=change.step, leaf=change.leaf, relative=relative, bound=float(change.bound)),
            )
    return tuple(changed.values())


def _number(step: GoldenStep | None, field: str) -> float | None:
    value = math.nan if step is None else float.fromhex(getattr(step, field))
    return value if math.isfinite(value) else None


_NORMS = (("gradient", "grad_norm"), ("parameter", "param_norm"))

Lane = Literal["exact", "evidence"]
Status = Literal["same", "inside", "changed", "missing", "unused", "damaged", "not run"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedGolden:
    """The result of checking one golden.

    Args:
        name: `MATRIX/RUN`.
        status: `same` bits; `inside` the bounds in another environment; `changed`; or why nothing was compared.
        lane: `exact` for bits, `evidence` for bounds; None if nothing was compared.
        message: one line.
        first_step, first_leaf: the first change, or the first value outside its bounds.
        ulps: the distance there of a loss or perplexity, in float32 ulps.
        relative: the relative change there.
        bound: the bound there, in the unit of `ulps` if given, else of `relative`.
        max_ulp: the largest distance of the loss over all steps.
        machines: how many environments have confirmed the golden.
        steps: recorded and today's numbers at each step; empty if nothing was compared.
        changed: arrays whose bits or bounds do not hold, each at its first step; of many, the first ones.
        changed_count: how many arrays they are.
    """

    name: str
    status: Status
    message: str
    lane: Lane | None = None
    first_step: int | None = None
    first_leaf: str | None = None
    ulps: int | None = None
    relative: float | None = None
    bound: float | None = None
    max_ulp: int | None = None
    machines: int | None = None
    steps: tuple[GoldenCurveStep, ...] = ()
    changed: tuple[GoldenArrayChange, ...] = ()
    changed_count: int = 0

    @property
    def ok(self) -> bool:
        """Whether the run is the recorded one."""
        return self.status in ("same", "inside")

    @property
    def exit_code(self) -> int:
        """As for all commands: 1 something differs, 2 a file is invalid, 3 no answer."""
        return {"same": 0, "inside": 0, "damaged": 2, "not run": 3}.get(self.status, 1)


def changes(golden: Golden, today: tuple[GoldenStep, ...], *, exact: bool = True) -> Iterator[GoldenChange]:
    """Yield what differs from the recorded run, by step, and within a step in the order of computation.

    Args:
        exact: every other bit counts; else what is beyond the recorded evidence.
    """
    evidence = golden.evidence
    for old, new in zip(golden.steps, today, strict=False):
        for name in ("loss", "perplexity"):
            a, b = getattr(old, f"{name}_hex"), getattr(new, f"{name}_hex")
            far, bound = ulps(a, b), 0 if exact else getattr(evidence, f"{name}_bound")[old.step - 1]
            if name == "perplexity" and not exact:  # beyond what the loss moved it, which has a bound of its own
                far = perplexity_distance(old.loss, old.perplexity, new.loss, new.perplexity)
            change = GoldenChange(old.step, name, far, relative_change(float.fromhex(a), float.fromhex(b)), bound)
            if change.beyond:
                yield change
        named = False
        for leaf in leaf_order({**old.leaves, **new.leaves}) if old.leaves and new.leaves else []:
            if leaf not in old.leaves or leaf not in new.leaves:
                named = True
                yield GoldenChange(old.step, f"{leaf} (only {'then' if leaf in old.leaves else 'today'})", None, 1.0)
                continue
            then, now = old.leaves[leaf], new.leaves[leaf]
            change = GoldenChange(old.step, leaf, None, relative_change(then.l2, now.l2))
            if not exact:
                of_kind = float.fromhex(old.grad_norm if leaf.startswith("gradient/") else old.param_norm)
                apart = norm_change(then.l2, now.l2, of_kind)
                change = GoldenChange(old.step, leaf, None, apart, evidence.leaf_bound[leaf])
            if then != now if exact else change.beyond:
                named = True
                yield change
        # Arrays are recorded of some steps, and the norms of all of them of every step.
        for kind, norm in _NORMS:
            a, b = getattr(old, norm), getattr(new, norm)
            bound = 0.0 if exact else norm_bound(golden, kind)
            change = GoldenChange(old.step, ALL[kind], None, relative_change(float.fromhex(a), float.fromhex(b)), bound)
            if (a != b if exact else change.beyond) and not named:
                named = True
                yield change
        if exact and old.all_leaves != new.all_leaves and not named:
            yield GoldenChange(old.step, "an array", None, None)
    if len(golden.steps) != len(today):
        yield GoldenChange(min(len(golden.steps), len(today)) + 1, LENGTH, None, None)


def norm_bound(golden: Golden, kind: str) -> float:
    """Return how far the norm of all arrays of a kind may move at any step in another environment, relative.

    As far as that of one of them, which is measured at the steps at which arrays are recorded, and at least as far as
    in a training that is compared with another one.
    """
    leaves = (bound for leaf, bound in golden.evidence.leaf_bound.items() if leaf.startswith(f"{kind}/"))
    return max(NORM_FLOOR[golden.values["dtype"]][kind], *leaves)


def check_golden(golden: Golden, run: RunRecord, here: Environment) -> CheckedGolden:
    """Compare a run with a golden."""
    today, exact = golden_steps(run), golden.environment_digest == here.digest()
    far = max((ulps(a.loss_hex, b.loss_hex) for a, b in zip(golden.steps, today, strict=False)), default=0)
    machines, then = len(golden.evidence.seen), golden.environment
    if exact:
        message, place = f"same bits, {golden.window} steps, the recorded environment", " in the recorded environment"
        place += ", where every bit must be the same"
        if then.cpus != here.cpus:
            place += f" (it had {then.cpus} processors, this one has {here.cpus})"
    else:
        unlike = then.unlike(here)
        where = f"another environment ({', '.join(unlike[:3])}{', ...' if len(unlike) > 3 else ''})"
        where += "" if machines > 1 else "; evidence of one environment"
        message = f"within the evidence, {far} of {golden.evidence.loss_bound[-1]} ulps, {where}"
        place = f", beyond the evidence, in {where}"
    beyond = list(changes(golden, today, exact=exact))
    first, arrays = next(iter(beyond), None), first_changes(beyond)
    checked = CheckedGolden(
        name=golden.name,
        status="same" if exact else "inside",
        lane="exact" if exact else "evidence",
        message=message,
        max_ulp=far,
        machines=machines,
        steps=curve(golden, today, exact=exact),
        changed=arrays[:MOST_ARRAYS],
        changed_count=len(arrays),
    )
    if first is None:
        return checked
    text = f"{_change_words(first)}{place}"
    if first.leaf == LENGTH:
        text = f"today's run has {len(today)} steps, and the golden {len(golden.steps)}"
    return replace(
        checked,
        status="changed",
        message=text,
        first_step=first.step,
        first_leaf=first.leaf,
        ulps=first.ulps,
        relative=first.relative,
        bound=first.bound,
    )


def other_configuration(golden: Golden, config: Config) -> str | None:
    """Return the values of a configuration that differ from its golden's, in words; None if there are none."""
    if golden.config_digest == config.digest():
        return None
    then, now = golden.values, config_values(config)
    names = [name for name in sorted({*then, *now} - {"name"}) if then.get(name) != now.get(name)]
    return ", ".join(f"{name} {then.get(name)} -> {now.get(name)}" for name in names) or "config_digest"


def _change_words(change: GoldenChange) -> str:
    if change.relative == math.inf and change.leaf in ("loss", "perplexity", *ALL.values()):
        return f"{change.leaf} is not finite at step {change.step}"
    text = f"{change.leaf} changed at step {change.step}"
    if change.ulps is not None:
        text += f" by {change.ulps} ulp{'' if change.ulps == 1 else 's'}"
    if change.relative is not None:
        text += f", {change.relative:.2g} relative"
    if change.bound:
        text += f"; {change.bound:.3g} allowed"
    return text
