"""Detects, undoes and records global state that user code changes when it is imported or called.

Settings of jax, the variables that its compilers read, the settings of the process (see `process_state`), and what
the public names of jax and NumPy, and the functions of loaded files, stand for: a pair whose module changes one of them
would decide the verdicts on the pairs after it. What stays unseen: attributes of classes, and private modules.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from samebits.host.environment import configuration
from samebits.host.installed import is_installed
from samebits.host.process_state import fresh_random_numbers, put_back, read_state


# What the functions of loaded modules stand for: a module that replaces one while it is imported decides other pairs.
class SharedFunctions:
    """The functions and methods of all modules that are loaded now."""

    def __init__(self) -> None:
        self._owners: list[tuple[str, Any, dict[str, Any]]] = []
        for name, module in list(sys.modules.items()):
            if not isinstance(module, types.ModuleType) or not _counts(name, module):
                continue
            names = _callables(vars(module))
            self._owners.append((name, module, names))
            self._owners += [
                (f"{name}.{kind.__qualname__}", kind, _callables(vars(kind)))
                for kind in names.values()
                if isinstance(kind, type) and kind.__module__ == name
            ]

    def put_back(self) -> list[str]:
        """Put back what stands for something else now, and say what that is, in words."""
        return [f"what {text} stands for" for text in self._changed()]

    def _changed(self) -> Iterator[str]:
        for owner, thing, names in self._owners:
            now = vars(thing)
            for name in [name for name, value in names.items() if now.get(name) is not value]:
                if isinstance(now.get(name), types.ModuleType):
                    continue  # of the name of a function in its package: importing it binds the name
                setattr(thing, name, names[name])
                yield f"{owner}.{name}"


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
        runs: how often the user's code ran.
    """

    def __init__(self) -> None:
        self.files: dict[str, types.ModuleType] = {}
        self.notes: dict[str, bool] = {}
        self.runs = 0


_PROCESS = _Process()


@dataclass(frozen=True, slots=True)
class _State:
    settings: Mapping[str, Any]
    mesh: Any
    variables: Mapping[str, str]
    names: Mapping[str, Mapping[str, Any]]


def watch(module: types.ModuleType) -> None:
    """Have the functions of a loaded file watched from now on."""
    _PROCESS.files[module.__name__] = module


def note(text: str, *, lasting: bool = True) -> None:
    """Record a notice for the user; the same text counts once.

    Args:
        text: one line.
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
        importing: whether a module is imported: numbers that it draws from Python's random generator are undone
            without a note, and functions that it replaces in modules loaded before (`SharedFunctions`) are put back.

    Yields:
        What changed, in words; filled when the context ends.
    """
    changed: list[str] = []
    _PROCESS.runs += 1
    with fresh_random_numbers():
        # The first import of jax sets variables of its own; there is nothing yet that a change could reach.
        before = _state() if "jax" in sys.modules else None
        shared = SharedFunctions() if importing else None
        process, arguments = read_state(), sys.argv
        sys.argv = arguments[:1]
        try:
            with forked_ended():
                yield changed
        finally:
            sys.argv = arguments
            changed += [*put_back(process, may_draw=importing), *(_undo(before) if before is not None else ())]
            changed += shared.put_back() if shared is not None else ()
            _tell(who, changed, before)


def _tell(who: str, changed: list[str], before: _State | None) -> None:
    """Note down what was undone, where anything was."""
    if changed:
        if before is not None:
            # What was traced meanwhile may hold what was changed.
            sys.modules["jax"].clear_caches()
        note(f"{who} changed {'; '.join(changed)}. It was undone: no other code ran with it")


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


def _state() -> _State:
    import jax

    return _State(
        settings=dict(configuration()),
        mesh=jax.sharding.get_abstract_mesh(),
        variables=_variables(),
        names={name: dict(vars(module)) for name, module in _modules()},
    )


def _modules() -> list[tuple[str, types.ModuleType]]:
    known = [(name, sys.modules[name]) for name in WATCHED if name in sys.modules]
    return known + list(_PROCESS.files.items())


def _variables() -> dict[str, str]:
    return {name: os.environ[name] for name in os.environ if name.startswith(_VARIABLES)}


def _undo(before: _State) -> list[str]:
    """Put everything back that is not as it was; what that is, in words."""
    return [*_settings(before), *_mesh(before), *_variables_undone(before), *_names(before)]


def _settings(before: _State) -> Iterator[str]:
    import jax

    for name, value in configuration():
        if name in before.settings and value != before.settings[name]:
            jax.config.update(name, before.settings[name])
            yield f"the setting {name} from {before.settings[name]} to {value} (to run with it, set {name.upper()})"


def _mesh(before: _State) -> Iterator[str]:
    import jax

    now = jax.sharding.get_abstract_mesh()
    if now != before.mesh and before.mesh.empty:
        jax.set_mesh(None)
        yield f"the mesh in context to {dict(now.shape)}"


def _variables_undone(before: _State) -> Iterator[str]:
    now = _variables()
    for name in sorted({*now, *before.variables}):
        if now.get(name) != before.variables.get(name):
            if name in before.variables:
                os.environ[name] = before.variables[name]
            else:
                del os.environ[name]
            yield f"the environment variable {name} from {before.variables.get(name)!r} to {now.get(name)!r}"


def _names(before: _State) -> Iterator[str]:
    for module, names in before.names.items():
        namespace = vars(_PROCESS.files.get(module) or sys.modules[module])
        if _same(namespace, names):
            continue
        for name, value in names.items():
            counts = isinstance(value, types.FunctionType) if module in _PROCESS.files else not name.startswith("__")
            if counts and namespace.get(name) is not value:
                namespace[name] = value
                yield f"what {module}.{name} stands for"
        for name in [
            name
            for name in namespace
            if name not in names and module not in _PROCESS.files and not name.startswith("_")
        ]:
            if not isinstance(namespace[name], types.ModuleType):
                del namespace[name]
                yield f"{module}, by adding {name}"


def _same(namespace: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Return whether all names stand for the same objects; compared in C, where an object is equal to itself."""
    try:
        return bool(namespace == names)
    except Exception:  # of another object in place of one, whose comparison raises
        return False
