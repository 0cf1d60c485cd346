"""Compiled programs, each made once: traced here, compiled in threads, shared by every case that needs the same one.

Two requests share a program when they have the same key (function, static arguments, argument types, mesh); and
share its *compilation* when their StableHLO text, captured arrays, trees of arguments and outputs, devices and jax's
configuration are equal, as when a guarded variant takes the reference's branch. A program that calls back into Python
shares its compilation with no other. Tracing holds Python's lock and stays in the calling thread; XLA's compiler
releases it.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import os
import re
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from samebits.errors import CouldNotRun, DeclarationError
from samebits.host.cache_keys import ByIdentity, key_of
from samebits.host.environment import compile_options, configuration
from samebits.host.group import LockstepGroup
from samebits.host.interrupts import Stop
from samebits.host.isolation import NUMPY_RANDOM, PYTHON_RANDOM, note, undone
from samebits.interpret.kernels import INTERPRETED, interpreted_on_cpu
from samebits.programs.captured_values import calls_python, captured_arrays, constants_of, equations
from samebits.user_errors import one_line

# The machine code of compiled programs: a process has room for some thousands of them.
SHARE = 0.5
"""Of the mappings that a process may have, which share may be in use before programs are dropped."""

_MAPPINGS = Path("/proc/self/maps")
_MOST = Path("/proc/sys/vm/max_map_count")


def is_crowded() -> bool:
    """Tell whether this process uses a large share of its memory mappings; False where the system does not say."""
    try:
        return _MAPPINGS.read_bytes().count(b"\n") > SHARE * int(_MOST.read_bytes())
    except (OSError, ValueError):  # not Linux, or /proc is not mounted
        return False


def release() -> None:
    """Have jax drop its own references to compiled programs; its cache has room for 2 048 of them."""
    from jax.extend import backend

    backend.clear_in_memory_compilation_cache()


EMULATED = "emulated_"
"""Operations that a backend lacks run inside `jax.named_scope("emulated_<operation>")`; see `Program`."""

_CALL = re.compile(r"custom_call @\"?([\w.$-]+)")

EVERY = 16
"""How many programs are made between two looks at how much machine code there is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileSetup:
    """What a program is traced and compiled under.

    On an abstract mesh a program can be traced, not compiled: it has no devices.

    Args:
        mesh: None for one device alone.
        options: compiler options beside those of every compilation; they do not change what is traced.
    """

    mesh: Any = None
    x64: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Enter the jax contexts of this setup."""
        with contextlib.ExitStack() as stack:
            if self.x64:
                stack.enter_context(jax.enable_x64(True))
            if self.mesh is not None:
                abstract = isinstance(self.mesh, jax.sharding.AbstractMesh)
                stack.enter_context(jax.sharding.use_abstract_mesh(self.mesh) if abstract else jax.set_mesh(self.mesh))
            yield


@dataclass(frozen=True, slots=True)
class StableHlo:
    """What is known of the StableHLO of a program.

    Args:
        digest: of the text.
        calls: the names of its custom calls.
    """

    digest: bytes
    calls: tuple[str, ...]
    calls_python: bool


@dataclass(slots=True, eq=False, weakref_slot=True)
class Program:
    """One side of a pair, traced for one set of argument types; compiled on request.

    Args:
        label: names it in errors.
        setup: what it is traced under.
        traced, error: as jax has it, or what tracing raised.
        compiled, lowered: once it is started.
        calls_python: whether it has callbacks: then no other program is the same, whatever it looks like.
        captured: a digest of the arrays that its StableHLO does not show.
        constants: a digest of all arrays that it captured, when it was traced.
        restart: has it compiled again, once it was started.
        advice: what to do where tracing raised.
        stablehlo: what is known of its text, once that was asked.
    """

    label: str
    setup: CompileSetup
    traced: Any = None
    error: BaseException | None = None
    compiled: Future[Any] | None = None
    lowered: Any = None
    calls_python: bool = False
    captured: str = ""
    constants: str = ""
    restart: Callable[[Program], object] | None = None
    advice: str = ""
    stablehlo: StableHlo | None = None

    def result(self) -> Any:
        """Return the compiled program; wait for its thread, and compile it again where its machine code was freed.

        Raises:
            CouldNotRun: tracing, lowering or compiling raised.
            DeclarationError: a part of the declaration is wrong that only tracing shows.
        """
        if self.error is None and self.compiled is None and self.restart is not None:
            self.restart(self)
        if self.error is None and self.compiled is not None:
            self.error = self.compiled.exception()
            if self.error is None:
                return self.compiled.result()
        assert self.error is not None, f"{self.label} was not started"
        if isinstance(self.error, DeclarationError):
            raise self.error
        advice = f"{self.advice}; " if self.advice else ""  # ahead of what jax says, which may be cut
        raise CouldNotRun(f"{self.label} {advice}{one_line(self.error)}") from self.error

    def lower(self) -> Any:
        """Return the program in StableHLO, as jax has it."""
        if self.lowered is None:
            kernels = any(equation.primitive.name == "pallas_call" for equation in equations(self.traced.jaxpr))
            with self.setup.active(), interpreted_on_cpu() if kernels else nullcontext():
                self.lowered = self.traced.lower()
            if kernels and jax.default_backend() == "cpu":
                note(INTERPRETED)
        return self.lowered

    def text(self) -> StableHlo:
        """Return what its StableHLO says, without the text itself, which may be long."""
        if self.stablehlo is None:
            text = self.lower().as_text()
            calls = tuple(dict.fromkeys(_CALL.findall(text)))
            digest = hashlib.sha256(text.encode()).digest()
            self.stablehlo = StableHlo(digest, calls, calls_python(self.traced.jaxpr, text))
        return self.stablehlo

    def emulated(self) -> tuple[str, ...]:
        """Return the operations that an emulation stands in for, from the scopes in this program's own lowering.

        Only the branch of this platform is left there; a compilation shared with an equal text has the other's scopes.
        """
        scopes = (str(equation.source_info.name_stack) for equation in equations(self.traced.jaxpr))
        if not any(EMULATED in scope for scope in scopes):  # the text with its scopes takes as long as the lowering
            return ()
        text = self.lower().as_text(debug_info=True)
        return tuple(sorted(set(re.findall(rf"\b{EMULATED}(\w+)", text))))


Watch = Callable[[Program], contextlib.AbstractContextManager[None]]


class Programs:
    """The programs of a run.

    Args:
        threads: how many compile at once; by default one less than there are processors: the calling thread traces
            meanwhile, and XLA uses threads of its own within one compilation (two took 7 % more processor time).
        group: the processes that the meshes span; None in a process of its own.
        watch: the context in which the code of a program is traced.
    """

    def __init__(
        self, threads: int | None = None, group: LockstepGroup | None = None, watch: Watch | None = None
    ) -> None:
        self.group = group
        self._watch = watch or (lambda _: contextlib.nullcontext())
        self._pool = ThreadPoolExecutor(threads or max((os.cpu_count() or 1) - 1, 1), thread_name_prefix="compile")
        self._programs: dict[tuple[Hashable, Hashable], Program] = {}
        self._compiled: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()
        self._attached: dict[str, tuple[Hashable, Any]] = {}
        self._held: tuple[tuple[str, Any], ...] | None = None
        self.compilations = self._kept = 0
        self.tested = False
        """Whether the comparison and the proofs have found planted differences in this run."""

    @property
    def configuration(self) -> tuple[tuple[str, Any], ...]:
        """Return every setting of jax, as part of a key."""
        return configuration() if self._held is None else self._held

    @contextlib.contextmanager
    def held_configuration(self) -> Iterator[None]:
        """Read the settings of jax once, inside: reading them for every key took 2 % of a sweep.

        Nothing inside changes them but the contexts of a `CompileSetup`, which are part of every key by themselves;
        what user code changes is undone before it returns.
        """
        before = self._held
        self._held = self.configuration
        try:
            yield
        finally:
            self._held = before

    def trace(
        self,
        key: Hashable,
        label: str,
        setup: CompileSetup,
        make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]],
        around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> Program:
        """Return the program of a key; a new one is traced `around` the function and types that `make` gives.

        An exception while tracing is kept in the program, not raised: the caller says what it means.
        """
        key = key, self.configuration
        if key not in self._programs:
            program = Program(label, setup)
            try:
                with self._watch(program):
                    program.traced = trace_alone(label.partition(", case")[0], setup.active, *make(), around)
                program.constants = constants_of(program.traced.jaxpr)
            except BaseException as error:  # `sys.exit()` and pytest's own skip are no `Exception`
                if Stop.caused(error):
                    raise
                program.error = error
            self._keep(key, program)
        return self._programs[key]

    def recompiled(self, pair: str, program: Program, options: tuple[tuple[str, Any], ...]) -> Program:
        """Return the same traced program under other compiler options; compile it with `start`."""
        key = (pair, "recompiled", ByIdentity(program), options), self.configuration
        if key not in self._programs:
            setup = replace(program.setup, options=options)
            self._keep(key, replace(program, setup=setup, compiled=None))
        return self._programs[key]

    def _keep(self, key: tuple[Hashable, Hashable], program: Program) -> None:
        """Cache a program; the older half is freed of its machine code where there is too much in this process."""
        self._programs[key] = program
        self._kept += 1
        if self._kept % EVERY == 0 and is_crowded():
            compiled = [each for each in self._programs.values() if each.compiled is not None and each.compiled.done()]
            for each in compiled[: len(compiled) // 2]:
                each.compiled = None
            self._retain(self._programs)

    def start(self, program: Program) -> Program:
        """Lower a traced program and have it compiled by a thread, unless that is under way."""
        if program.error is None and program.compiled is None:
            try:
                lowered = program.lower()
                alike = _alike(program), self.configuration
                with self._lock:
                    if alike not in self._compiled:
                        self.compilations += 1
                        self._compiled[alike] = self._pool.submit(_compile, lowered, program.setup)
                    program.compiled, program.restart = self._compiled[alike], self.start
            except Exception as error:
                program.error = error
        return program

    def attached(self, pair: str, key: Hashable, make: Callable[[], Any]) -> Any:
        """Make something for the programs of a pair once; it is dropped with them or for another key."""
        if pair not in self._attached or self._attached[pair][0] != key:
            self._attached[pair] = key, make()
        return self._attached[pair][1]

    def forget(self, pair: str) -> None:
        """Drop the programs of a pair, for a sweep that goes on to the next."""
        self._attached.pop(pair, None)
        self._retain([key for key in self._programs if not (isinstance(key[0], tuple) and key[0][0] == pair)])

    @contextlib.contextmanager
    def for_now(self) -> Iterator[None]:
        """Drop what is traced inside when it ends, and keep what was there before."""
        before = list(self._programs)
        try:
            yield
        finally:
            self._retain(before)

    def _retain(self, keys: Iterable[tuple[Hashable, Hashable]]) -> None:
        self._programs = {key: self._programs[key] for key in keys if key in self._programs}
        kept = {id(program.compiled) for program in self._programs.values()}
        with self._lock:
            self._compiled = {alike: future for alike, future in self._compiled.items() if id(future) in kept}
        release()

    def close(self) -> None:
        """Stop the threads; what has not started compiling is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _alike(program: Program) -> Hashable:
    """Return what a lowered program shares with those of its compilation; note what its text does not show.

    The trees are part of it: outputs in a tuple and in a list have one text, and a compiled program gives its own tree.
    """
    lowered, mesh = program.lowered, program.setup.mesh
    text = program.text()
    program.calls_python = text.calls_python
    if program.constants != constants_of(program.traced.jaxpr):
        raise DeclarationError(f"{program.label} an array that it captures was changed in place after it was traced")
    program.captured = captured_arrays(program.traced.jaxpr)
    place = mesh and (mesh.axis_names, mesh.devices.shape, tuple(device.id for device in mesh.devices.flat))
    trees = ByIdentity(program) if program.calls_python else structure_key((lowered.in_tree, lowered.out_tree))
    return text.digest, program.setup.x64, program.setup.options, place, program.captured, trees


def structure_key(structure: Any) -> Hashable:
    """Return a key of what a tree is built from: jax compares its structures, and everything else counts by content."""
    if isinstance(structure, tuple):
        return tuple(map(structure_key, structure))
    if not isinstance(structure, jax.tree_util.PyTreeDef):
        return key_of(structure)
    try:
        hash(structure)
    except TypeError:  # what a class of the user's says of its nodes need not have a hash
        return ByIdentity(structure)
    return ("tree", structure)


def _compile(lowered: Any, setup: CompileSetup) -> Any:
    # A float64 program is an oracle: its accuracy counts, not its bits, so the CPU's code generator need not optimise
    # (RMSNorm's sweep took 62 s of processor time with that, and takes 56 s without).
    options: dict[str, Any] = {**compile_options()}
    if setup.x64 and jax.default_backend() == "cpu":
        options["xla_backend_optimization_level"] = 0
    options |= setup.options
    with setup.active():
        return lowered.compile(compiler_options=options or None)


# A trace with its changes of global state undone; a program that chance decides is refused.
_SYMBOL = re.compile(r"@(?:[\w.$-]+|\"[^\"]*\")")

_CALLS = {NUMPY_RANDOM: "np.random", PYTHON_RANDOM: "random"}


def trace_alone(
    who: str,
    active: Callable[[], AbstractContextManager[None]],
    function: Callable[..., Any],
    types: tuple[Any, ...],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Any:
    """Trace a function; `around` puts back what it changes."""
    import jax

    def traced() -> tuple[Any, list[str]]:
        with undone(f"{who}, while it was traced,") as changed, around(), active():
            program = contextvars.copy_context().run(lambda: jax.jit(function, keep_unused=True).trace(*types))
        return program, changed

    program, changed = traced()
    drawn = [_CALLS[words] for words in changed if words in _CALLS]
    if drawn:
        # The caches of jax were dropped with what was undone, so that the function runs again.
        again, _ = traced()
        with active():
            if shown(program.lower(), program.jaxpr) != shown(again.lower(), again.jaxpr):
                raise DeclarationError(
                    f"{who} draws unseeded random numbers ({' and '.join(drawn)}) while it is traced, so that each "
                    "trace gives a different program; draw them from a seeded generator, or pass them as an argument"
                )
    return program


def shown(lowered: Any, jaxpr: Any) -> tuple[str, str]:
    """Return all that decides what a program computes: its StableHLO, and the arrays that this does not show.

    Its functions are named in their order: a counter in the name of one is not another program.
    """
    names: dict[str, str] = {}
    text = _SYMBOL.sub(lambda match: names.setdefault(match[0], f"@{len(names)}"), lowered.as_text())
    return text, captured_arrays(jaxpr)
