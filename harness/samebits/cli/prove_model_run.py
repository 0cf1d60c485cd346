"""A run of `samebits prove model`, from its request to its exit code. To be imported after `environment.prepare`."""

from __future__ import annotations

import time
import traceback
from pathlib import Path

from samebits.cli.common import COULD_NOT_TELL, say, write_text
from samebits.cli.found_results import start_backend
from samebits.errors import SamebitsError, one_line
from samebits.programs.catalogue import default_root
from samebits.prove.selftest import check_proofs
from samebits.report.prove_model import StepDocument, encode_steps, exit_code, show_steps
from samebits.report.terminal import console, show_head
from samebits.schema.result import Problem
from samebits.train.load import load_model
from samebits.train.prove_request import ProveRequest, steps
from samebits.train.prove_step import StepLeaf, StepProver


def run_prove_model(asked: ProveRequest, *, root: Path | None, json: Path | None) -> int:
    """Prove the steps that were asked for, show and write what was found.

    Args:
        asked: as asked.
        root: the tree with the model, or None for the current one.
        json: a file to write, known to be writable.

    Returns:
        The exit code.

    Raises:
        RequestError: nothing can be proved as asked.
        CheckerBroken: the proofs do not see planted differences.
    """
    begin, to, tree = time.perf_counter(), console(), root or default_root()
    model = load_model(tree)
    chosen = steps(model, asked)
    seen = start_backend()
    show_head(to, seen.lines()[:1])
    check_proofs()
    prover, results, problems, interrupted = StepProver(model, tree), list[StepLeaf](), list[Problem](), False
    try:
        for config, defect in chosen:
            try:
                results += prover.prove(config, defect)
            except SamebitsError as error:
                problems.append(Problem(pair=config.name, message=str(error), exit_code=error.exit_code))
            except Exception as error:  # a bug of ours; it must not take the other configurations with it
                traceback.print_exc()
                message = f"samebits itself {one_line(error)}; please report it with the lines above"
                problems.append(Problem(pair=config.name, message=message, exit_code=COULD_NOT_TELL))
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted; what was proved so far is shown")
    document = StepDocument(
        environment=seen,
        model=model.name,
        results=tuple(results),
        problems=tuple(problems),
        seconds=round(time.perf_counter() - begin, 3),
        interrupted=interrupted,
    )
    if json is not None:
        write_text(json, encode_steps(document))
    show_steps(to, document)
    return exit_code(document)
