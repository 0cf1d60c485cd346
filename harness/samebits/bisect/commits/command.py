"""The command line of a check, and the judgement of its exit code and document: passed, failed, or neither."""

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
        ended: its exit code and output.
        seen: the results in its document, if it wrote one.
        wanted: the signature of the failure that is searched for; it is preferred among several failures.
    """
    known = seen or ()
    message = last_message(ended)
    if ended.code == 0:
        there = next(
            (
                observation
                for observation in known
                if wanted is not None and wanted.startswith(f"{observation.place}: ")
            ),
            None,
        )
        return passed("", **({"verdict": there.verdict, **there.numbers} if there else {}))
    if ended.code == 1:
        wrong = [
            observation
            for observation in known
            if not observation.ok and observation.verdict not in ("error", "unproved")
        ]
        if not wrong:
            return failed("exit code 1", message or "exit code 1")
        if all(observation.verdict == "unstable" for observation in wrong):
            return ambiguous(f"{wrong[0].signature}: {wrong[0].reason}")
        chosen = next((observation for observation in wrong if observation.signature == wanted), wrong[0])
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return failed(chosen.signature, f"{chosen.signature}{more}", **{"verdict": chosen.verdict, **chosen.numbers})
    if ended.code == 2:
        return untestable(message or "the request or a declaration is wrong")
    if ended.code == 3:
        wrong = [observation for observation in known if not observation.ok]
        if wrong and all(observation.verdict == "unproved" for observation in wrong):
            return ambiguous(wrong[0].reason or "proof alone does not decide")
        reason = next((observation.reason for observation in wrong if observation.verdict == "error"), "")
        return untestable(reason or message or "nothing could be decided")
    return judge_process(ended)


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
