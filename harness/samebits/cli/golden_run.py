"""The work of `golden check` and `golden accept`: goldens are checked, or written. Imports jax."""

from __future__ import annotations

import contextlib

from samebits.cli.common import say
from samebits.cli.golden import GoldenAcceptOptions, GoldenCheckOptions
from samebits.cli.pipeline import CommandRun
from samebits.cli.run_items import journal_head, run_items
from samebits.engine.model_work import GoldenWork, golden_items
from samebits.engine.run_work import EngineSettings
from samebits.errors import SamebitsError
from samebits.programs.catalogue import default_root
from samebits.report.golden import GoldenDocument
from samebits.report.markdown import WORST
from samebits.schema.result import Problem
from samebits.train.cache import persistent_compile_cache
from samebits.train.golden.accept import AcceptedGolden, permit
from samebits.train.golden.check import CheckedGolden
from samebits.train.golden.runs import GoldenSession, accept_goldens, goldens_to_check, selected, without_goldens
from samebits.train.request import load_model


def check_goldens(chosen: GoldenCheckOptions, settings: EngineSettings, run: CommandRun) -> GoldenDocument:
    """Compare today's runs with their goldens; without a name, every run of each matrix that has goldens here.

    Raises:
        RequestError: there is no such matrix or configuration.
    """
    tree = chosen.root or default_root()
    model = load_model(tree)
    selected(model, chosen.matrix, chosen.config)
    here = run.start_backend(None, workers=settings.processes, ray=settings.ray)
    wanted = goldens_to_check(model, here, chosen.matrix, chosen.config)
    items = golden_items(tree, [named.name for named in wanted.runs])
    request = {"matrices": [*chosen.matrix], "configs": [*chosen.config]}
    head = journal_head("golden-check", settings, here, tree, **request)
    results: list[CheckedGolden] = []

    def failed(problem: Problem) -> None:
        results.append(CheckedGolden(name=problem.pair, status="not run", message=problem.message))

    with contextlib.closing(run_items(run, GoldenWork(tree), items, settings, head, failed)) as ran:
        for done in ran:
            results += done.rows
    results = wanted.in_order(results)
    run.page = bool(results)
    if not results:
        why = "the model has no matrix" if settings.shard is None else f"nothing is left for --shard {settings.shard}"
        say(f"no golden was checked: {why}")
    unusable = [result.message for result in results if result.exit_code > 1]
    for message in unusable if chosen.verbose else unusable[:WORST]:
        say(message)
    missing = () if chosen.matrix or chosen.config else without_goldens(model, here)
    have = f"matrix {missing[0]} has" if len(missing) == 1 else f"matrices {', '.join(missing)} have"
    return GoldenDocument(
        command="golden check",
        environment=here,
        results=tuple(results),
        notes=(f"{have} no goldens here: not checked",) if missing else (),
    )


def accept_runs(chosen: GoldenAcceptOptions, run: CommandRun) -> GoldenDocument:
    """Make today's runs the goldens; one that fails is a problem, and the others go on.

    Raises:
        RequestError: goldens may not be accepted now, or there is no such run.
    """
    tree = chosen.root or default_root()
    model = load_model(tree)
    runs = selected(model, chosen.matrix, chosen.config)
    allowed = permit(model, tree, reason=chosen.why(), author_given=chosen.author, steps=chosen.steps)
    here = run.start_backend(None)
    results: list[AcceptedGolden] = []
    with persistent_compile_cache():
        session = GoldenSession(model=model, root=tree, here=here)
        for outcome in accept_goldens(session, runs, allowed, steps=chosen.steps, only_confirm=chosen.confirm):
            if isinstance(outcome, AcceptedGolden):
                results.append(outcome)
                continue
            name, error = outcome
            assert isinstance(error, SamebitsError)
            run.problems.append(Problem(pair=name, message=str(error), exit_code=error.exit_code))
            say(str(error))
    return GoldenDocument(
        command="golden accept", environment=here, results=tuple(results), problems=tuple(run.problems)
    )
