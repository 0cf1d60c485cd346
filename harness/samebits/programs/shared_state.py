"""Python state that several sides reach: each is traced as if no other had run, and nothing of it stays.

A process for each side would cost seconds, a fork once jax has started may deadlock, and a module imported afresh lacks
the functions of closures. So what code reaches is put back after each trace: names of the user's modules, attributes,
variables of closures, containers; a `functools` cache starts empty, since its keys compare equal where values do not.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import inspect
import operator
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSequence, MutableSet, Sequence
from dataclasses import dataclass, field
from typing import Any

from samebits.host.installed import is_installed

Content = dict[Any, Any]
"""What a holder has by key: of a list by the numbers of its elements, of a set each element by itself."""

_ABSENT: Any = object()
_CONTAINERS = (MutableMapping, MutableSequence, MutableSet)
_LONGEST = 10_000
"""How many elements a container may have that is looked into."""


@dataclass(slots=True)
class Holder:
    """An object that holds others: a container, a class, an object with slots, a variable of a closure or a module.

    Args:
        thing: the object; of a variable of a module, the variables of that module.
        word: what it is called.
        name: of a variable of a module.
        is_space: its keys are names of attributes or variables.
        dropped: what it has, when a trace begins, in place of what an earlier call may have stored.
    """

    thing: Any
    word: str
    name: str | None = None
    is_space: bool = False
    dropped: Content = field(default_factory=dict)

    def read(self) -> Content:
        """Read what it holds now."""
        thing = self.thing
        if self.name is not None:
            return {self.name: thing.get(self.name, _ABSENT)}
        if isinstance(thing, types.CellType):
            return {self.word: _value_of(thing)}
        if isinstance(thing, type):
            own = vars(thing).items()
            return {name: v for name, v in own if not name.startswith("__") and not inspect.ismemberdescriptor(v)}
        if isinstance(thing, MutableMapping):
            return dict(thing)
        if isinstance(thing, MutableSequence):
            return dict(enumerate(thing))
        if isinstance(thing, MutableSet):
            return {value: value for value in thing}
        return {name: getattr(thing, name, _ABSENT) for name in _slots_of(type(thing))}

    def write(self, content: Content) -> None:
        """Make it hold this and nothing else."""
        thing, known = self.thing, {key: value for key, value in content.items() if value is not _ABSENT}
        if self.name is not None:
            thing.update(known) if known else thing.pop(self.name, None)
        elif isinstance(thing, types.CellType):
            for value in known.values():
                thing.cell_contents = value
        elif isinstance(thing, MutableMapping):
            thing.clear()
            thing.update(known)
        elif isinstance(thing, MutableSequence | MutableSet):
            thing.clear()
            for value in known.values():
                thing.append(value) if isinstance(thing, MutableSequence) else thing.add(value)
        else:
            kind = type if isinstance(thing, type) else object  # whose own methods write what is frozen, too
            now = {name: value for name, value in self.read().items() if value is not _ABSENT}
            for name in now.keys() - known.keys():
                kind.__delattr__(thing, name)
            for name in [name for name in known if now.get(name, _ABSENT) is not known[name]]:
                kind.__setattr__(thing, name, known[name])

    def changed(self, before: Content, now: Content) -> list[str]:
        """Name what has changed."""
        names = [name for name in {**before, **now} if now.get(name, _ABSENT) is not before.get(name, _ABSENT)]
        names += [name for name, value in now.items() if _is_filled(value)]
        return names if self.is_space else [self.word] * bool(names)

    def at_start(self, content: Content) -> Content:
        """Return what it holds when a trace begins, given what it held before."""
        return {key: self.dropped.get(key, _fresh(value)) for key, value in content.items()}


class SharedState:
    """Finds and puts back the state that at least two functions reach."""

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        walks = [_Walk(function) for function in functions]
        sides = Counter(key for walk in walks for key in walk.holders)
        shared = {key: each for walk in walks for key, each in walk.holders.items() if sides[key] > 1}
        self.holders = list(shared.values())
        self._stored_in = set[int]().union(*(walk.stored_in for walk in walks))
        self._stored = set[str | None]().union(*(walk.stored for walk in walks))
        self.is_shared = any(name is None or name in self._stored for _, name in shared)
        """Whether two functions have code of the user's in common, or anything but modules that it names."""
        self.changed: list[str] = []
        """What the latest trace changed that was put back, in words."""
        self._active = False

    @contextlib.contextmanager
    def put_back(self) -> Iterator[None]:
        """Start a trace without what others have cached, then restore all state; within another one, do nothing."""
        if self._active or not self.holders:
            yield
            return
        before = self._read()
        self._write(before, [holder.at_start(content) for holder, content in zip(self.holders, before, strict=True)])
        start, self._active = self._read(), True
        try:
            yield
        finally:
            self._active, now = False, self._read()
            each = zip(self.holders, start, now, strict=True)
            self.changed = [word for holder, old, new in each for word in holder.changed(old, new)]
            self._write(now, before)
            if self.changed:  # what jax has cached of functions inside may depend on it
                sys.modules["jax"].clear_caches()

    def _read(self) -> list[Content]:
        return [holder.read() for holder in self.holders]

    def _write(self, now: list[Content], then: list[Content]) -> None:
        for holder, old, new in zip(self.holders, now, then, strict=True):
            if list(old) != list(new) or not all(map(operator.is_, old.values(), new.values())):
                holder.write(new)

    def drop_what_is_cached(self, traces: Sequence[Callable[[], Any]]) -> None:
        """Find what earlier calls have cached, and drop it when traces begin: they run without it, and store it again.

        Each of `traces` traces a side; None where that raises.
        """
        for holder in self.holders:
            for keys, empty in self._cached(holder):
                if any(key in holder.dropped for key in keys):  # it does without
                    continue
                before, again, are_traced = holder.dropped, set(), True
                holder.dropped = {**before, **dict.fromkeys(keys, empty)}
                for traced in traces:
                    with self.put_back():
                        are_traced = traced() is not None and are_traced
                        now = holder.read()
                        again |= {key for key in keys if not _is_nothing(now.get(key))}
                holder.dropped = {**before, **dict.fromkeys(again if are_traced else (), empty)}

    def _cached(self, holder: Holder) -> Iterator[tuple[list[Any], Any]]:
        """Yield keys whose values an earlier call may have stored, with what may have been there before."""
        content = holder.read()
        if holder.is_space:
            names = [name for name, value in content.items() if name in self._stored and not _is_nothing(value)]
            yield from (([name], empty) for name in names for empty in (None, _ABSENT))
        elif content and id(holder.thing) in self._stored_in:
            yield list(content), _ABSENT


def values_around(function: Callable[..., Any]) -> Iterator[Any]:
    """Yield the values of the variables, attributes and elements that a function reaches."""
    for holder in _Walk(function).holders.values():
        yield from holder.read().values()


@contextlib.contextmanager
def standing_for(function: Callable[..., Any], known: Any, other: Any) -> Iterator[None]:
    """Replace an object by another one, inside, in all variables and containers that a function reaches."""

    def is_known(value: Any) -> bool:
        return type(value) is type(known) and bool(value == known)

    contents = [(holder, holder.read()) for holder in _Walk(function).holders.values()]
    contents = [(holder, content) for holder, content in contents if any(map(is_known, content.values()))]
    try:
        for holder, content in contents:
            holder.write({key: other if is_known(value) else value for key, value in content.items()})
        yield
    finally:
        for holder, content in contents:
            holder.write(content)


class _Walk:
    """Collects what a function reaches: functions, their variables, and what these hold; only modules of the user's."""

    def __init__(self, function: Any) -> None:
        self.holders: dict[tuple[int, str | None], Holder] = {}
        self.stored_in: set[int] = set()
        self.stored: set[str | None] = set()
        self._todo: list[tuple[Any, str, bool, frozenset[str]]] = [(function, "", False, frozenset())]
        seen: dict[Any, Any] = {}
        while self._todo:
            value, word, storing, names = self._todo.pop()
            if storing:
                self.stored_in.add(id(value))
            key = id(value), names if isinstance(value, types.ModuleType) else None
            if key not in seen:
                seen[key] = value  # which no other gets the id of meanwhile
                self._visit(value, word, storing, names)

    def _visit(self, value: Any, word: str, storing: bool, names: frozenset[str]) -> None:
        if isinstance(value, types.ModuleType):
            if _is_users(value.__name__):
                self._variables(vars(value), names, storing)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, _WRAPPERS):
            self._push([getattr(value, name, None) for name in _WRAPPED], word, storing)
        elif isinstance(value, (*_CONTAINERS, tuple)):
            if len(value) <= _LONGEST:
                if not isinstance(value, tuple):
                    self._hold(value, word)
                self._push(value.values() if isinstance(value, MutableMapping) else value, word, False)
        elif isinstance(value, type):
            if _is_users(value.__module__):
                self._hold(value, value.__name__, is_space=True)
                own = [v for name, v in vars(value).items() if not name.startswith("__") or callable(v)]
                self._push((*own, *value.__bases__), word, True)
        else:
            kind, space = type(value), getattr(value, "__dict__", None)
            slots = _slots_of(kind)
            if slots:
                self._hold(value, kind.__name__, is_space=True)
            inside = [getattr(value, name, None) for name in slots]
            is_open = _is_users(kind.__module__) or kind.__module__.partition(".")[0] in sys.stdlib_module_names
            if isinstance(space, dict) and is_open:
                self._hold(space, word, is_space=True)
            if isinstance(space, dict) and (is_open or callable(value)):
                inside += space.values()
            self._push((*inside, kind), word, True)

    def _function(self, function: types.FunctionType) -> None:
        names, stored = _of_code(function.__code__)
        storing = None in stored
        if not function.__name__.startswith("__") or function.__name__ == "__call__":
            self.stored |= stored
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._hold(cell, name, is_space=True)
            self._push((_value_of(cell),), name, storing)
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        self._push((*defaults, *vars(function).values()), function.__name__, storing)
        if not is_installed(function.__code__.co_filename):
            self._hold(vars(function), function.__name__, is_space=True)
            self._variables(function.__globals__, names, storing)

    def _variables(self, space: dict[str, Any], names: frozenset[str], storing: bool) -> None:
        """Visit the variables of a module that code names; of a module among these, again those that it names."""
        for name in names:
            self.holders.setdefault((id(space), name), Holder(space, name, name, is_space=True))
            self._push((space.get(name),), name, storing, names)

    def _hold(self, thing: Any, word: str, *, is_space: bool = False) -> None:
        self.holders.setdefault((id(thing), None), Holder(thing, word, is_space=is_space))

    def _push(self, values: Iterable[Any], word: str, storing: bool, names: frozenset[str] = frozenset()) -> None:
        self._todo += [(value, word, storing, names) for value in values]


_WRAPPERS = (*(types.MethodType, functools.partial, staticmethod, classmethod, property), functools._lru_cache_wrapper)
_WRAPPED = ("__self__", "__func__", "func", "args", "keywords", "fget", "__wrapped__")
"""The attributes by which these hold what they call."""

_STORING = frozenset({"setdefault", "update", "add", "append", "extend", "__setitem__"})
_STORES = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF"))


@functools.lru_cache(maxsize=4096)
def _of_code(code: types.CodeType) -> tuple[frozenset[str], frozenset[str | None]]:
    """Return the names in a function's code, and those that it assigns; None among these where it stores elements."""
    inner = [_of_code(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    stored: set[str | None] = set() if _STORING.isdisjoint(code.co_names) else {None}
    if not _STORES.isdisjoint(code.co_code[::2]):
        stored |= {each.argval for each in dis.get_instructions(code) if each.opcode in _STORES}
    names = frozenset(code.co_names).union(*(each[0] for each in inner))
    return names, frozenset(stored).union(*(each[1] for each in inner))


def _is_users(module: str) -> bool:
    """Tell whether a module is the user's own: its file is not in an installed package, or it has none."""
    loaded = sys.modules.get(module) or sys.modules.get(module.partition(".")[0])
    file = getattr(loaded, "__file__", None)
    return module == "__main__" or loaded is None or (file is not None and not is_installed(file))


def _slots_of(kind: type) -> list[str]:
    """Name the slots that the user's classes give to objects of a type."""
    users = [each for each in kind.__mro__ if _is_users(each.__module__)]
    return [name for each in users for name, value in vars(each).items() if inspect.ismemberdescriptor(value)]


def _value_of(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return _ABSENT


def _is_nothing(value: Any) -> bool:
    return value is None or value is _ABSENT


def _fresh(value: Any) -> Any:
    """Return an empty cache for a `functools` cache, and anything else as it is.

    Its values are computed outside of the trace: a tracer in a cache would be an error in the next trace.
    """
    if not isinstance(value, functools._lru_cache_wrapper):
        return value
    fresh = functools.lru_cache(**value.cache_parameters())(_computed_now(value.__wrapped__))
    vars(fresh).update(vars(value))
    return fresh


def _computed_now(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def computed(*args: Any, **keywords: Any) -> Any:
        with sys.modules["jax"].ensure_compile_time_eval():
            return function(*args, **keywords)

    return computed


def _is_filled(value: Any) -> bool:
    return isinstance(value, functools._lru_cache_wrapper) and value.cache_info().currsize > 0
