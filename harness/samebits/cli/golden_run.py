"""`golden check` and `golden accept`, from their requests to their exit codes. Imports jax."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from samebits.cli.common import COULD_NOT_TELL, say, write_text
from samebits.cli.found_results import start_backend
from samebits.errors import SamebitsError
from samebits.programs.catalogue import default_root
from samebits.report.golden import GoldenDocument, encode_goldens, show_accepted, show_checked
from samebits.report.terminal import console, show_head
from samebits.schema.result import Problem
from samebits.train.cache import persistent_compile_cache
from samebits.train.golden.accept import AcceptedGolden, permit
from samebits.train.golden.check import CheckedGolden
from samebits.train.golden.record import Surroundings
from samebits.train.golden.runs import accept_goldens, check_goldens, selected
from samebits.train.load import load_model


def run_check(matrices: Sequence[str], configs: Sequence[str], root: Path | None, json: Path | None) -> int:
    """Check goldens.

    Returns:
        The exit code: the gravest news wins, a change over a damaged file, that over what could not run.
    """
    root = root or default_root()
    model = load_model(root)
    selected(model, matrices, configs)
    seen, to = start_backend(), console()
    here = Surroundings.of(seen)
    show_head(to, seen.lines())
    with persistent_compile_cache():
        results = check_goldens(model, matrices, configs, root, here, lambda text: None)
    if json is not None:
        write_text(
            json, encode_goldens(GoldenDocument(command="golden check", environment=here, results=tuple(results)))
        )
    if not results:
        say("no golden was checked: the model has no matrix")
        return COULD_NOT_TELL
    for one in results:
        if one.exit_code > 1:
            say(one.message)
    show_checked(to, results)
    return gravest(results)


def run_accept(
    matrices: Sequence[str],
    configs: Sequence[str],
    root: Path | None,
    json: Path | None,
    *,
    reason: str,
    author: str | None,
    steps: int,
    only_confirm: bool,
) -> int:
    """Accept goldens.

    Returns:
        The exit code: 0 when all are written, else that of the gravest refusal.
    """
    root = root or default_root()
    model = load_model(root)
    asked = selected(model, matrices, configs)
    allowed = permit(model, root, reason=reason, author_given=author, steps=steps)
    seen, to = start_backend(), console()
    here = Surroundings.of(seen)
    show_head(to, seen.lines())
    done: list[AcceptedGolden] = []
    problems: list[Problem] = []
    with persistent_compile_cache():
        for one in accept_goldens(
            model, asked, root, steps, here, allowed, lambda text: None, only_confirm=only_confirm
        ):
            if isinstance(one, AcceptedGolden):
                done.append(one)
                continue
            name, error = one
            assert isinstance(error, SamebitsError)
            problems.append(Problem(pair=name, message=str(error), exit_code=error.exit_code))
            say(str(error))
    if done:
        show_accepted(to, done)
    if json is not None:
        document = GoldenDocument(
            command="golden accept", environment=here, results=tuple(done), problems=tuple(problems)
        )
        write_text(json, encode_goldens(document))
    codes = {problem.exit_code for problem in problems}
    return next((code for code in (1, 2, 3) if code in codes), 0)


def gravest(results: Sequence[CheckedGolden]) -> int:
    """The exit code of several goldens."""
    codes = {one.exit_code for one in results}
    return next((code for code in (1, 2, 3) if code in codes), 0)
