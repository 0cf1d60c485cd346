"""Python state that several sides reach: each is traced as if no other had run, and nothing of it stays.

A process for each side would cost seconds, a fork once jax has started may deadlock, and a module imported afresh lacks
the functions of closures. So what code reaches is put back after each trace: names of the user's modules, attributes,
variables of closures, containers; a `functools` cache starts empty, since its keys compare equal where values do not.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import sys
import types
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
)
from dataclasses import dataclass, field
from typing import Any

from samebits.host.installed import is_installed

Content = list[tuple[Any, Any]]
"""What a holder has: keys and values; of a list the numbers of its elements, of a set each element twice."""

_ABSENT: Any = object()
_CONTAINERS = (MutableMapping, MutableSequence, MutableSet)
_LONGEST = 10_000
"""How many elements a container may have that is looked into."""
_STORING = frozenset({"setdefault", "update", "add", "append", "extend", "__setitem__"})
_STORE = dis.opmap["STORE_SUBSCR"]
_STORE_NAMES = {name: dis.opmap[name] for name in ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")}


@dataclass(slots=True)
class Holder:
    """An object that holds others: a container, a variable of a closure, a class, or a namespace.

    Args:
        thing: the object.
        word: what it is called.
        is_space: its keys are names of attributes or variables.
        names: of a class and of a namespace, those that count.
        is_stored: code stores elements in it, as in a cache.
        dropped: what it has, when a trace begins, in place of what an earlier call may have stored.
    """

    thing: Any
    word: str
    is_space: bool = False
    names: frozenset[str] | None = None
    is_stored: bool = False
    dropped: Mapping[Any, Any] = field(default_factory=dict)

    def read(self) -> Content:
        """What it has now."""
        thing = self.thing
        if self.names is not None:
            space = vars(thing) if isinstance(thing, type) else thing
            return [(name, space.get(name, _ABSENT)) for name in self.names]
        if isinstance(thing, types.CellType):
            return [(self.word, _value_of(thing))]
        if isinstance(thing, MutableMapping):
            return list(thing.items())
        return list(enumerate(thing)) if isinstance(thing, MutableSequence) else [(value, value) for value in thing]

    def write(self, content: Content) -> None:
        """Have it hold this and nothing else."""
        thing, known = self.thing, [item for item in content if item[1] is not _ABSENT]
        if isinstance(thing, type):
            for name, value in content:
                if value is not vars(thing).get(name, _ABSENT):
                    delattr(thing, name) if value is _ABSENT else setattr(thing, name, value)
        elif self.names is not None:
            for name in self.names - dict(known).keys():
                thing.pop(name, None)
            thing.update(known)
        elif isinstance(thing, types.CellType):
            for _, value in known:
                thing.cell_contents = value
        else:
            thing.clear()
            for key, value in known:
                if isinstance(thing, MutableMapping):
                    thing[key] = value
                else:
                    thing.append(value) if isinstance(thing, MutableSequence) else thing.add(value)

    def changed(self, before: Content, now: Content) -> list[str]:
        """What is not as it was, in words."""
        if self.names is None:
            return [self.word]
        known = dict(before)
        return [name for name, value in now if known.get(name, _ABSENT) is not value or _is_filled(value)]

    def at_start(self, content: Content) -> Content:
        """What it has when a trace begins, given what it had before."""
        return [(key, self.dropped[key] if key in self.dropped else _fresh(value)) for key, value in content]

    def caches(self, names: Collection[str]) -> Iterator[tuple[list[Any], Any]]:
        """Keys whose values may be what an earlier call has stored, and what stood for them before.

        Args:
            names: those of attributes and variables that code stores.
        """
        content = self.read()
        if self.is_space:
            for key in [key for key, value in content if key in names and not _is_nothing(value)]:
                yield [key], None
                yield [key], _ABSENT
        elif self.is_stored and content:
            yield [key for key, _ in content], _ABSENT


class SharedState:
    """The state that at least two functions reach.

    Args:
        functions: the sides.
    """

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        walks = [_Walk(function) for function in functions]
        slots = Counter(slot for walk in walks for slot in walk.slots)
        shared: dict[int, set[str | None]] = {}
        for (number, name), sides in slots.items():
            if sides > 1:
                shared.setdefault(number, set()).add(name)
        holders = {number: holder for walk in walks for number, holder in walk.holders.items() if number in shared}
        stored = {number for walk in walks for number in walk.stored}
        self._names = {name for walk in walks for name in walk.stored_names}
        for number, holder in holders.items():
            holder.is_stored = number in stored
            holder.names = None if None in shared[number] else frozenset(filter(None, shared[number]))
        self.holders = list(holders.values())
        both = Counter(number for walk in walks for number in walk.own)
        self.is_shared = any(sides > 1 for sides in both.values()) or any(name in self._names for _, name in slots)
        """Whether two functions have code of the user's in common, or anything but modules that it names."""
        self.changed: list[str] = []
        """What the latest trace changed that was put back, in words."""
        self._active = False

    @contextlib.contextmanager
    def put_back(self) -> Iterator[None]:
        """Inside, code of the user's is traced; then all is as it was before. Inside of another one it does nothing."""
        if self._active or not self.holders:
            yield
            return
        before = [holder.read() for holder in self.holders]
        start = [holder.at_start(content) for holder, content in zip(self.holders, before, strict=True)]
        for holder, old, new in zip(self.holders, before, start, strict=True):
            if not _same(old, new):
                holder.write(new)
        self._active = True
        try:
            yield
        finally:
            self._active, self.changed = False, []
            for holder, old, new in zip(self.holders, before, start, strict=True):
                now = holder.read()
                if not _same(now, new) or any(_is_filled(value) for _, value in now):
                    self.changed += holder.changed(new, now)
                if not _same(now, old):
                    holder.write(old)
            if self.changed:  # what jax has cached of functions inside may depend on it
                sys.modules["jax"].clear_caches()

    def drop_what_is_cached(self, traces: Iterable[Callable[[], Any]]) -> None:
        """Have a trace begin without what traces store again, where they do without it: an earlier call has stored it.

        Args:
            traces: each traces a side; None where that raises.
        """
        for holder in self.holders:
            for keys, empty in holder.caches(self._names):
                if any(key in holder.dropped for key in keys):
                    continue
                before, again, are_traced = holder.dropped, set(), True
                holder.dropped = {**before, **dict.fromkeys(keys, empty)}
                for traced in traces:
                    with self.put_back():
                        are_traced = traced() is not None and are_traced
                        now = dict(holder.read())
                        again |= {key for key in keys if not _is_nothing(now.get(key))}
                holder.dropped = {**before, **dict.fromkeys(again if are_traced else (), empty)}


@contextlib.contextmanager
def standing_for(function: Callable[..., Any], known: Any, other: Any) -> Iterator[None]:
    """Inside, another object stands wherever code that a function reaches has this one in a variable."""
    walk, changed = _Walk(function), []
    for number, holder in walk.holders.items():
        names = frozenset(name for each, name in walk.slots if each == number and name is not None)
        holder.names = names or None
        content = holder.read()
        if any(type(value) is type(known) and value == known for _, value in content):
            changed.append((holder, content))
    try:
        for holder, content in changed:
            is_known = [type(value) is type(known) and value == known for _, value in content]
            holder.write([(k, other if same else v) for (k, v), same in zip(content, is_known, strict=True)])
        yield
    finally:
        for holder, content in changed:
            holder.write(content)


class _Walk:
    """What a function reaches: functions, their variables, and what these hold; of modules the user's alone."""

    def __init__(self, function: Any) -> None:
        self.holders: dict[int, Holder] = {}
        self.slots: set[tuple[int, str | None]] = set()
        self.own: set[int] = set()
        self.stored: set[int] = set()
        self.stored_names: set[str] = set()
        self._seen: dict[int, Any] = {}
        self._todo: list[tuple[Any, str, bool, frozenset[str]]] = [(function, "", False, frozenset())]
        while self._todo:
            value, word, storing, names = self._todo.pop()
            if isinstance(value, _CONTAINERS) and storing:
                self.stored.add(id(value))
            if isinstance(value, types.ModuleType):
                if _is_users(value.__name__):
                    self._namespace(vars(value), word, names, storing)
            elif id(value) not in self._seen:
                self._seen[id(value)] = value
                self._visit(value, word, storing)

    def _visit(self, value: Any, word: str, storing: bool) -> None:
        home = getattr(value, "__module__", None) or type(value).__module__
        if not isinstance(value, tuple) and _is_users(str(home)):
            self.own.add(id(value))
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._push((value.__self__, value.__func__), word, storing)
        elif isinstance(value, functools.partial):
            self._push((value.func, *value.args, *value.keywords.values()), word, storing)
        elif isinstance(value, staticmethod | classmethod | functools._lru_cache_wrapper):
            self._push((value.__wrapped__,), word, storing)
        elif isinstance(value, property):
            self._push((value.fget,), word, storing)
        elif isinstance(value, (*_CONTAINERS, tuple)):
            if len(value) <= _LONGEST:
                if not isinstance(value, tuple):
                    self._hold(value, word)
                self._push(value.values() if isinstance(value, MutableMapping) else value, word, False)
        elif isinstance(value, type):
            if _is_users(value.__module__):
                methods = [each for each in vars(value).values() if isinstance(each, types.FunctionType)]
                names = frozenset(vars(value)).union(*(_of_code(method.__code__)[0] for method in methods))
                self._namespace(value, value.__name__, frozenset(n for n in names if not n.startswith("__")), True)
                self._push((*methods, *value.__bases__), word, storing)
        else:
            space, kind = getattr(value, "__dict__", None), type(value).__module__
            is_open = _is_users(kind) or kind.partition(".")[0] in sys.stdlib_module_names
            if isinstance(space, dict) and is_open:
                self._hold(space, word, is_space=True)
            if isinstance(space, dict) and (is_open or callable(value)):
                self._push((*space.values(), type(value), getattr(value, "__wrapped__", None)), word, True)

    def _function(self, function: types.FunctionType) -> None:
        names, storing, stored = _of_code(function.__code__)
        self.stored_names |= (
            stored if not function.__name__.startswith("__") or function.__name__ == "__call__" else set()
        )
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._hold(cell, name, is_space=True)
            self._push((_value_of(cell),), name, storing)
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        self._push((*defaults, *vars(function).values()), function.__name__, storing)
        if not is_installed(function.__code__.co_filename):
            self._hold(vars(function), function.__name__, is_space=True)
            self._namespace(function.__globals__, "", names, storing)

    def _namespace(self, space: Any, word: str, names: frozenset[str], storing: bool) -> None:
        values = vars(space) if isinstance(space, type) else space
        self.holders.setdefault(id(space), Holder(space, word, is_space=True))
        for name in names:
            self.slots.add((id(space), name))
            if name in values:
                self._todo.append((values[name], name, storing, names))

    def _hold(self, thing: Any, word: str, *, is_space: bool = False) -> None:
        self.own.add(id(thing))
        self.holders.setdefault(id(thing), Holder(thing, word, is_space))
        self.slots.add((id(thing), None))

    def _push(self, values: Iterable[Any], word: str, storing: bool) -> None:
        self._todo += [(value, word, storing, frozenset()) for value in values if not isinstance(value, _PLAIN)]


_PLAIN = (type(None), bool, int, float, complex, str, bytes)


@functools.lru_cache(maxsize=4096)
def _of_code(code: types.CodeType) -> tuple[frozenset[str], bool, frozenset[str]]:
    """The names that a function mentions, whether it stores elements, and the names of what else it stores."""
    inner = [_of_code(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    operations = set(code.co_code[::2])
    stored: set[str] = set()
    if not operations.isdisjoint(_STORE_NAMES.values()):
        stored = {each.argval for each in dis.get_instructions(code) if each.opname in _STORE_NAMES}
    names = frozenset(code.co_names).union(*(each[0] for each in inner))
    stores = _STORE in operations or not _STORING.isdisjoint(code.co_names) or any(each[1] for each in inner)
    return names, stores, frozenset(stored).union(*(each[2] for each in inner))


def _is_users(module: str) -> bool:
    """Whether a module is code of the user's: of a file that is not installed, or of none."""
    loaded = sys.modules.get(module) or sys.modules.get(module.partition(".")[0])
    file = getattr(loaded, "__file__", None)
    return module == "__main__" or loaded is None or (file is not None and not is_installed(file))


def _value_of(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return _ABSENT


def _is_nothing(value: Any) -> bool:
    return value is None or value is _ABSENT


def _fresh(value: Any) -> Any:
    """A cache like this one that is empty; anything else, as it is.

    What it has is computed outside of the trace: what belongs to one would be an error in the next.
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


def _same(first: Content, second: Content) -> bool:
    return len(first) == len(second) and all(
        a[1] is b[1] and (a[0] is b[0] or a[0] == b[0]) for a, b in zip(first, second, strict=True)
    )
