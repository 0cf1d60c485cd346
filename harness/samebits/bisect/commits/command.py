"""The command line of a check, and the judgement of its exit code and document: passed, failed, or neither."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samebits.bisect.search.trials import Judgement, ambiguous, failed, passed, untestable
from samebits.errors import RequestError
from samebits.host.subprocesses import ProcessResult
from samebits.programs.catalogue import suggest
from samebits.schema.contract import leaf_words
from samebits.schema.finding import Place
from samebits.schema.older_rows import upgraded

COMMANDS = ("check", "prove", "train", "compile", "golden")
"""Commands that can be a check: they take a tree and write a document."""
OWN = ("--root", "--json", "--markdown", "--help", "-h", "--list", "--against")
"""Options that a check must not contain: the bisection sets the first three itself, and with the others nothing is
checked."""
SKIP = 125
NO_COMMAND = {126: "cannot be executed", 127: "not found"}


def require_check(words: Sequence[str]) -> tuple[str, ...]:
    """Return a samebits command as it is run on a point, without a leading `samebits`.

    Raises:
        RequestError: it is empty, does not check a tree, or contains an option of `OWN`.
    """
    words = tuple(words[1:] if words[:1] == ("samebits",) else words)
    if not words:
        raise RequestError("give a check after `--`: a samebits command such as `-- check PAIR`")
    if words[0] not in COMMANDS:
        raise RequestError(
            f"'{words[0]}' is not a check; {suggest(words[0], list(COMMANDS))} (any other command runs with --whole)"
        )
    if words[0] == "golden" and words[1:2] != ("check",):
        raise RequestError("`golden` is a check only as `golden check`, followed by its options")
    own = next((word for word in words if word.partition("=")[0] in OWN), None)
    if own is not None:
        raise RequestError(
            f"the check contains {own}; leave it out, the bisection sets the tree and the reports itself"
        )
    return words


def samebits_command(words: Sequence[str], tree: Path, document: Path, python: str) -> list[str]:
    """Return the command line that checks another tree with this samebits; `-P` keeps the current folder out."""
    return [python, "-P", "-m", "samebits", *words, "--root", str(tree), "--json", str(document)]


def judge_command(ended: ProcessResult, seen: Sequence[Observation] | None, wanted: str | None) -> Judgement:
    """Judge a finished samebits command.

    Args:
        wanted: the signature of the failure that is searched for; it is preferred among several failures.
    """
    known = seen or ()
    message = last_message(ended)
    if ended.code == 0:
        there = next((each for each in known if (wanted or "").startswith(f"{each.place}: ")), None)
        return passed("", **({"verdict": there.verdict, **there.numbers} if there else {}))
    if ended.code == 1:
        wrong = [each for each in known if not each.ok and each.verdict not in ("error", "unproved")]
        if not wrong:
            return failed("exit code 1", message or "exit code 1")
        if all(each.verdict == "unstable" for each in wrong):
            return ambiguous(f"{wrong[0].signature}: {wrong[0].reason}")
        chosen = next((each for each in wrong if each.signature == wanted), wrong[0])
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return failed(chosen.signature, f"{chosen.signature}{more}", **{"verdict": chosen.verdict, **chosen.numbers})
    if ended.code == 2:
        return untestable(message or "the request or a declaration is wrong")
    if ended.code == 3:
        wrong = [each for each in known if not each.ok]
        if wrong and all(each.verdict == "unproved" for each in wrong):
            return ambiguous(wrong[0].reason or "proof alone does not decide")
        reason = next((each.reason for each in wrong if each.verdict == "error"), "")
        return untestable(reason or message or "nothing could be decided")
    return judge_process(ended)


def judge_written(ended: ProcessResult, document: Path, wanted: str | None, *folders: Path) -> Judgement:
    """Judge a samebits command by the document that it wrote, without the names of temporary folders."""
    text = document.read_text(encoding="utf-8") if document.is_file() else ""
    for name in (f"{folder}/" for folder in folders):  # they change from run to run
        ended = ProcessResult(code=ended.code, out=ended.out.replace(name, ""), err=ended.err.replace(name, ""))
        text = text.replace(name, "")
    return judge_command(ended, read_observations(text) if text else None, wanted)


def last_message(ended: ProcessResult) -> str:
    """Find the error line of samebits, or the last line of output."""
    ours = [line.removeprefix("samebits: ") for line in ended.err.splitlines() if line.startswith("samebits: ")]
    return " ".join(ours[-1].split())[:300] if ours else ended.last


def judge_process(ended: ProcessResult) -> Judgement:
    """Judge any finished command as `git bisect run` does; one that cannot be executed is untestable."""
    code = ended.code
    if code == 0:
        return passed()
    if code < 0 or code > 128:
        return untestable(f"ended by {_signal(-code if code < 0 else code - 128)}")
    if code == SKIP or code in NO_COMMAND:
        return untestable(
            f"exit code {code}, {NO_COMMAND.get(code, 'skip')}" + (f": {ended.last}" if ended.last else "")
        )
    return failed(f"exit code {code}", f"exit code {code}" + (f": {ended.last}" if ended.last else ""))


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit code {number + 128}"


# --- the documents of samebits commands ---------------------------------------------------------------------------


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
