"""Reads the JSON documents of samebits commands into one form: location, whether it holds, verdict and numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from samebits.schema.contract import leaf_words


@dataclass(frozen=True, slots=True)
class Observation:
    """One result of a document.

    Args:
        place: pair, case, mesh and leaf, or the training run.
        ok: whether it is as expected.
        verdict, reason, numbers: from the document.
    """

    place: str
    ok: bool
    verdict: str
    reason: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """The part that must stay the same during a search: place and verdict."""
        return f"{self.place}: {self.verdict}"


def read_observations(text: str) -> list[Observation] | None:
    """The results of a document, in order; None if the document is of an unknown command or malformed."""
    try:
        document = json.loads(text)
        command = document["command"]
        return list(READERS[command](document)) if command in READERS else None
    except (ValueError, KeyError, TypeError, AttributeError):  # text that a user names: the caller says what it is not
        return None


def _checked(document: Mapping[str, Any]) -> Iterator[Observation]:
    for result in document["results"]:
        name = f"{result['pair']}/{result['variant']}" if result.get("pair") else str(result["variant"])
        unproved = document["command"] == "prove" and not result["ok"] and _unproved(result)
        leaf = leaf_words(result["direction"], result["leaf"])
        yield Observation(
            place=f"{name}, case {result['case']}, {result['dtype']}, mesh {result['mesh']} ({result['mode']}), {leaf}",
            ok=result["ok"] or result["verdict"] == "skipped",
            verdict="unproved" if unproved else result["verdict"],
            reason=result.get("reason")
            or result.get("evidence")
            or ("proof alone does not decide" if unproved else ""),
            numbers={
                name: result[name]
                for name in ("elements", "mismatches", "max_ulp", "witness")
                if result.get(name) is not None
            },
        )
    yield from _problems(document)


def _trained(document: Mapping[str, Any]) -> Iterator[Observation]:
    names = ("verdict", "first_step", "first_leaf", "max_ulp", "envelope", "worst_leaf", "distance", "bound")
    for comparison in document["comparisons"]:
        where = f"first at step {comparison['first_step']}, {comparison['first_leaf']}"
        yield Observation(
            place=f"{comparison['b']} against {comparison['a']}",
            ok=comparison["ok"],
            verdict=comparison["verdict"] if comparison["ok"] else f"{comparison['verdict']}, {where}",
            reason=comparison["reason"],
            numbers={name: comparison[name] for name in names if comparison[name] is not None},
        )
    yield from _problems(document)


def _problems(document: Mapping[str, Any]) -> Iterator[Observation]:
    for problem in document.get("problems", ()):
        yield Observation(f"'{problem['pair']}'", False, "error", problem["message"])


def _unproved(result: Mapping[str, Any]) -> bool:
    """Whether a proof is only missing, as opposed to refuted or to a side that does not run."""
    reason = result.get("reason") or ""
    return result["verdict"] != "different" and not ("raised " in reason or "does not import" in reason)


def _steps(document: Mapping[str, Any]) -> Iterator[Observation]:
    for result in document["results"]:
        ok = result["verdict"] in ("proved", "rounding")
        yield Observation(
            place=f"{result['config']}, mesh {result['mesh']} ({result['shard_mode']}), {result['leaf']}",
            ok=ok,
            verdict="unproved" if not ok and _unproved(result) else result["verdict"],
            reason=result.get("reason") or "",
            numbers={name: result[name] for name in ("elements", "gap", "witness") if result.get(name) is not None},
        )
    yield from _problems(document)


def _compiled(document: Mapping[str, Any]) -> Iterator[Observation]:
    for comparison in document["comparisons"]:
        side = f"{comparison['pair']}/{comparison['variant']}"
        where = f"{side}, case {comparison['case']}, {comparison['direction']}, {comparison['target']}"
        for claim in comparison["expectations"]:
            yield Observation(
                place=f"{where}, claim '{claim['shows']}'",
                ok=claim["ok"],
                verdict="holds" if claim["holds"] else "does not hold",
                reason=claim["got"],
                numbers={"witness": claim["got"]},
            )
    yield from _problems(document)


def _goldens(document: Mapping[str, Any]) -> Iterator[Observation]:
    for result in document["results"]:
        at = "" if result["first_step"] is None else f", first at step {result['first_step']}, {result['first_leaf']}"
        yield Observation(
            place=f"golden {result['name']}",
            ok=result["status"] in ("same", "inside"),
            verdict="error" if result["status"] in ("damaged", "not run") else f"{result['status']}{at}",
            reason=result["message"],
            numbers={
                name: result[name] for name in ("ulps", "relative", "bound", "max_ulp") if result.get(name) is not None
            },
        )


READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Observation]]] = {
    "check": _checked,
    "prove": _checked,
    "prove model": _steps,
    "train": _trained,
    "compile": _compiled,
    "golden check": _goldens,
}
