"""Compares what the declarations promise with the results: scopes without effect, contracts that can be tightened.

Spoken only of whole sweeps: where the request filters, or the run was stopped, absence says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from samebits.check.judge import SAME_PROGRAM
from samebits.check.line_evidence import point_interpreter
from samebits.programs.plan import Plan, Request, plan
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding, point_of, where
from samebits.schema.pair import Pair
from samebits.schema.result import Problem

ANY_DEVICES = 1 << 30
"""More devices than any mesh needs, to ask for the points that would run on a larger machine."""

_RAN = ("proved", "bitwise", "rounding", "different", "unstable")


class DeclarationAudit(NamedTuple):
    """What is said of one pair's declaration.

    Args:
        notes: contracts that can be tightened or cover nothing.
        problems: contracts that no machine-independent reason supports, and exemptions that cover nothing.
        only_seen: how many contracts were exceeded by every result, but by bits that another machine may not give.
    """

    notes: list[str]
    problems: list[Problem]
    only_seen: int = 0


def judge_declaration(pair: Pair, ran: Plan, results: Sequence[Finding]) -> DeclarationAudit:
    """Judge one pair's declaration after a whole sweep, in notes and problems.

    Args:
        ran: its plan; nothing is said unless it is `whole`.

    Raises:
        DeclarationError: the declaration cannot say what it would run on a machine that fits all of its meshes.
    """
    problems = machine_dependent(pair, results)
    if not ran.whole:
        return DeclarationAudit([], problems)
    reach = list(_reach(pair, results))
    notes, only_seen = [], 0
    # A contract that another one overrides on this platform alone still counts on the others.
    elsewhere = replace(pair, contracts=tuple(contract for contract in pair.contracts if contract.platform == "*"))
    for contract in pair.contracts:
        if not any(_may_govern(there, contract, at, leaf) for at, leaf in reach for there in (pair, elsewhere)):
            notes.append(f"{pair.name}: the contract ({contract}) covers no result; remove it")
            continue
        exceeding = _exceeding(pair, contract, results)
        if exceeding and _everywhere(pair, exceeding):
            notes.append(_tighter(pair, contract, ran, exceeding))
        elif exceeding:
            only_seen += 1
    for exemption in pair.exemptions:
        if not any(exemption.covers(**at, leaf=leaf) for at, leaf in reach):
            message = f"pair '{pair.name}': exemption ({exemption}) matches no result; remove it"
            problems.append(Problem(pair=pair.name, message=message))
    return DeclarationAudit(notes, problems, only_seen)


def only_seen_note(contracts: int) -> list[str]:
    """Return what is said once of all contracts that are exceeded here and must not be tightened for it."""
    if not contracts:
        return []
    covers = "1 contract covers" if contracts == 1 else f"{contracts} contracts cover"
    return [
        f"{covers} only results with equal bits here, which another machine may have otherwise; "
        "`samebits accept --verdicts` records them for this environment"
    ]


def proof_notes(results: Sequence[Finding], *, all_sizes: bool) -> list[str]:
    """Say once what holds of all results that rest on a proof alone, and of those for all sizes.

    Args:
        all_sizes: whether points were left out since they are proved for all sizes.
    """
    proved = [result for result in results if result.ruling.verdict == "proved"]
    alone = sum(result.proof.alone for result in proved)
    notes = []
    if alone:
        others = (
            "at one point at least of each variant and direction, and at every case, dtype, mesh and mode of what is "
            "not proved for all sizes"
            if all_sizes
            else "at other points, which have every case, dtype, mesh and mode of each variant and direction"
        )
        notes.append(
            f"{alone} of {len(proved)} proved results were not executed: the compiler was checked {others}; --full "
            "executes all"
        )
    everywhere = [result for result in proved if result.proof.sizes == "all"]
    if everywhere:
        first = everywhere[0]
        of_pairs = ", ".join(dict.fromkeys(result.place.pair for result in everywhere))
        notes.append(
            f"{len(everywhere)} of {len(proved)} proved results hold for every size, not only for those of their cases "
            f"({of_pairs}); `samebits prove {first.place.pair} --all-sizes` says for which"
        )
    return notes


def machine_dependent(pair: Pair, results: Sequence[Finding]) -> list[Problem]:
    """Return contracts that require `bitwise` of results whose bits depend on the machine.

    A contract is a promise on every machine, and none at hand shows every processor: so it may require bits only where
    they are proved, where both sides are the same program, or where no machine can have others.
    """
    failures_by_contract: dict[str, list[Finding]] = defaultdict(list)
    for result in results:
        if (
            result.ruling.required == "bitwise"
            and result.ruling.verdict == "bitwise"
            and result.ruling.machine is not None
        ):
            failures_by_contract[str(pair.contract(**where(result.place), leaf=leaf_of(result)))].append(result)
    messages = []
    for contract, wrong in failures_by_contract.items():
        first, at = wrong[0], wrong[0].place
        more = f" and of {len(wrong) - 1} more" if len(wrong) > 1 else ""
        messages.append(
            f"pair '{pair.name}': the contract ({contract}) requires 'bitwise' of '{at.leaf}' ({at.variant}, "
            f"case {at.case}, {at.dtype}, {at.mesh}, {at.direction}){more}, equal here, which another machine may have "
            f"otherwise: {first.ruling.machine}; lower it to 'rounding' with this reason (`samebits accept --verdicts` "
            "keeps what was seen here), or change the sides so that they can be proved"
        )
    return [Problem(pair=pair.name, message=message) for message in messages]


def _reach(pair: Pair, results: Sequence[Finding]) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yield every leaf of the whole product on a machine of any size; None where no such point gave its leaves here.

    A selection runs every case in every dtype, and the leaves of an output do not depend on the mesh: what ran
    has the leaves of what did not.
    """
    leaves: dict[tuple[str, ...], dict[str, None]] = defaultdict(dict)
    for result in results:
        if result.ruling.verdict in _RAN:
            leaves[result.place.variant, result.place.case, result.place.dtype, result.place.direction][
                leaf_of(result)
            ] = None
    for point in plan(pair, Request(full=True), ANY_DEVICES).points:
        if pair.case(point.case).refusal(point.variant) is None:
            known = leaves.get((point.variant, point.case, point.dtype, point.direction))
            for leaf in known or (None,):
                yield where(point), leaf


def _may_govern(pair: Pair, contract: Contract, at: dict[str, Any], leaf: str | None) -> bool:
    """Return whether a result at this place would be held against this very contract, the last that covers it."""
    return contract.covers(**at, leaf=leaf) and (leaf is None or pair.contract(**at, leaf=leaf) is contract)


def _exceeding(pair: Pair, contract: Contract, results: Sequence[Finding]) -> list[Finding]:
    """Return the results under a contract where all of them came out above it; else none."""
    governed = [
        result
        for result in results
        if result.ruling.verdict in _RAN and pair.contract(**where(result.place), leaf=leaf_of(result)) is contract
    ]
    above = {"rounding": ("proved", "bitwise"), "bitwise": ("proved",)}.get(contract.lowest, ())
    # That both sides are one program here says nothing of other backends; the contract is for all.
    governed = [result for result in governed if result.ruling.evidence != SAME_PROGRAM]
    return [] if any(result.ruling.exempt or result.ruling.verdict not in above for result in governed) else governed


def _everywhere(pair: Pair, results: Sequence[Finding]) -> bool:
    """Return whether all have equal bits for a reason that holds on every machine and for other values too.

    That is a proof by labels, or exact arithmetic, and what the audit of contracts would ask of them, were their
    contract tightened. Where the sides differ at ties, or where other values could take other branches, a contract that
    promises bits would promise what is not so. That numbers stay in range is left: it is assumed of all that computes.
    """
    taken = [assumption for result in results for assumption in result.proof.assumptions]
    if any(each.counterexample is not None or not (each.inherent or each.word == "range") for each in taken):
        return False
    unproved = [result for result in results if result.ruling.verdict != "proved"]
    if any(result.ruling.machine is not None for result in unproved):
        return False
    if not unproved:
        return True
    with point_interpreter(pair) as points:
        return all(points.everywhere(point_of(result.place), leaf_of(result)).holds for result in unproved)


def _tighter(pair: Pair, contract: Contract, ran: Plan, results: Sequence[Finding]) -> str:
    """Return the advice to tighten a contract that every result exceeds on every machine."""
    reached = "proved" if all(result.ruling.verdict == "proved" for result in results) else "bitwise"
    advice = f"it can be tightened to '{reached}'"
    if ran.selected != ran.product:
        advice = f"if --full agrees, {advice}"
    return (
        f"{pair.name}: the contract ({contract}) accepts {contract.lowest}, and all {len(results)} results that it "
        f"covers are {reached} or better, on every machine; {advice}"
    )


def leaf_of(result: Finding) -> str:
    """Return the leaf of a result as a scope names it: a replica of a leaf is covered as the leaf is."""
    return result.place.leaf.split(" (replica")[0]
