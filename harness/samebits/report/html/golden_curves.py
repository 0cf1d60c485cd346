"""The curves of goldens as rows for charts and tables: recorded and today's numbers at each step."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.report.html.train_curves import Row
from samebits.train.distance import FAR
from samebits.train.golden.check import CheckedGolden
from samebits.train.golden.curve import GoldenCurveStep

STEP_HEADS = ("step", "old loss", "new loss", "ulps", "allowed", "old norm of gradients", "new norm of gradients")


def value_rows(steps: Sequence[GoldenCurveStep], names: tuple[str, str]) -> list[Row]:
    """The loss and the norm of all gradients of both runs at each step.

    Args:
        steps: of a golden.
        names: of the recorded run and of the other one.
    """
    return [
        {"run": name, "step": step.step, "loss": loss, "norm": norm}
        for step in steps
        for name, loss, norm in (
            (names[0], step.recorded_loss, step.recorded_grad_norm),
            (names[1], step.loss, step.grad_norm),
        )
    ]


def distance_rows(steps: Sequence[GoldenCurveStep], names: tuple[str, str]) -> list[Row]:
    """The distance of the loss at each step that both runs have."""
    first = next((step.step for step in steps if step.loss_ulps), None)
    return [
        {
            "run": names[1],
            "pair": f"{names[1]} beside {names[0]}",
            "step": step.step,
            "ulps": step.loss_ulps,
            "first": step.step == first,
        }
        for step in steps
    ]


def bound_rows(steps: Sequence[GoldenCurveStep]) -> list[Row]:
    """How far the loss may be at each step; nothing where bits must be the same."""
    bounded = any(step.loss_bound for step in steps)
    return [{"step": step.step, "bound": step.loss_bound} for step in steps] if bounded else []


def used_rows(results: Sequence[CheckedGolden]) -> list[Row]:
    """The largest share of its bound that each golden's loss uses, of those that are held to bounds."""
    rows = []
    for result in results:
        shares = [(step.loss_ulps / step.loss_bound, step.step) for step in result.steps if step.loss_bound]
        if shares:
            used, step = max(shares)
            verdict = "rounding" if result.ok else "different"
            rows.append({"pair": result.name, "used": used, "leaf": f"loss, step {step}", "verdict": verdict})
    return rows


def step_table(steps: Sequence[GoldenCurveStep]) -> list[list[str]]:
    """A row for each step, as `STEP_HEADS` names the cells."""
    return [
        [
            str(step.step),
            number(step.recorded_loss),
            number(step.loss),
            "not comparable" if step.loss_ulps == FAR else str(step.loss_ulps),
            str(step.loss_bound),
            number(step.recorded_grad_norm),
            number(step.grad_norm),
        ]
        for step in steps
    ]


def number(value: float | None) -> str:
    """A number so that other bits of float32 are other digits; words where there is none."""
    return "none, or not finite" if value is None else f"{value:.9g}"
