"""Proofs of whole training steps on a page: one row per step, what is refuted or undecided first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from samebits.report.html.section import Section, render
from samebits.report.prove_model import (
    ASSUMED,
    HEADS,
    WORDS,
    StepDocument,
    by_step,
    closing,
    exit_code,
    first_not_proved,
    row,
)
from samebits.report.words import plural, state_of
from samebits.train.step_leaf import StepLeaf

LEAVES = 200
"""Of one step in a table; JSON has all of them."""

_ORDER = {"different": 0, "error": 1}


def prove_model_section(document: StepDocument) -> Section:
    """The section of a run of proofs of training steps.

    Args:
        document: of `samebits prove model`.
    """
    steps = sorted(by_step(document.results), key=_gravity)
    headline = _headline(document, steps)
    return Section(
        title=f"prove model {document.model}",
        command="prove model",
        state=state_of(exit_code(document)),
        headline=headline,
        next_command=_next(steps),
        body=render(
            "prove_model.html.j2",
            document=document,
            headline=headline,
            closing=closing(document),
            heads=HEADS,
            steps=[_step(leaves) for leaves in steps],
            assumed=" ".join(ASSUMED),
            words=WORDS,
        ),
        styles=("evidence.css",),
    )


def _gravity(leaves: Sequence[StepLeaf]) -> int:
    wrong = first_not_proved(leaves)
    return 2 if wrong is None else _ORDER[wrong.verdict]


def _headline(document: StepDocument, steps: Sequence[Sequence[StepLeaf]]) -> str:
    """Which step is not the references' formula, and in which output first."""
    wrong = first_not_proved(steps[0]) if steps else None
    if wrong is None:
        if document.problems:
            return f"{document.problems[0].pair}: {document.problems[0].message}"
        return closing(document)
    count = sum(first_not_proved(leaves) is not None for leaves in steps)
    name = wrong.config if wrong.defect is None else f"{wrong.config} with '{wrong.defect}'"
    why = wrong.witness or wrong.reason or "no reason is given"
    place = f"{name} on {wrong.mesh}: {wrong.leaf} is {WORDS[wrong.verdict]}: {why}"
    return f"{count} of {plural(len(steps), 'step')} not proved; first {place}"


def _next(steps: Sequence[Sequence[StepLeaf]]) -> str | None:
    """The first step that is not proved, alone."""
    wrong = first_not_proved(steps[0]) if steps else None
    return None if wrong is None else wrong.replay or None


def _step(leaves: Sequence[StepLeaf]) -> dict[str, Any]:
    """One step, as the template shows it."""
    wrong = first_not_proved(leaves)
    ordered = sorted(leaves, key=lambda leaf: _ORDER.get(leaf.verdict, 2))
    return {
        "cells": row(leaves),
        "name": row(leaves)[0],
        "verdict": "rounding" if wrong is None else wrong.verdict,
        "wrong": wrong,
        "first": leaves[0],
        "choice": ", ".join(f"{pair}={side}" for pair, side in leaves[0].choice.items()),
        "sizes": ", ".join(f"{name}={size}" for name, size in leaves[0].sizes.items()),
        "leaves": ordered[:LEAVES],
        "hidden": max(0, len(leaves) - LEAVES),
    }
