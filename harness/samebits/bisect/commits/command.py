"""A check as a process of its own, and what its end says of the point it ran on: passed, failed and how, or neither."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from samebits.bisect.read_documents import Observation
from samebits.bisect.search.judgement import Judgement, ambiguous, failed, passed, untestable
from samebits.errors import RequestError
from samebits.host.subprocesses import ProcessResult
from samebits.programs.catalogue import suggest

COMMANDS = ("check", "prove", "train", "compile", "golden")
"""What a check may be: commands that take a tree and write a document."""
OWN = ("--root", "--json", "--markdown", "--help", "-h", "--list", "--against")
"""Options that a check may not give: the first three are the bisection's own, the others check nothing."""
SKIP = 125
NO_COMMAND = {126: "cannot be executed", 127: "not found"}


def require_check(words: Sequence[str]) -> tuple[str, ...]:
    """A samebits command as it is run on a point, without a leading `samebits`.

    Raises:
        RequestError: it is empty, no command that checks a tree, or has options that are the bisection's own.
    """
    words = tuple(words[1:] if words[:1] == ("samebits",) else words)
    if not words:
        raise RequestError("give a check after `--`: a samebits command such as `-- check PAIR`")
    if words[0] not in COMMANDS:
        raise RequestError(
            f"'{words[0]}' is no check; {suggest(words[0], list(COMMANDS))} (any other command runs with --whole)"
        )
    if words[0] == "golden" and words[1:2] != ("check",):
        raise RequestError("of goldens only `golden check` is a check; it goes on with its options")
    own = next((word for word in words if word.partition("=")[0] in OWN), None)
    if own is not None:
        raise RequestError(f"the check gives {own}; leave it out, the tree and the reports are the bisection's own")
    return words


def samebits_command(words: Sequence[str], tree: Path, document: Path, python: str) -> list[str]:
    """A check with this harness, on another tree. `-P`: what lies in the current folder is not imported instead."""
    return [python, "-P", "-m", "samebits", *words, "--root", str(tree), "--json", str(document)]


def judge_command(ended: ProcessResult, seen: Sequence[Observation] | None, wanted: str | None) -> Judgement:
    """What the end of a samebits command says.

    Args:
        ended: how it ended.
        seen: what its document says, if there is one.
        wanted: the signature of the failure that is searched for; where it is among several, it counts.
    """
    found = seen or ()
    said = _message(ended)
    if ended.code == 0:
        there = next((one for one in found if wanted is not None and wanted.startswith(f"{one.place}: ")), None)
        return passed("", **({"verdict": there.verdict, **there.numbers} if there else {}))
    if ended.code == 1:
        wrong = [one for one in found if not one.ok and one.verdict not in ("error", "unproved")]
        if not wrong:
            return failed("exit code 1", said or "exit code 1")
        if all(one.verdict == "unstable" for one in wrong):
            return ambiguous(f"{wrong[0].signature}: {wrong[0].reason}")
        one = next((one for one in wrong if one.signature == wanted), wrong[0])
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return failed(one.signature, f"{one.signature}{more}", **{"verdict": one.verdict, **one.numbers})
    if ended.code == 2:
        return untestable(said or "the request or a declaration is wrong")
    if ended.code == 3:
        wrong = [one for one in found if not one.ok]
        if wrong and all(one.verdict == "unproved" for one in wrong):
            return ambiguous(wrong[0].reason or "proof alone does not tell")
        reason = next((one.reason for one in wrong if one.verdict == "error"), "")
        return untestable(reason or said or "nothing could be told")
    return judge_process(ended)


def _message(ended: ProcessResult) -> str:
    """The line that samebits itself said."""
    ours = [line.removeprefix("samebits: ") for line in ended.err.splitlines() if line.startswith("samebits: ")]
    return " ".join(ours[-1].split())[:300] if ours else ended.last


def judge_process(ended: ProcessResult) -> Judgement:
    """What the end of any command says, as `git bisect run` reads it; one that cannot be executed tells nothing."""
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
