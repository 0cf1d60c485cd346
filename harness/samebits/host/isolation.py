"""Detects, undoes and records global state that user code changes when it is imported or called.

What decides what code computes, or whether a run can report it and end: settings of jax, the variables that its
compilers read, what the public names of jax and NumPy and the functions of loaded files stand for, standard streams,
signal handlers, warnings that raise, NumPy's error handling, the global random generators and the working directory. A
pair whose module changes one of them would decide the verdicts on the pairs after it. What stays unseen: attributes of
classes, and private modules.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from samebits.host.environment import configuration
from samebits.host.installed import is_installed
from samebits.host.stderr_capture import standard_error

WATCHED = (
    "builtins",
    "functools",
    "math",
    "numpy",
    "numpy.linalg",
    "numpy.random",
    "ml_dtypes",
    "jax",
    "jax.lax",
    "jax.nn",
    "jax.numpy",
    "jax.numpy.linalg",
    "jax.random",
    "jax.scipy.special",
    "jax.tree",
    "jax.tree_util",
)
"""Modules whose public names must not come to stand for something else."""

_VARIABLES = ("JAX_", "XLA_", "LIBTPU_", "TPU_", "SAMEBITS_")
"""How the environment variables begin that jax, its compilers or this package read."""


_number_of_process = os.getpid  # before user code can replace it


class _Process:
    """What is watched and noted down in this process: one object, because jax's configuration is one per process too.

    Args:
        files: loaded files whose functions are watched, by module name.
        notes: notices for the user, in order, each text once; whether it is true of other runs of the same code.
    """

    def __init__(self) -> None:
        self.files: dict[str, types.ModuleType] = {}
        self.notes: dict[str, bool] = {}
        self.runs = 0


_PROCESS = _Process()


PYTHON_RANDOM = "the state of Python's random numbers"
NUMPY_RANDOM = "the state of NumPy's global random numbers"

MOST_DRAWN = 1000
"""The most random numbers that a library is expected to draw when it is imported."""


def watch(module: types.ModuleType) -> None:
    """Have the functions of a loaded file watched from now on."""
    _PROCESS.files[module.__name__] = module


def note(text: str, *, lasting: bool = True) -> None:
    """Record a notice for the user; the same text counts once.

    Args:
        lasting: whether it is true of other runs of the same code too; not how a process ended in this one.
    """
    _PROCESS.notes.setdefault(text, lasting)


def lasting_notes() -> list[str]:
    """Return what has been noted down since `take_notes` and is true of other runs too; it is left there."""
    return [text for text, lasting in _PROCESS.notes.items() if lasting]


def take_notes() -> list[str]:
    """Return what has been noted down since the last time."""
    notes = list(_PROCESS.notes)
    _PROCESS.notes.clear()
    return notes


def user_code_runs() -> int:
    """Return how often the user's code was imported, traced or called in this process so far."""
    return _PROCESS.runs


@contextlib.contextmanager
def undone(who: str, *, importing: bool = False) -> Iterator[list[str]]:
    """Undo, and note down, what the user's code inside changes for others.

    Inside, `sys.argv` has the program's name alone: code that parses it, as absl's flags do, must not meet our options.
    The global random generators start anew: two sides that draw from one state would draw equal numbers.

    Args:
        who: as the note names it, such as `importing FILE`.
        importing: whether a module is imported: that it draws numbers from Python's random generator, as libraries do
            (`rich` does, which Flax imports), is not worth a note, and functions that it replaces in any module that
            was loaded before are put back.

    Yields:
        What changed, in words; filled when the context ends.
    """
    changed: list[str] = []
    _PROCESS.runs += 1
    with fresh_random_numbers():
        before = {name: part.read() for name, part in _STATE.items()}
        shared = _shared_functions() if importing else []
        arguments, sys.argv = sys.argv, sys.argv[:1]
        try:
            with forked_ended():
                yield changed
        finally:
            sys.argv = arguments
            if importing and _are_drawn(before["random"], random.getstate()):
                random.setstate(before["random"])
            for name, part in _STATE.items():
                if before[name] is not None:
                    changed += part.undo(before[name])
            changed += _names_undone(shared)
            if changed:
                if before["settings"] is not None:
                    # What was traced meanwhile may hold what was changed.
                    sys.modules["jax"].clear_caches()
                note(f"{who} changed {'; '.join(changed)}. It was undone: no other code ran with it")


@contextlib.contextmanager
def fresh_random_numbers() -> Iterator[None]:
    """Start the global random generators from the system's numbers inside, as in a process of its own.

    Restarting them from one state for each side of a pair would give both sides the same draws.
    """
    python, numpy = random.getstate(), _numpy_random()
    random.seed()
    if numpy is not None:
        sys.modules["numpy.random"].seed()
    try:
        yield
    finally:
        random.setstate(python)
        if numpy is not None:
            _write_numpy_random(numpy)


def _are_drawn(before: Any, now: Any) -> bool:
    """Return whether a state of Python's random generator comes from drawing a few numbers in another one."""
    generator = random.Random()
    generator.setstate(before)
    for _ in range(MOST_DRAWN if now != before else 0):
        generator.getrandbits(32)
        if generator.getstate() == now:
            return True
    return False


@contextlib.contextmanager
def forked_ended() -> Iterator[None]:
    """End a child that the user's code forks inside, which would go on as a second samebits."""
    number = _number_of_process()
    code = 0
    try:
        yield
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise
    except BaseException:
        code = 1
        raise
    finally:
        if _number_of_process() != number:
            os._exit(code & 0xFF)


@contextlib.contextmanager
def without_arguments() -> Iterator[None]:
    """Leave only the program's name in `sys.argv`, also for code of the user's that runs outside of `undone`."""
    arguments = sys.argv
    sys.argv = arguments[:1]
    try:
        yield
    finally:
        sys.argv = arguments


@dataclass(frozen=True, slots=True)
class _Names:
    """What the names of a module or class stand for.

    Args:
        names: all of them that count, by name.
        closed: whether a public name that comes to it is taken away.
    """

    owner: str
    thing: Any
    names: Mapping[str, Any]
    closed: bool = False


def _watched_names() -> list[_Names] | None:
    """Return the public names of jax and NumPy, and the functions of loaded files; None without jax."""
    if "jax" not in sys.modules:
        return None
    public = [(name, vars(sys.modules[name])) for name in WATCHED if name in sys.modules]
    return [
        *(_Names(name, sys.modules[name], dict(names), closed=True) for name, names in public),
        *(
            _Names(name, module, {n: v for n, v in vars(module).items() if isinstance(v, types.FunctionType)})
            for name, module in _PROCESS.files.items()
        ),
    ]


def _shared_functions() -> list[_Names]:
    """Return the functions and methods of all modules that are loaded now: a module may replace one while it loads."""
    owners: list[_Names] = []
    for name, module in list(sys.modules.items()):
        if not isinstance(module, types.ModuleType) or not _counts(name, module):
            continue
        names = _callables(vars(module))
        owners.append(_Names(name, module, names))
        owners += [
            _Names(f"{name}.{kind.__qualname__}", kind, _callables(vars(kind)))
            for kind in names.values()
            if isinstance(kind, type) and kind.__module__ == name
        ]
    return owners


def _callables(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be called, by name; methods of all kinds."""
    return {
        name: value
        for name, value in list(namespace.items())
        if callable(value) or isinstance(value, staticmethod | classmethod | property)
    }


def _counts(name: str, module: types.ModuleType) -> bool:
    if name == "jax" or name.startswith("jax."):
        return "._" not in name
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and name != "__main__" and not is_installed(file)


def _names_undone(before: list[_Names]) -> Iterator[str]:
    for known in before:
        now = vars(known.thing)
        if _same(now, known.names):
            continue
        for name, value in known.names.items():
            if now.get(name) is value or (known.closed and name.startswith("__")):
                continue
            if getattr(now.get(name), "__name__", None) == f"{known.owner}.{name}":
                continue  # a submodule of the name of a function: importing it binds the name
            setattr(known.thing, name, value)
            yield f"what {known.owner}.{name} stands for"
        for name in [name for name in now if known.closed and name not in known.names and not name.startswith("_")]:
            if not isinstance(now[name], types.ModuleType):
                delattr(known.thing, name)
                yield f"{known.owner}, by adding {name}"


def _same(namespace: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Return whether all names stand for the same objects; compared in C, where an object is equal to itself."""
    try:
        return bool(namespace == names)
    except Exception:  # of another object in place of one, whose comparison raises
        return False


def _jax_settings() -> dict[str, Any] | None:
    """Return jax's settings; None before it is imported, which sets variables of its own."""
    return dict(configuration()) if "jax" in sys.modules else None


def _settings_undone(before: Mapping[str, Any]) -> Iterator[str]:
    import jax

    for name, value in configuration():
        if name in before and value != before[name]:
            jax.config.update(name, before[name])
            yield f"the setting {name} from {before[name]} to {value} (to run with it, set {name.upper()})"


def _mesh() -> Any:
    return sys.modules["jax"].sharding.get_abstract_mesh() if "jax" in sys.modules else None


def _mesh_undone(before: Any) -> Iterator[str]:
    now = _mesh()
    if now != before and before.empty:
        sys.modules["jax"].set_mesh(None)
        yield f"the mesh in context to {dict(now.shape)}"


def _variables() -> dict[str, str] | None:
    if "jax" not in sys.modules:
        return None
    return {name: os.environ[name] for name in os.environ if name.startswith(_VARIABLES)}


def _variables_undone(before: Mapping[str, str]) -> Iterator[str]:
    now = _variables() or {}
    for name in sorted({*now, *before}):
        if now.get(name) != before.get(name):
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
            yield f"the environment variable {name} from {before.get(name)!r} to {now.get(name)!r}"


def _streams() -> tuple[Any, ...]:
    """Return the standard streams, each with whether it is open."""
    return tuple((stream, not getattr(stream, "closed", True)) for stream in (sys.stdin, sys.stdout, standard_error()))


def _write_streams(before: tuple[Any, ...]) -> None:
    for descriptor, (name, (stream, was_open)) in enumerate(zip(("stdin", "stdout", "stderr"), before, strict=True)):
        if was_open and stream.closed and descriptor:
            with contextlib.suppress(OSError):  # its descriptor is closed too, or leads nowhere
                stream = open(descriptor, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # removed by the code that was there
        return "a folder that was removed"


def _numpy_errors() -> dict[str, str] | None:
    # Its first import can change nothing that was there before.
    return dict(sys.modules["numpy"].geterr()) if "numpy" in sys.modules else None


def _numpy_random() -> tuple[Any, ...] | None:
    if "numpy.random" not in sys.modules:
        return None
    name, keys, *rest = sys.modules["numpy.random"].get_state()
    return (name, keys.tobytes(), *rest)


def _write_numpy_random(state: tuple[Any, ...]) -> None:
    import numpy as np

    name, keys, *rest = state
    np.random.set_state((name, np.frombuffer(keys, np.uint32), *rest))


def _handlers() -> dict[int, Any] | None:
    """Return what each signal does; only the main thread may change that."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return {number: signal.getsignal(number) for number in _signals()}


@functools.cache
def _signals() -> tuple[int, ...]:
    """Return all signals; to make enums of them at each reading took a quarter of its time (64 of 246 us)."""
    return tuple(int(number) for number in signal.valid_signals())


def _write_handlers(before: Mapping[int, Any]) -> None:
    for number, handler in before.items():
        if handler is not None and signal.getsignal(number) != handler:  # None: set outside Python
            signal.signal(number, handler)


def _raising() -> tuple[tuple[Any, ...], ...]:
    """Return the filters that turn warnings into exceptions; those that silence one stay."""
    return tuple(entry for entry in warnings.filters if entry[0] == "error")


def _write_raising(before: tuple[tuple[Any, ...], ...]) -> None:
    kept = [entry for entry in warnings.filters if entry[0] != "error" or entry in before]
    lost = [entry for entry in before if entry not in kept]
    warnings.resetwarnings()  # which also marks the filters as changed
    warnings.filters[:] = [*lost, *kept]  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the state of this process.

    Args:
        read: it as it is now; None where there is nothing that a change could reach.
        undo: put it back as it was read; what was otherwise, in words.
    """

    read: Callable[[], Any]
    undo: Callable[[Any], Iterator[str]]


def _value(read: Callable[[], Any], write: Callable[[Any], None], words: Callable[[Any], str]) -> _Part:
    """Return a part that is one value, with what a change of it is called."""

    def undo(before: Any) -> Iterator[str]:
        now = read()
        if now != before:
            write(before)
            yield words(now)

    return _Part(read, undo)


_STATE: Mapping[str, _Part] = {
    "streams": _value(_streams, _write_streams, lambda now: "sys.stdin, sys.stdout or sys.stderr"),
    "folder": _value(_folder, os.chdir, lambda now: f"the working directory to {now}"),
    "errors": _value(
        _numpy_errors,
        lambda before: sys.modules["numpy"].seterr(**before),
        lambda now: f"NumPy's error handling to {now}",
    ),
    "signals": _value(_handlers, _write_handlers, lambda now: "how the process handles signals"),
    "warnings": _value(_raising, _write_raising, lambda now: "which warnings are exceptions"),
    "random": _value(random.getstate, random.setstate, lambda now: PYTHON_RANDOM),
    "numpy random": _value(_numpy_random, _write_numpy_random, lambda now: NUMPY_RANDOM),
    "settings": _Part(_jax_settings, _settings_undone),
    "mesh": _Part(_mesh, _mesh_undone),
    "variables": _Part(_variables, _variables_undone),
    "names": _Part(_watched_names, _names_undone),
}
