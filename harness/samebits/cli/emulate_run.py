"""`samebits emulate` as a command: pairs come in, a column of results for each emulated processor goes out."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from samebits.cli.check_subprocess import CheckArguments, check_elsewhere
from samebits.cli.common import say
from samebits.cli.pipeline import Command, CommandRun
from samebits.errors import CouldNotRun, RequestError
from samebits.programs.plan import Request
from samebits.report.document import Document
from samebits.report.failure import point_block
from samebits.schema.result import Result, exit_code

EMULATOR = "qemu-x86_64"

PROCESSORS = {
    "IvyBridge": "Intel, AVX, no AVX2, no fused multiply-add",
    "Haswell": "Intel, AVX2 and fused multiply-add",
    "EPYC": "AMD, AVX2 and fused multiply-add",
}
"""Those that are emulated by default; jaxlib needs AVX, and qemu's user mode has no AVX-512."""

NATIVE = "native"

PINNED = ("OPENBLAS_CORETYPE", "NPY_ENABLE_CPU_FEATURES")
"""Variables that choose kernels for the host's processor, which on an emulated one are illegal instructions."""

Run = Callable[[CheckArguments, str], Document]
"""Runs a check on a processor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A processor.

    Args:
        processor: its name for the emulator, or `native`.
        document: what the check found; None where it could not run.
        why: it could not.
        seconds: how long it took.
    """

    processor: str
    document: Document | None
    why: str | None
    seconds: float

    def code(self) -> int:
        """The exit code of this processor alone."""
        if self.document is None:
            return 3
        return exit_code(self.document.results, self.document.problems)


def require_emulator() -> None:
    """Reject a machine that cannot emulate, with what to install.

    Raises:
        RequestError: it is not an x86 machine with Linux, or the emulator is missing.
    """
    if platform.machine() != "x86_64":
        raise RequestError(f"emulation needs an x86_64 Python to run; this machine is {platform.machine()}")
    if shutil.which(EMULATOR) is None:
        raise RequestError(f"{EMULATOR} is not installed; on Debian and Ubuntu: apt-get install qemu-user")


def run_on(arguments: CheckArguments, processor: str, seconds: float | None = None) -> Document:
    """Run a check on a processor, in a process of its own.

    Raises:
        CouldNotRun: it wrote no document, or took too long.
    """
    if processor == NATIVE:
        return check_elsewhere(arguments, seconds=seconds)
    # /proc/cpuinfo shows the host's processor under emulation, so the name is passed on to what is recorded.
    return check_elsewhere(
        arguments,
        before=(EMULATOR, "-cpu", processor),
        variables={"SAMEBITS_PROCESSOR": f"{processor}, emulated", **dict.fromkeys(PINNED)},
        seconds=seconds,
    )


@dataclass(frozen=True, kw_only=True)
class EmulateCommand(Command[CheckArguments, Column, tuple[Column, ...]]):
    """Check pairs natively and on emulated processors.

    Args:
        pairs: names of pairs, or `module:PAIR`.
        request: the filters.
        root: the tree, or None for the current one.
        processors: names of processors; none for those of `PROCESSORS`.
        seconds: the longest that one processor may take.
    """

    pairs: tuple[str, ...]
    request: Request
    root: Path | None
    processors: Sequence[str]
    seconds: int | None

    def load(self, run: CommandRun) -> CheckArguments:
        """The check that runs on every processor.

        Raises:
            RequestError: this machine cannot emulate, or no pair is named.
        """
        require_emulator()
        if not self.pairs:
            raise RequestError(
                "name the pairs to emulate: every result takes seconds there, the whole tree takes hours"
            )
        return CheckArguments(pairs=self.pairs, request=self.request, root=self.root)

    def execute(self, run: CommandRun, inputs: CheckArguments, results: list[Column]) -> None:
        """Check on one processor after the other."""
        results += columns(
            inputs,
            self.processors or tuple(PROCESSORS),
            partial(run_on, seconds=self.seconds),
            lambda name: say(f"{name}: checking {', '.join(self.pairs)}"),
        )

    def document(self, run: CommandRun, inputs: CheckArguments, results: list[Column]) -> tuple[Column, ...]:
        """A column per processor."""
        return tuple(results)

    def show(self, run: CommandRun, inputs: CheckArguments, document: tuple[Column, ...]) -> None:
        """The table, and what failed where."""
        rows = table(document)
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        for row in rows:
            padded = "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
            run.console.print(padded.rstrip(), soft_wrap=True)
        for column in document:
            if column.document is None:
                say(f"{column.processor}: {column.why}")
                continue
            for result in column.document.results:
                if result.failed:
                    lines = [f"FAILED  {column.processor}:", *point_block([result])]
                    run.console.print("\n".join(lines), soft_wrap=True)
            for problem in column.document.problems:
                say(f"{column.processor}: {problem.message}")

    def exit_code(self, inputs: CheckArguments, document: tuple[Column, ...]) -> int:
        """1 where a contract breaks on any processor."""
        return gravest(document)


def columns(
    arguments: CheckArguments, processors: Sequence[str], run: Run, started: Callable[[str], None] = lambda name: None
) -> list[Column]:
    """The check on each processor, one after the other, the native one first."""
    checked = []
    for processor in (NATIVE, *processors):
        started(processor)
        begin = time.perf_counter()
        try:
            document, why = run(arguments, processor), None
        except CouldNotRun as error:
            document, why = None, str(error)
        checked.append(Column(processor=processor, document=document, why=why, seconds=time.perf_counter() - begin))
    return checked


def cell(results: Sequence[Result], native: Sequence[Result]) -> str:
    """What became of a pair on a processor, and how many leaves of its reference have other bits than natively."""
    failed = sum(result.failed for result in results)
    skipped = sum(result.verdict == "skipped" for result in results)
    if not results or skipped == len(results):
        return "nothing ran"
    words = f"{failed} of {len(results)} fail" if failed else f"{len(results) - skipped} hold"
    usual = {_key(result): result.bits for result in native}
    moved = sum(_key(result) in usual and result.bits != usual[_key(result)] for result in results)
    return words + (f" ({moved} moved)" if moved else "")


def table(processors: Sequence[Column]) -> list[list[str]]:
    """Rows of pair x processor, with a head, and the time below."""
    natively: tuple[Result, ...] = processors[0].document.results if processors[0].document is not None else ()
    documents = [column.document for column in processors if column.document is not None]
    pairs = dict.fromkeys(head.pair for document in documents for head in document.pairs)
    rows = [["pair", *(column.processor for column in processors)]]
    for pair in pairs:
        own = [result for result in natively if result.pair == pair]
        row = [pair]
        for column in processors:
            results = [] if column.document is None else [r for r in column.document.results if r.pair == pair]
            row.append("could not run" if column.document is None else cell(results, own))
        rows.append(row)
    return [*rows, ["seconds", *(f"{column.seconds:.0f}" for column in processors)]]


def gravest(processors: Sequence[Column]) -> int:
    """The exit code: 1 where a contract breaks on any processor, then 2, then 3."""
    codes = {column.code() for column in processors}
    return next((code for code in (1, 2, 3) if code in codes), 0)


def _key(result: Result) -> tuple[str, ...]:
    names = ("pair", "variant", "case", "dtype", "mesh", "mode", "direction", "leaf")
    return tuple(getattr(result, name) for name in names)
