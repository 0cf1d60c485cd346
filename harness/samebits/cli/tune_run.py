"""A run of `samebits compile --tune`, from its request to its exit code. To be imported after `environment.prepare`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from samebits.cli.common import say, write_text
from samebits.cli.compile_run import told, want_cpus
from samebits.cli.found_results import Findings, load_pairs, start_backend
from samebits.compile.cache import CompileCache
from samebits.compile.pair import Compiler
from samebits.compile.request import CompileRequest, check_request
from samebits.compile.tune import tune_pair
from samebits.errors import RequestError
from samebits.host.libtpu import mismatch
from samebits.report.terminal import console, show_head
from samebits.report.tune import (
    TuneDocument,
    encode_tuned,
    exit_code_of_tuning,
    show_tuned,
    show_tuned_end,
    summarise_tuned,
    tuned_markdown,
)
from samebits.schema.tuning import TuningBest, TuningTrial


def run_tune(
    asked: Sequence[str],
    ask: CompileRequest,
    *,
    root: Path | None,
    cached: bool,
    json: Path | None,
    markdown_to: Path | None,
) -> int:
    """Try the declared values of a request's pairs, show what was found, write it.

    Args:
        asked: names of pairs, or `module:PAIR`; empty means those of the tree that declare a sweep.
        ask: targets and filters; no options.
        root: the tree, or None for the current one.
        cached: whether programs are kept and looked up on disk.
        json, markdown_to: files to write, known to be writable.

    Returns:
        The exit code.

    Raises:
        RequestError: nothing can be tried as asked.
    """
    begin, found, to = time.perf_counter(), Findings(), console()
    declared = load_pairs(asked, root, found)
    pairs = [(locator, pair) for locator, pair in declared if any(real.tune for real in pair.compiled)]
    without = [pair.name for _, pair in declared if not any(real.tune for real in pair.compiled)]
    if without and (asked or not pairs):
        raise RequestError(
            f"pair '{without[0]}' declares no values to tune; write tune={{'ARGUMENT': (VALUE, VALUE)}} and "
            "tune_sizes in a RealSize of its declaration"
        )
    if pairs:
        check_request([pair for _, pair in pairs], ask)
    want_cpus([] if ask.targets else [pair for _, pair in pairs])
    seen = start_backend()
    show_head(to, seen.lines()[:1])
    trials: list[TuningTrial] = []
    best: list[TuningBest] = []
    interrupted = False
    compiler = Compiler(CompileCache() if cached else None)
    waiting = to.status("compiling", spinner="dots") if to.is_terminal else contextlib.nullcontext()
    try:
        with waiting:
            for locator, pair in pairs:
                for one in told(tune_pair(pair, locator, ask, compiler), locator, found):
                    trials += one.trials
                    best += one.best
                    show_tuned(to, one.trials, one.best)
    except KeyboardInterrupt:
        interrupted = True
        say("interrupted; what was tried so far is shown")
    finally:
        compiler.close()
    wrong = mismatch() if any(not one.target.startswith("cpu") for one in trials) else None
    document = TuneDocument(
        environment=seen,
        trials=tuple(trials),
        best=tuple(best),
        problems=tuple(found.problems),
        notes=(wrong,) if wrong else (),
        summary=summarise_tuned(trials, time.perf_counter() - begin, interrupted),
    )
    if json is not None:
        write_text(json, encode_tuned(document))
    if markdown_to is not None:
        write_text(markdown_to, tuned_markdown(document))
    if trials:
        show_tuned_end(to, document)
    return exit_code_of_tuning(document)
