"""What the declarations promised, held against what was seen: scopes without effect, contracts that can be tightened.

Spoken only of whole sweeps: where the request filters, or the run was stopped, absence says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from harness.contract import Contract
from harness.judgement import SAME_PROGRAM, where
from harness.pair import Pair
from harness.point import Point
from harness.result import Problem, Result
from harness.selection import Plan, Request, plan

ANY_DEVICES = 1 << 30
"""More devices than any mesh needs, to ask for the points that would run on a larger machine."""

_RAN = ("proved", "bitwise", "rounding", "different", "unstable")


def judge_declaration(pair: Pair, ran: Plan, results: Sequence[Result]) -> tuple[list[str], list[Problem]]:
    """Notes and problems of one pair's declaration after a whole sweep.

    Args:
        pair: the declaration.
        ran: its plan; nothing is said unless it is `whole`.
        results: all results of this pair.

    Returns:
        Notes (a contract that can be tightened or covers nothing) and problems (an exemption that covers nothing).

    Raises:
        DeclarationError: the declaration cannot say what it would run on a machine that fits all of its meshes.
    """
    problems = machine_dependent(pair, results)
    if not ran.whole:
        return [], problems
    reach = list(_reach(pair, results))
    notes = []
    for contract in pair.contracts:
        if not any(_may_govern(pair, contract, at, leaf) for at, leaf in reach):
            notes.append(f"{pair.name}: the contract ({contract}) covers no result; remove it")
        else:
            notes += _tighter(pair, contract, ran, results)
    for exemption in pair.exemptions:
        if not any(exemption.covers(**at, leaf=leaf) for at, leaf in reach):
            message = f"pair '{pair.name}': exemption ({exemption}) matches no result; remove it"
            problems.append(Problem(pair=pair.name, message=message))
    return notes, problems


def machine_dependent(pair: Pair, results: Sequence[Result]) -> list[Problem]:
    """Contracts that require `bitwise` of results whose bits depend on the machine, although they are equal here.

    A contract is a promise on every machine, and none at hand shows every processor: so it may require bits only where
    they are proved, where both sides are the same program, or where no machine can have others.
    """
    found: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.required == "bitwise" and result.verdict == "bitwise" and result.machine is not None:
            found[str(pair.contract(**_place(result), leaf=leaf_of(result)))].append(result)
    messages = []
    for contract, wrong in found.items():
        first = wrong[0]
        more = f" and of {len(wrong) - 1} more" if len(wrong) > 1 else ""
        messages.append(
            f"pair '{pair.name}': the contract ({contract}) requires 'bitwise' of '{first.leaf}' ({first.variant}, "
            f"case {first.case}, {first.dtype}, {first.mesh}, {first.direction}){more}, equal here, which another "
            f"machine may have otherwise: {first.machine}; lower it to 'rounding' with this reason (`samebits accept "
            "--verdicts` keeps what was seen here), or change the sides so that they can be proved"
        )
    return [Problem(pair=pair.name, message=message) for message in messages]


def _reach(pair: Pair, results: Sequence[Result]) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Every leaf of the whole product on a machine of any size; None where no such point gave its leaves here.

    A selection runs every case in every dtype, and the leaves of an output do not depend on the mesh: what ran
    tells the leaves of what did not.
    """
    leaves: dict[tuple[str, ...], dict[str, None]] = defaultdict(dict)
    for result in results:
        if result.verdict in _RAN:
            leaves[result.variant, result.case, result.dtype, result.direction][leaf_of(result)] = None
    for point in plan(pair, Request(full=True), ANY_DEVICES).points:
        if pair.case(point.case).refusal(point.variant) is None:
            known = leaves.get((point.variant, point.case, point.dtype, point.direction))
            for leaf in known or (None,):
                yield where(point), leaf


def _may_govern(pair: Pair, contract: Contract, at: dict[str, Any], leaf: str | None) -> bool:
    """Whether a result at this place would be held against this very contract, the last that covers it."""
    return contract.covers(**at, leaf=leaf) and (leaf is None or pair.contract(**at, leaf=leaf) is contract)


def _tighter(pair: Pair, contract: Contract, ran: Plan, results: Sequence[Result]) -> list[str]:
    """A note where every result came out above the contract."""
    governed = [
        result
        for result in results
        if result.verdict in _RAN and pair.contract(**_place(result), leaf=leaf_of(result)) is contract
    ]
    above = {"rounding": ("proved", "bitwise"), "bitwise": ("proved",)}.get(contract.lowest, ())
    # That both sides are one program here says nothing of other backends; the contract is for all.
    governed = [result for result in governed if result.evidence != SAME_PROGRAM]
    if not governed or any(result.exempt or result.verdict not in above for result in governed):
        return []
    advice = "it can be tightened" if ran.selected == ran.product else "if --full agrees, it can be tightened"
    return [
        f"{pair.name}: the contract ({contract}) accepts {contract.lowest}, and all {len(governed)} results that it "
        f"covers are {' or '.join(above)}; {advice}"
    ]


def leaf_of(result: Result) -> str:
    """The leaf of a result as a scope names it: a replica of a leaf is covered as the leaf is."""
    return result.leaf.split(" (replica")[0]


def _place(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in Point.__slots__}
