"""A point that several processes check together: all come to the same results, or the point is an `error` in all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from samebits.cluster.process_group import Post, ProcessGroup
from samebits.errors import CouldNotRun
from samebits.host.group import FailedElsewhere
from samebits.schema.finding import Finding

COMPARED = {
    "place": ("leaf",),
    "ruling": ("verdict", "ok"),
    "comparison": ("elements", "mismatches", "max_ulp", "kind", "bits"),
    "accuracy": ("error_ratio",),
}
"""What of a result is the same in all processes; times are not, and messages may name devices."""


def judged_together(
    group: ProcessGroup,
    words: str,
    started: Finding | None,
    finish: Callable[[], Sequence[Finding]],
    error: Callable[[str], Finding],
) -> list[Finding]:
    """Return the results of a point that all processes come to; it runs in none where it does not start in one."""
    group.begin(words)
    failed = None if started is None else _failure([started])
    results: Sequence[Finding]
    try:
        states = group.agree("traced", "started" if started is None else started.ruling.verdict, failed)
        if failed is None and len(set(states)) > 1:
            raise FailedElsewhere("; ".join(f"process {number}: {state}" for number, state in enumerate(states)))
        results = finish() if started is None else [started]
    except FailedElsewhere as elsewhere:
        results = [error(str(elsewhere))]
    return end_together(group, results, error)


def end_together(group: ProcessGroup, results: Sequence[Finding], error: Callable[[str], Finding]) -> list[Finding]:
    """Return the results of a point, once all processes have them.

    Raises:
        RunEnded: a process does not come.
    """
    failed = _failure(results)
    if failed is not None:
        group.leave(failed)
    posts = group.exchange("judged", Post([_compared(result) for result in results], failed), last=True)
    failures = {number: post.failed for number, post in enumerate(posts) if post.failed is not None}
    if len(failures) == group.count:
        return list(results)
    if failures:
        number, text = next(iter(failures.items()))
        return list(results) if failed is not None else [error(f"failed in process {number}: {text}")]
    for number, post in enumerate(posts):
        apart = _apart(posts[0].payload, post.payload)
        if apart is not None:
            return [error(f"process {number} comes to another result than process 0: {apart}")]
    return list(results)


def require_alike(group: ProcessGroup, results: Sequence[Finding]) -> None:
    """Hold the results of a point against those of the other processes."""
    everywhere = group.share("judged", [_compared(result) for result in results])
    for number, other in enumerate(everywhere):
        apart = _apart(everywhere[0], other)
        if apart is not None:
            raise CouldNotRun(f"process {number} comes to another result than process 0: {apart}")


def _apart(first: Sequence[dict[str, object]], other: Sequence[dict[str, object]]) -> str | None:
    """Return what differs between the results of two processes; None where nothing does."""
    if len(first) != len(other):
        return f"{len(other)} leaves, not {len(first)}"
    for own, theirs in zip(first, other, strict=True):
        for name in own:
            if own[name] != theirs[name]:
                return f"{name} of '{own['leaf']}' is {theirs[name]!r}, not {own[name]!r}"
    return None


def _failure(results: Sequence[Finding]) -> str | None:
    """Explain why a point could not run; None where it did."""
    only = results[0]
    alone = len(results) == 1 and (only.place.leaf, only.ruling.verdict) == ("*", "error")
    return only.ruling.reason if alone else None


def _compared(result: Finding) -> dict[str, object]:
    return {name: getattr(getattr(result, group), name) for group, names in COMPARED.items() for name in names}
