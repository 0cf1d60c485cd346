"""A run of `samebits train`, from its request to its exit code. To be imported after `environment.prepare`."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

from samebits.cli.common import write_text
from samebits.cli.found_results import start_backend
from samebits.report.tables import line
from samebits.report.terminal import console, show_head
from samebits.report.train import TrainDocument, TrainSummary, encode_trained, envelope_record, exit_code
from samebits.report.train_markdown import trained_markdown
from samebits.report.train_terminal import show_trained
from samebits.schema.model import Matrix, Model
from samebits.train.cache import persistent_compile_cache
from samebits.train.compare import ORDER
from samebits.train.load import load_model
from samebits.train.request import TrainRequest


def run_train(
    model: Model,
    matrix: Matrix,
    request: TrainRequest,
    *,
    against: str | None,
    detection: bool,
    cached: bool,
    json: Path | None,
    markdown: Path | None,
) -> int:
    """Train a matrix, show it, write it.

    Args:
        model, matrix: what runs.
        request: as asked.
        against: a git revision to compare with.
        detection: whether the model's defects are planted.
        cached: whether compiled steps are kept on disk.
        json, markdown: files to write, known to be writable.

    Returns:
        The exit code.

    Raises:
        SamebitsError: the first run cannot be made.
    """
    from samebits.train.matrix import run_matrix

    to = console()
    seen = start_backend()
    show_head(to, seen.lines()[:2])
    waiting = to.status("training", spinner="dots") if to.is_terminal else contextlib.nullcontext()
    with waiting as status, persistent_compile_cache() if cached else contextlib.nullcontext():
        found = run_matrix(
            model, matrix, request.tree, request.steps, lambda text: status.update(text) if status else None
        )
        before = None
        if against is not None:
            from samebits.train.other_revision import run_against

            before = run_against(found, request, against, lambda text: status.update(text) if status else None)
        comparisons = [*(before.comparisons if before else ()), *found.comparisons]
        seen_by = None
        if detection:
            from samebits.train.detection import detect

            seen_by = detect(
                model, found, request.tree, request.steps, lambda text: status.update(text) if status else None
            )
    verdicts = Counter(one.verdict for one in comparisons)
    document = TrainDocument(
        environment=seen,
        matrix=matrix.name,
        about=matrix.about,
        columns=matrix.columns,
        results=tuple(recorded.run for recorded in found.runs.values()),
        against=None if before is None else f"{before.revision} ({before.commit})",
        comparisons=tuple(comparisons),
        clusters=tuple(tuple(names) for names in found.clusters),
        envelope=envelope_record(found.envelope),
        problems=tuple(found.problems),
        notes=tuple(before.notes) if before else (),
        twins=matrix.twins,
        detection=seen_by,
        summary=TrainSummary(
            runs=len(found.runs),
            steps=request.steps,
            comparisons=len(comparisons),
            failed=sum(not one.ok for one in comparisons),
            verdicts={verdict: verdicts[verdict] for verdict in reversed(ORDER)},
            seconds=found.seconds,
        ),
    )
    if json is not None:
        write_text(json, encode_trained(document))
    if markdown is not None:
        write_text(markdown, trained_markdown(document))
    show_trained(to, document)
    return exit_code(document)


def show_list(request: TrainRequest) -> int:
    """What `--matrix` and `--config` know."""
    model, to = load_model(request.tree), console()
    for matrix in model.matrices:
        line(to, f"--matrix {matrix.name}: {matrix.about}", "bold")
        for run in matrix.runs:
            line(to, f"    {matrix.name}/{run.name}: {run.mesh}, {run.shard_mode}")
    for run in model.configs:
        line(to, f"--config {run.name}: {run.mesh}, {run.shard_mode}", "bold")
    line(to, "a run of a matrix is also a configuration: --config MATRIX/RUN", "dim")
    return 0
