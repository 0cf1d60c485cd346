"""A run of `samebits prove`, from its request to its exit code. To be imported after `environment.prepare`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from samebits.check.contract_audit import ANY_DEVICES
from samebits.cli.common import COULD_NOT_TELL, say, write_text
from samebits.cli.found_results import Findings, load_pairs, start_backend
from samebits.cli.select_pairs import plans
from samebits.engine.prove_points import prove_points
from samebits.errors import SamebitsError, one_line
from samebits.programs.plan import Request
from samebits.report.prove import ProofDocument, encode_proofs, show_end, show_pair
from samebits.report.terminal import console, show_head
from samebits.schema.proof import ProofResult, exit_code
from samebits.schema.result import Problem


def run_prove(
    asked: Sequence[str],
    request: Request,
    *,
    root: Path | None,
    json: Path | None,
    platform: str | None = None,
    assuming: bool = True,
) -> int:
    """Prove a request, show each pair as it is done, write it.

    Args:
        asked: names of pairs, or `module:PAIR`; empty means the whole tree.
        request: the filters; meshes may be of any size.
        root: the tree, or None for the current one.
        json: a file to write, known to be writable.
        platform: the target; None is the platform that jax chooses here.
        assuming: whether a proof may rest on assumptions beyond shapes and rounding.

    Returns:
        The exit code.

    Raises:
        RequestError: nothing can be proved as asked.
    """
    begin, found, to = time.perf_counter(), Findings(), console()
    loaded, problems, left_out = plans(load_pairs(asked, root, found), request, ANY_DEVICES)
    for problem in problems:
        found.problem(problem)
    seen = start_backend()
    if loaded:
        show_head(to, seen.lines()[:1])
    arguments: list[ProofResult] = []
    interrupted = False
    try:
        for item in loaded:
            own: list[ProofResult] = []
            try:
                for argument in prove_points(item.pair, item.locator, item.plan, platform, assuming=assuming):
                    own.append(argument)
            except SamebitsError as error:
                found.problem(Problem(pair=item.locator.name, message=str(error), exit_code=error.exit_code))
            except Exception as error:  # a bug of ours; it must not take the other pairs with it
                traceback.print_exc()
                message = f"samebits itself {one_line(error)}; please report it with the lines above"
                found.problem(Problem(pair=item.locator.name, message=message, exit_code=COULD_NOT_TELL))
            arguments += own
            show_pair(to, item.pair.name, own)
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted; what was proved so far is shown")
    document = ProofDocument(
        environment=seen,
        results=tuple(arguments),
        problems=tuple(found.problems),
        notes=tuple(left_out),
        seconds=round(time.perf_counter() - begin, 3),
        interrupted=interrupted,
    )
    if json is not None:
        write_text(json, encode_proofs(document))
    if loaded:
        show_end(to, document)
    worst = max((problem.exit_code for problem in found.problems), key=lambda code: code == 2, default=0)
    return exit_code(arguments, COULD_NOT_TELL if interrupted else worst)
