"""Finds contradictions between `samebits prove` and `samebits check`."""

from collections.abc import Iterable, Iterator

from samebits.schema.finding import Finding, where

EQUAL = frozenset({"proved", "bitwise"})
"""Verdicts of a check for equal bits."""


def contradictions(arguments: Iterable[Finding], results: Iterable[Finding]) -> list[str]:
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
    executed: dict[tuple[str, ...], list[Finding]] = {}
    for result in results:
        executed.setdefault(_key(result), []).append(result)
    conflicts = []
    for argument in arguments:
        for result in executed.get(_key(argument), ()):
            conflicts += [f"{'-'.join(_key(argument))}: {why}" for why in _conflicts(argument, result)]
    return conflicts


def _conflicts(proof: Finding, result: Finding) -> Iterator[str]:
    if result.ruling.verdict in ("error", "skipped"):
        return
    executed = f"check says {result.ruling.verdict}" + (
        f" ({result.ruling.evidence or result.ruling.reason})" if not result.ruling.ok else ""
    )
    if proof.ruling.verdict == "proved" and not proof.proof.unkept and result.ruling.verdict not in EQUAL:
        yield f"prove says the same bits for every input; {executed}"
    elif proof.ruling.ok and result.failed:
        yield f"prove reaches {proof.ruling.required}; {executed}, required {result.ruling.required}"
    elif proof.ruling.verdict == "different" and (
        result.ruling.verdict in (*EQUAL, "rounding") or (proof.refutes and result.ruling.ok)
    ):
        yield f"prove says different ({proof.proof.refutation}); {executed}"
    elif proof.ruling.verdict == "proved" and not proof.ruling.ok and result.ruling.ok:
        short = f"does not reach {proof.ruling.required} ({proof.ruling.reason})"
        yield f"prove says the same bits, and {short}; {executed}, which does"
    elif proof.ruling.verdict == "rounding" and result.ruling.verdict == "different" and _is_mathematics(result):
        yield f"prove says the same formulas; {executed}"
    elif (proof.ruling.verdict == "refused") != (result.ruling.verdict == "refused"):
        yield f"prove says {proof.ruling.verdict}; {executed}"


def _is_mathematics(result: Finding) -> bool:
    return str(result.ruling.evidence).startswith(("not the same mathematics", "not rounding"))


def _key(claim: Finding) -> tuple[str, ...]:
    leaf = claim.place.leaf.split(" (replica")[0]
    return (claim.place.pair, *where(claim.place).values(), leaf)
