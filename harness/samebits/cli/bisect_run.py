"""A run of `samebits bisect`, from its request to its exit code. To be imported after `environment.prepare`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from samebits.bisect.result import Finding, Session
from samebits.bisect.search.trials import NothingFails
from samebits.cli.common import write_text
from samebits.cli.found_results import start_backend
from samebits.report.bisect import BisectDocument, bisected_markdown, encode_bisected, exit_code, show_bisected
from samebits.report.terminal import console, show_head


def run_bisection(
    what: str,
    search: Callable[[Session], Finding],
    session: Session,
    *,
    json: Path | None,
    markdown: Path | None,
    cached: bool = True,
) -> int:
    """Search, show, write.

    Args:
        what: which bisection, for the report where nothing fails.
        search: the bisection.
        session: as asked; it is told where to say what is under way.
        json, markdown: files to write, known to be writable.
        cached: whether compiled training steps are kept on disk.

    Returns:
        The exit code.

    Raises:
        SamebitsError: nothing can be searched for as asked.
    """
    from samebits.train.cache import persistent_compile_cache

    begin, to = time.perf_counter(), console()
    seen = start_backend()
    show_head(to, seen.lines()[:1])
    waiting = to.status(f"bisect {what}", spinner="dots") if to.is_terminal else contextlib.nullcontext()
    with waiting as status, persistent_compile_cache() if cached else contextlib.nullcontext():
        told = replace(session, say=lambda text: status.update(text) if status else None)
        try:
            finding = search(told)
        except NothingFails as nothing:
            finding = Finding(what=what, found=False, sentence=str(nothing))
    finding = replace(finding, seconds=round(time.perf_counter() - begin, 3))
    document = BisectDocument(environment=seen, finding=finding)
    if json is not None:
        write_text(json, encode_bisected(document))
    if markdown is not None:
        write_text(markdown, bisected_markdown(document))
    show_bisected(to, finding)
    return exit_code(finding)
