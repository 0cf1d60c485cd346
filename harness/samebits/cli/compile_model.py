"""`samebits compile model`: training steps of real size. To be imported after `environment.prepare`."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from samebits.cli.common import write_text
from samebits.cli.found_results import start_backend
from samebits.compile.cache import CompileCache
from samebits.compile.devices import compiler_version
from samebits.errors import RequestError, SamebitsError
from samebits.programs.catalogue import default_root, suggest
from samebits.report.compile_model import (
    CompiledStep,
    StepsDocument,
    encode_steps,
    exit_code,
    show_steps,
    steps_markdown,
)
from samebits.report.terminal import console, show_head
from samebits.schema.model import Model, Preset
from samebits.schema.result import Problem
from samebits.schema.target import Target
from samebits.train.compile_step import compile_step
from samebits.train.load import load_model


def run_compile_model(
    preset_name: str | None,
    targets: tuple[Target, ...],
    configs: tuple[str, ...],
    *,
    root: Path | None,
    cached: bool,
    json: Path | None,
    markdown: Path | None,
) -> int:
    """Compile the steps of a preset, show them, write them.

    Args:
        preset_name: of the model; its only one where there is one.
        targets: one, or none for the preset's own.
        configs: names of its runs; none for all.
        root: the tree of the model.
        cached: whether programs are kept and looked up on disk.
        json, markdown: files to write, known to be writable.

    Returns:
        The exit code.

    Raises:
        RequestError: there is no such preset or run, or the target does not fit.
    """
    begin, tree = time.perf_counter(), root or default_root()
    model = load_model(tree)
    preset = _preset(model, preset_name)
    if len(targets) > 1:
        raise RequestError("compile model takes one --target")
    target = targets[0] if targets else Target(name=preset.target)
    named = {run.name: run for run in preset.runs}
    for name in configs:
        if name not in named:
            raise RequestError(f"preset '{preset.name}' has no run '{name}'; {suggest(name, list(named))}")
    seen, to = start_backend(), console()
    show_head(to, seen.lines()[:1])
    results, problems = [], []
    cache = CompileCache() if cached else None
    waiting = to.status("compiling", spinner="dots") if to.is_terminal else contextlib.nullcontext()
    with waiting as status:
        for run in (named[name] for name in configs or named):
            if status is not None:
                status.update(f"compiling {run.name} for {target.name}")
            try:
                facts = compile_step(model, run, tree, target, cache)
            except SamebitsError as error:
                problems.append(Problem(pair=run.name, message=str(error), exit_code=error.exit_code))
                continue
            results.append(
                CompiledStep(
                    config=run.name,
                    mesh=run.mesh,
                    shard_mode=run.shard_mode,
                    choice=dict(run.choice),
                    target=target.name,
                    compiler=compiler_version(target),
                    published_bytes=preset.published.get(run.name),
                    facts=facts,
                )
            )
    notes = (f"published: {preset.source}",) if preset.published else ()
    document = StepsDocument(
        environment=seen,
        preset=preset.name,
        about=preset.about,
        source=preset.source,
        results=tuple(results),
        problems=tuple(problems),
        notes=(*notes, *preset.remarks),
        seconds=time.perf_counter() - begin,
    )
    if json is not None:
        write_text(json, encode_steps(document))
    if markdown is not None:
        write_text(markdown, steps_markdown(document))
    show_steps(to, document)
    return exit_code(document)


def _preset(model: Model, name: str | None) -> Preset:
    known = {preset.name: preset for preset in model.presets}
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        said = f"preset '{name}' is unknown" if name else "compile model needs --preset"
        raise RequestError(f"{said}; {suggest(name or '', list(known)) if known else 'the model declares none'}")
    return known[name]
