"""Finds contradictions between `samebits prove` and `samebits check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from samebits.schema.point import Point
from samebits.schema.proof import ProofResult
from samebits.schema.result import Result

EQUAL = frozenset({"proved", "bitwise"})
"""Verdicts of a check for equal bits."""


def contradictions(arguments: Iterable[ProofResult], results: Iterable[Result]) -> list[str]:
    """Every leaf for which a proof and an execution cannot both be right, in words.

    - a proof for every input, and different bits on an input in the proof's domain, or bits that do not repeat;
    - a proof that satisfies the contract, and a result that fails it;
    - a refutation, and equal bits or equal formulas; or a refutation without exemption, and a result that holds;
    - a proof for every input that does not satisfy the contract, and a result that does;
    - equal formulas, and a result that is not the same mathematics;
    - an expected error in only one of the two.

    Results without an answer (`error`, `skipped`) contradict nothing, nor does a leaf that only one command covers.

    Args:
        arguments: of `prove`.
        results: of `check`.
    """
    executed: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        executed.setdefault(_key(result), []).append(result)
    conflicts = []
    for argument in arguments:
        for result in executed.get(_key(argument), ()):
            conflicts += [f"{'-'.join(_key(argument))}: {why}" for why in _conflicts(argument, result)]
    return conflicts


def _conflicts(proof: ProofResult, result: Result) -> Iterator[str]:
    if result.verdict in ("error", "skipped"):
        return
    executed = f"check says {result.verdict}" + (f" ({result.evidence or result.reason})" if not result.ok else "")
    if proof.verdict == "proved" and not proof.unkept and result.verdict not in EQUAL:
        yield f"prove says the same bits for every input; {executed}"
    elif proof.ok and result.failed:
        yield f"prove reaches {proof.required}; {executed}, required {result.required}"
    elif proof.verdict == "different" and (result.verdict in (*EQUAL, "rounding") or (proof.refutes and result.ok)):
        yield f"prove says different ({proof.witness}); {executed}"
    elif proof.verdict == "proved" and not proof.ok and result.ok:
        yield f"prove says the same bits, and does not reach {proof.required} ({proof.reason}); {executed}, which does"
    elif proof.verdict == "rounding" and result.verdict == "different" and _is_mathematics(result):
        yield f"prove says the same formulas; {executed}"
    elif (proof.verdict == "refused") != (result.verdict == "refused"):
        yield f"prove says {proof.verdict}; {executed}"


def _is_mathematics(result: Result) -> bool:
    return str(result.evidence).startswith(("not the same mathematics", "not rounding"))


def _key(claim: ProofResult | Result) -> tuple[str, ...]:
    leaf = claim.leaf.split(" (replica")[0]
    return (claim.pair, *(str(getattr(claim, name)) for name in Point.__slots__), leaf)
