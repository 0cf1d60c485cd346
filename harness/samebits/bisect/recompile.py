"""Recompiles both sides of a point under other compiler options, and digests the programs to show what changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.check.outcome import ProgramOutputs, compare_outputs
from samebits.errors import CouldNotRun, NotCovered, SamebitsError
from samebits.hlo.canonical import ordered_identity
from samebits.hlo.module import HloModule
from samebits.host.file_reads import READS
from samebits.host.interrupts import withheld_from_children
from samebits.host.stderr_capture import quiet
from samebits.numerics.bits import Comparison
from samebits.programs.catalogue import Locator, load
from samebits.programs.inputs import Array
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.check.execution import PendingPoint
    from samebits.check.runner import Runner
    from samebits.programs.program_cache import Programs


SIDES = ("alone", "variant")
"""The reference on one device, and the variant on the mesh."""

PRECISION = "jax_default_matmul_precision"
"""The only option of JAX rather than XLA: it is set while the sides are traced."""

PASSES = "xla_disable_hlo_passes"

_AFTER = re.compile(r"\.\d{4}\.(.+)\.after_([^.]+)\.before_([^.]+)\.txt$")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecompiledSides:
    """Both sides under some options.

    Args:
        digests: a digest of the optimised HLO and machine code of each of `SIDES`.
        comparisons: by leaf, the comparison and the label of the input of its witness.
        values: by side, the outputs at each input.
        passes: names of the passes that changed a program, if they were collected.
    """

    digests: Mapping[str, str]
    comparisons: Mapping[str, tuple[Comparison, str | None]]
    values: Mapping[str, ProgramOutputs]
    passes: tuple[str, ...] = ()


class Recompiled:
    """Compiles both sides of a point under given options, and runs them on all inputs.

    Args:
        pair, point: what is compiled.
        programs: the cache of traced programs.

    Raises:
        CouldNotRun: a side cannot be traced.
    """

    def __init__(self, pair: Pair, point: Point, programs: Programs) -> None:
        self.pair, self.point, self.programs = pair, point, programs
        self._jobs: dict[str | None, tuple[Runner, PendingPoint]] = {}
        self.reference = pair.reference_name

    def job(self, precision: str | None = None) -> tuple[Runner, PendingPoint]:
        """The runner and the job, traced under a default matmul precision."""
        import jax

        from samebits.check.runner import Runner

        if precision not in self._jobs:
            self.programs.forget(self.pair.name)
            with jax.default_matmul_precision(precision) if precision else contextlib.nullcontext():
                runner = Runner(self.pair, self.programs)
                job = runner.start(self.point)
            self._jobs[precision] = runner, job
        return self._jobs[precision]

    def recompile(self, options: Mapping[str, str], *, collect: bool = False) -> RecompiledSides:
        """Compile and run both sides.

        Args:
            options: compiler options by name.
            collect: whether the names of passes are collected.

        Raises:
            CouldNotRun: the compiler rejects an option, or fails.
        """
        runner, job = self.job(options.get(PRECISION))
        # JAX accepts a flag only as a bool.
        flags = {"true": True, "false": False}
        compiler_options = {
            name: flags.get(value.lower(), value) for name, value in options.items() if name != PRECISION
        }
        digests, seen, passes = {}, {}, dict[str, None]()
        for name in SIDES:
            side = self.reference if name == "alone" else self.point.variant
            site = job.alone if name == "alone" else job.on_mesh
            with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
                compiled = self._compile(job.programs[name], compiler_options, Path(folder), collect)
                digests[name] = _digest(compiled, Path(folder))
                passes |= dict.fromkeys(_passes(Path(folder)))
            seen[name] = self._run(runner, job, job.programs[name], compiled, side, site)
        return RecompiledSides(
            digests=digests,
            comparisons=compare_outputs(reference=seen["alone"], optimized=seen["variant"]),
            values=seen,
            passes=tuple(passes),
        )

    def _compile(self, program: Any, options: Mapping[str, Any], folder: Path, collect: bool) -> Any:
        from samebits.host.environment import compile_options

        if program.lowered is None:
            program.result()
        compiler_options = {**compile_options(), "xla_dump_to": str(folder), **options}
        if collect:
            compiler_options["xla_dump_hlo_pass_re"] = ".*"
        try:
            with quiet(), program.setup.active():
                return program.lowered.compile(compiler_options=compiler_options)
        except Exception as error:
            raise CouldNotRun(f"does not compile: {one_line(error)}") from error

    def _run(
        self, runner: Runner, job: PendingPoint, program: Any, compiled: Any, side: str, site: Any
    ) -> ProgramOutputs:
        from samebits.programs.host_trees import to_host

        seen = ProgramOutputs(trees={}, repeats=True, layout={}, replicas=[])
        direction = self.point.direction
        for label, (record, cotangents) in runner.execution.inputs(job.alone, self.reference, direction).items():
            _, call = runner.execution.placed(side, site, direction, record, cotangents)
            try:
                with program.setup.active():
                    seen.trees[label] = to_host(compiled(*call), program, direction)
            except Exception as error:
                raise CouldNotRun(f"does not run: {one_line(error)}") from error
        return seen

    def oracle(self, label: str, leaf: str) -> tuple[Array, str]:
        """The reference's value of a leaf in float64, and how it was computed: interpreted or executed.

        Raises:
            CouldNotRun: the reference can be neither interpreted nor executed in float64.
        """
        from samebits.interpret.rounding_error.estimate import estimate_errors

        runner, job = self.job()
        direction = self.point.direction
        try:
            question = runner.proofs.questions(job)[label]
            inputs = [np.asarray(operand.values) for operand in question.inputs]
            judged = estimate_errors(question.reference, question, inputs, runner.evidence.platform)
            return np.asarray(judged.values[leaf], np.float64), "interpreted"
        except (NotCovered, KeyError):
            wide = replace(job.alone, x64=True)
            program = self.programs.start(runner.execution.program(self.reference, wide, direction))
            seen = runner.execution.run(program, self.reference, wide, direction, [label])
            return np.asarray(seen.trees[label].leaves[leaf].array, np.float64), "executed"


def _digest(compiled: Any, folder: Path) -> str:
    """A digest of the optimised HLO, and of the machine code if it was dumped: LLVM options change only the latter."""
    (module,) = compiled.runtime_executable().hlo_modules()
    serialised = module.as_serialized_hlo_module_proto()
    digest = hashlib.sha256()
    try:
        digest.update(ordered_identity(HloModule(serialised)).encode())
    except (CouldNotRun, ValueError):
        digest.update(module.to_string().encode())
    for path in sorted(folder.glob("*.o"), key=lambda path: path.name.split(".", 1)[1]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _passes(folder: Path) -> list[str]:
    """Passes that changed the module, in order, from the names of the files that XLA dumped; pipelines are left out."""
    changed, pipelines = [], set()
    for path in sorted(folder.glob("*.txt")):
        match = _AFTER.search(path.name)
        if match is not None:
            pipelines.add(match[1])
            changed.append(match[2])
    return [name for name in changed if name not in pipelines and name not in ("pipeline-start", "pipeline-end")]


PATIENCE = 180.0
"""Seconds after which a run counts as hanging."""


class IsolatedSides:
    """Compiles and runs both sides of a point in a child process, which is restarted if it crashes.

    Args:
        locator, point: the pair and the point; the child process loads the pair itself.
    """

    def __init__(self, locator: Locator, point: Point) -> None:
        self.locator, self.point = locator, point
        self._process: Any = None
        self._ours: Any = None

    def recompile(self, options: Mapping[str, str], *, collect: bool = False) -> RecompiledSides:
        """As `Recompiled.recompile`.

        Raises:
            CouldNotRun: the compiler rejects an option, fails, or crashes the process.
        """
        recompiled: RecompiledSides = self._ask("recompile", dict(options), collect)
        return recompiled

    def oracle(self, label: str, leaf: str) -> tuple[Array, str]:
        """As `Recompiled.oracle`.

        Raises:
            CouldNotRun: the value cannot be computed.
        """
        ideal: tuple[Array, str] = self._ask("oracle", label, leaf)
        return ideal

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(5)
            self._ours.close()
            self._process = None

    def _ask(self, *question: Any) -> Any:
        if self._process is None:
            self._start()
        try:
            self._ours.send(question)
            if not self._ours.poll(PATIENCE):
                raise CouldNotRun(f"did not end within {PATIENCE:.0f} s")
            answer, reads = self._ours.recv()
        except CouldNotRun:
            self.close()
            raise
        except (EOFError, OSError):
            self._process.join(5)
            how = self._process.exitcode
            cause = signal.Signals(-how).name if how is not None and how < 0 else f"exit code {how}"
            self.close()
            raise CouldNotRun(f"crashed its process ({cause})") from None
        READS.add(reads)
        if isinstance(answer, SamebitsError):
            raise answer
        return answer

    def _start(self) -> None:
        import jax

        # A fresh interpreter: a forked child would inherit jax's threads without their locks.
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        devices = len(jax.devices()) if jax.default_backend() == "cpu" else None
        args = (theirs, self.locator, self.point, devices, os.environ.get("JAX_PLATFORMS"))
        self._process = context.Process(target=_serve, args=args, daemon=True)
        with withheld_from_children():
            self._process.start()
        theirs.close()  # otherwise `recv` would not see the child process end


def _serve(
    connection: Connection[Any, Any], locator: Locator, point: Point, devices: int | None, platform: str | None
) -> None:
    # Discard XLA's output on abort: the table of trials reports the crash.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    from samebits.host import environment

    READS.look()
    environment.prepare(devices=devices, platform=platform)
    from samebits.programs.program_cache import Programs

    sides = None
    while True:
        try:
            what, *args = connection.recv()
        except (EOFError, OSError):  # the parent has closed the connection: there are no more questions
            return
        try:
            if sides is None:
                sides = Recompiled(load(locator), point, Programs())
            answer: Any = sides.recompile(args[0], collect=args[1]) if what == "recompile" else sides.oracle(*args)
        except SamebitsError as error:
            answer = type(error)(*error.args)
        except Exception as error:
            answer = CouldNotRun(f"samebits itself {one_line(error)}")
        connection.send((answer, READS.all()))
