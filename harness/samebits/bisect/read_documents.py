"""Reads the JSON documents of samebits commands into one form: location, whether it holds, verdict and numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from samebits.schema.contract import leaf_words
from samebits.schema.finding import Place
from samebits.schema.older_rows import upgraded


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
    """Return the results of a document, in order; None if the document is of an unknown command or malformed."""
    try:
        document = json.loads(text)
        document = upgraded(document) if document.get("schema") == "samebits/1" else document
        command = document["command"]
        return list(READERS[command](document)) if command in READERS else None
    except (ValueError, KeyError, TypeError, AttributeError):  # text that a user names: the caller says what it is not
        return None


def _checked(document: Mapping[str, Any]) -> Iterator[Observation]:
    is_proof = document["command"] == "prove"
    for result in document["results"]:
        place, ruling = Place(**result["place"]), result["ruling"]
        unproved = is_proof and not ruling["ok"] and _unproved(ruling)
        evidence = None if is_proof else ruling.get("evidence")
        numbers = {
            **result.get("comparison", {}),
            **({"witness": result.get("proof", {}).get("refutation")} if is_proof else {}),
        }
        yield Observation(
            place=f"{place.side()}, {place.where()}, {leaf_words(place.direction, place.leaf)}",
            ok=ruling["ok"] or ruling["verdict"] == "skipped",
            verdict="unproved" if unproved else ruling["verdict"],
            reason=ruling.get("reason") or evidence or ("proof alone does not decide" if unproved else ""),
            numbers={
                name: numbers[name]
                for name in ("elements", "mismatches", "max_ulp", "witness")
                if numbers.get(name) is not None
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
    """Return whether a proof is only missing, as opposed to refuted or to a side that does not run."""
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
