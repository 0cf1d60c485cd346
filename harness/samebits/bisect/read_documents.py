"""What the documents of samebits commands say, in one form: where, whether it is as it should be, and its numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing that a document says: where, whether it is as it should be, and its numbers."""

    place: str
    ok: bool
    verdict: str
    reason: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """What must stay the same while the cause is searched."""
        return f"{self.place}: {self.verdict}"


def read_observations(text: str) -> list[Observation] | None:
    """What a document says, in its order; None where it is none that is known."""
    try:
        document = json.loads(text)
        command = document["command"]
        return list(READERS[command](document)) if command in READERS else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _checked(document: Mapping[str, Any]) -> Iterator[Observation]:
    for one in document["results"]:
        name = f"{one['pair']}/{one['variant']}" if one.get("pair") else str(one["variant"])
        unproved = document["command"] == "prove" and not one["ok"] and _unproved(one)
        leaf = f"gradient of {one['leaf']}" if one["direction"] == "gradient" else one["leaf"]
        yield Observation(
            place=f"{name}, case {one['case']}, {one['dtype']}, mesh {one['mesh']} ({one['mode']}), {leaf}",
            ok=one["ok"] or one["verdict"] == "skipped",
            verdict="unproved" if unproved else one["verdict"],
            reason=one.get("reason") or one.get("evidence") or ("proof alone does not tell" if unproved else ""),
            numbers={
                name: one[name]
                for name in ("elements", "mismatches", "max_ulp", "witness")
                if one.get(name) is not None
            },
        )
    yield from _problems(document)


def _trained(document: Mapping[str, Any]) -> Iterator[Observation]:
    names = ("verdict", "first_step", "first_leaf", "max_ulp", "envelope", "worst_leaf", "distance", "bound")
    for one in document["comparisons"]:
        where = f"first at step {one['first_step']}, {one['first_leaf']}"
        yield Observation(
            place=f"{one['b']} against {one['a']}",
            ok=one["ok"],
            verdict=one["verdict"] if one["ok"] else f"{one['verdict']}, {where}",
            reason=one["reason"],
            numbers={name: one[name] for name in names if one[name] is not None},
        )
    yield from _problems(document)


def _problems(document: Mapping[str, Any]) -> Iterator[Observation]:
    for problem in document.get("problems", ()):
        yield Observation(f"'{problem['pair']}'", False, "error", problem["message"])


def _unproved(one: Mapping[str, Any]) -> bool:
    """Whether a proof is only missing: it tells nothing, as one that is refuted does, or a side that does not run."""
    reason = one.get("reason") or ""
    return one["verdict"] != "different" and not ("raised " in reason or "does not import" in reason)


def _steps(document: Mapping[str, Any]) -> Iterator[Observation]:
    for one in document["results"]:
        ok = one["verdict"] in ("proved", "rounding")
        yield Observation(
            place=f"{one['config']}, mesh {one['mesh']} ({one['shard_mode']}), {one['leaf']}",
            ok=ok,
            verdict="unproved" if not ok and _unproved(one) else one["verdict"],
            reason=one.get("reason") or "",
            numbers={name: one[name] for name in ("elements", "gap", "witness") if one.get(name) is not None},
        )
    yield from _problems(document)


def _compiled(document: Mapping[str, Any]) -> Iterator[Observation]:
    for one in document["comparisons"]:
        where = f"{one['pair']}/{one['variant']}, case {one['case']}, {one['direction']}, {one['target']}"
        for claim in one["expectations"]:
            yield Observation(
                place=f"{where}, claim '{claim['shows']}'",
                ok=claim["ok"],
                verdict="holds" if claim["holds"] else "does not hold",
                reason=claim["got"],
                numbers={"witness": claim["got"]},
            )
    yield from _problems(document)


def _goldens(document: Mapping[str, Any]) -> Iterator[Observation]:
    for one in document["results"]:
        at = "" if one["first_step"] is None else f", first at step {one['first_step']}, {one['first_leaf']}"
        yield Observation(
            place=f"golden {one['name']}",
            ok=one["status"] in ("same", "inside"),
            verdict="error" if one["status"] in ("damaged", "not run") else f"{one['status']}{at}",
            reason=one["message"],
            numbers={name: one[name] for name in ("ulps", "relative", "bound", "max_ulp") if one.get(name) is not None},
        )


READERS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Observation]]] = {
    "check": _checked,
    "prove": _checked,
    "prove model": _steps,
    "train": _trained,
    "compile": _compiled,
    "golden check": _goldens,
}
