"""Whether code asks for the mesh while it is traced: a program that does not is the same on every mesh.

In auto mode a program is one of whole arrays. Where the code of a side never looks at the mesh, the program that is
traced without one is that of every mesh, whatever the number of devices. The devices and the platform of the process
that traces are noted too: they need not be those on which the program will run.
"""

from __future__ import annotations

import functools
import gc
import inspect
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any, Literal
from weakref import WeakKeyDictionary

import jax
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from samebits.errors import SamebitsError
from samebits.host.isolation import user_code_runs
from samebits.interpret.equation import JAX, is_machinery, short
from samebits.programs.program_cache import Program, Programs
from samebits.programs.sides import Site, TracedSides
from samebits.schema.pair import Pair

# Notes who calls certain functions while code is traced, at no cost to calls of any other function.
_PLACE = "where calls are noted"
Note = Callable[[FrameType, FunctionType], None]
"""Called for each call that is noted, with the frame of the caller and the function."""


class WatchedFunctions:
    """The functions and methods that there are of some files, whatever wraps or holds them.

    Their code is replaced and not their names, so that calls by who imported them before are noted too.
    """

    def __init__(self, files: Collection[str]) -> None:
        self._functions = [function for function in _all_functions() if function.__code__.co_filename in files]
        self._originals = [*map(_copy, self._functions)]
        self._replacements = [_replacement(function, number, self) for number, function in enumerate(self._functions)]
        self._note: Note = lambda caller, function: None

    @contextmanager
    def noting(self, note: Note) -> Iterator[None]:
        """Note calls of the functions, in any thread; what they do and return is unchanged."""
        before, codes = self._note, [function.__code__ for function in self._functions]
        self._note = note
        _replace(self._functions, self._replacements)
        try:
            yield
        finally:
            _replace(self._functions, codes)
            self._note = before

    def original(self, number: int) -> FunctionType:
        """Note a call, and return the function as it was; replaced code calls this."""
        function = self._originals[number]
        try:
            caller = sys._getframe(2)
        except ValueError:  # called from C++, without a Python frame
            return function
        self._note(caller, function)
        return function


def _replace(functions: Sequence[FunctionType], codes: Sequence[CodeType]) -> None:
    for function, code in zip(functions, codes, strict=True):
        function.__code__ = code


def _all_functions() -> list[FunctionType]:
    """List the functions of this process."""
    is_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()  # what is frozen is not listed
    try:
        return [thing for thing in gc.get_objects() if type(thing) is FunctionType]
    finally:
        if is_frozen:
            gc.freeze()


def _copy(function: FunctionType) -> FunctionType:
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    return copy


def _replacement(function: FunctionType, number: int, watched: WatchedFunctions) -> CodeType:
    """Code that notes a call and calls the function as it was: of the same file, so that jax skips its frame too."""
    code = function.__code__
    # A function retains its closure: code can be replaced only by code with as many free variables.
    closed = ", ".join(code.co_freevars)
    lines = [
        f"def outer({closed}):",
        "    def inner(*args, **kwargs):",
        f"        return {_PLACE!r}.original({number})(*args, **kwargs)",
        f"        ({closed},)" if closed else "",
        "    return inner",
    ]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), code.co_filename, "exec"), namespace)
    inner: CodeType = namespace["outer"](*code.co_freevars).__code__
    return inner.replace(
        # As a constant it needs no name in the modules of jax; an import would run at each call.
        co_consts=tuple(watched if constant == _PLACE else constant for constant in inner.co_consts),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=code.co_firstlineno,
    )


About = Literal["mesh", "devices", "platform"]
"""What code asks about: a mesh, or the devices or the platform of the process."""

_PLAIN = ("axis_names", "axis_sizes", "axis_types", "devices", "size")
"""What meshes keep as plain attributes, which are read without a call."""


_ALL: frozenset[About] = frozenset({"mesh", "devices", "platform"})
_BACKEND: frozenset[About] = frozenset({"devices", "platform"})
_OF_DEVICES = frozenset(
    {
        "device_count",
        "local_device_count",
        "process_index",
        "process_count",
        "process_indices",
        "host_id",
        "host_count",
        "host_ids",
    }
)


@dataclass(frozen=True, slots=True)
class Query:
    """What code asked while it was traced.

    Args:
        asks: what the answer is about.
        name: of the function or the attribute that answered.
    """

    place: str
    asks: frozenset[About]
    name: str

    @property
    def count(self) -> str:
        """The number that stands for what it asks about devices or processes."""
        kind = "process" if self.name.startswith(("process", "host")) else "device"
        return f"jax.{'local_device' if self.name.startswith('local') else kind}_count()"


class _Watchers:
    """What is watched in this process.

    Args:
        active: what those collect that are watching; the innermost last.
        asked: what code asked about since caches were emptied: they may have the answers.
        runs: how often the user's code had run when the last of those ended; None before the first.
    """

    def __init__(self) -> None:
        self.active: list[list[Query]] = []
        self.asked: set[About] = set()
        self.runs: int | None = None


_WATCHERS = _Watchers()


@contextmanager
def process_queries() -> Iterator[list[Query]]:
    """As `mesh_queries`, for devices and the platform alone: that code asked for a mesh empties no caches.

    Emptying them at each of the many programs of a proof takes three times as long as the proof.
    """
    with _collected(_BACKEND) as queries:
        yield queries


@contextmanager
def mesh_queries() -> Iterator[list[Query]]:
    """Collect the lines of user code that ask jax for a mesh, or about one, about devices, processes or the platform.

    Nothing that such code asked before is remembered: caches of jax, of `functools` and of meshes are emptied, unless
    all code that ran since they were was watched and asked nothing. To pass a sharding on is not a query: in auto mode
    it says the same on every mesh. Inside another one, both collect.
    """
    with _collected(_ALL) as queries:
        yield queries


@contextmanager
def _collected(about: frozenset[About]) -> Iterator[list[Query]]:
    queries: list[Query] = []
    _WATCHERS.active.append(queries)
    try:
        does_begin = len(_WATCHERS.active) == 1
        if (does_begin and _WATCHERS.runs != user_code_runs()) or about & _WATCHERS.asked:
            _forget()
            _WATCHERS.asked.clear()
        if not does_begin:
            yield queries
        else:
            with _watching():
                yield queries
            _WATCHERS.runs = user_code_runs()
    finally:
        # The innermost ends first.
        _WATCHERS.active.pop()


@contextmanager
def _watching() -> Iterator[None]:
    """Have queries noted for all that are active."""
    of_file = _asked_by_file()
    thread = threading.get_ident()

    def note(caller: FrameType | None, asks: frozenset[About], name: str) -> None:
        if threading.get_ident() != thread:
            return  # programs are compiled in others meanwhile
        while caller is not None and caller.f_code.co_filename == functools.__file__:
            caller = caller.f_back  # of a cached property
        if caller is None:
            return
        # Libraries pass meshes on; where they ask for the platform, they choose what is traced.
        file = caller.f_code.co_filename
        if is_machinery(file):
            asks -= {"mesh"}
        if asks and not is_machinery(file, JAX):
            query = Query(f"{short(file)}:{caller.f_lineno}", asks, name)
            _WATCHERS.asked |= asks
            for queries in _WATCHERS.active:
                queries.append(query)

    def call(caller: FrameType, function: FunctionType) -> None:
        if not _is_of_jax(caller.f_code.co_filename):  # most calls
            code = function.__code__
            note(caller, _asks(code.co_name, of_file[code.co_filename]), code.co_name)

    for kind in (Mesh, AbstractMesh):
        for name in _PLAIN:
            if name not in vars(kind):
                setattr(kind, name, _Watched(name, note))
    try:
        with _functions().noting(call):
            yield
    finally:
        for kind in (Mesh, AbstractMesh):
            for name in _PLAIN:
                if isinstance(vars(kind).get(name), _Watched):
                    delattr(kind, name)


@functools.lru_cache(maxsize=4096)
def _is_of_jax(file: str) -> bool:
    """Return whether calls from a file do not count, as jax asks itself."""
    return is_machinery(file, JAX)


@functools.cache
def _functions() -> WatchedFunctions:
    return WatchedFunctions(frozenset(_asked_by_file()))


def platform_of_process(queries: Iterable[Query], platform: str | None) -> str | None:
    """Explain why a program is not the one of a platform, in words: its code asked for that of this process."""
    here = jax.default_backend()
    place = next((query.place for query in queries if "platform" in query.asks), None)
    if place is None or platform in (None, here):
        return None
    return f"{place} asks for the platform while it is traced, which is {here} here"


def conditions_of(queries: Iterable[Query], platform: str | None) -> tuple[str, ...]:
    """Return what holds of this process, of what code asked about it."""
    queries = tuple(queries)
    does_ask = any("platform" in query.asks for query in queries)
    own = (f"the platform is {platform or jax.default_backend()}",) if does_ask else ()
    counts = {query.count: f"{_COUNTED}{query.place}" for query in reversed(queries) if "devices" in query.asks}
    return *own, *(f"{count} is {COUNTS[count]()}{where}" for count, where in counts.items())


def place_of_devices(conditions: Iterable[str]) -> str | None:
    """The line that asks for the devices of this process, of what a proof takes as given; None where none does."""
    return next((text.partition(_COUNTED)[2] for text in conditions if _COUNTED in text), None)


def other_devices(place: str | None, devices: int) -> str | None:
    """Explain why what is traced for a mesh need not be what runs there, in words; None where it is."""
    here = jax.device_count()
    if place is None or here == devices:
        return None
    return f"{place} asks for the devices of the process, which are {here} here, and {devices} on the mesh"


_COUNTED = ", as asked at "
COUNTS: dict[str, Callable[[], int]] = {
    "jax.device_count()": jax.device_count,
    "jax.local_device_count()": jax.local_device_count,
    "jax.process_count()": jax.process_count,
}
"""The numbers of this process that `Query.count` names."""


@functools.cache
def _asked_by_file() -> dict[str, frozenset[About]]:
    """By file of jax, what its functions tell."""
    mesh: frozenset[About] = frozenset({"mesh"})
    files = {
        inspect.getfile(inspect.unwrap(name)): mesh for name in (AbstractMesh, NamedSharding, jax.sharding.get_mesh)
    }
    files[inspect.getfile(mesh_utils.create_device_mesh)] = _ALL
    return {**files, inspect.getfile(inspect.unwrap(jax.devices)): _BACKEND}


def _asks(name: str, of_file: frozenset[About]) -> frozenset[About]:
    """Return what a function of jax tells, of what the functions of its file do; a device tells its platform too."""
    if name == "make_mesh":
        return _ALL
    if name == "default_backend":
        return frozenset({"platform"})
    return frozenset({"devices"}) if name in _OF_DEVICES else of_file


class _Watched:
    """An attribute of instances whose readers are noted."""

    def __init__(self, name: str, note: Callable[[FrameType | None, frozenset[About], str], None]) -> None:
        self._name, self._note = name, note
        self._asks: frozenset[About] = frozenset({"mesh", "platform"} if name == "devices" else {"mesh"})

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        caller = sys._getframe().f_back
        if caller is not None and not _is_of_jax(caller.f_code.co_filename):
            self._note(caller, self._asks, self._name)
        try:
            return instance.__dict__[self._name]
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value


def _forget() -> None:
    """Empty the caches behind which a question for the mesh is not asked again.

    jax keeps the programs of functions that it has traced, `functools` the results of the user's, and a mesh its
    properties.
    """
    jax.clear_caches()
    caches = type(_cached)
    kinds = {caches, Mesh, AbstractMesh, *Mesh.__subclasses__(), *AbstractMesh.__subclasses__()}
    # An instance refers to its class: 2.4x as fast as `gc.get_objects`, which makes a list of all objects.
    for thing in [thing for thing in gc.get_referrers(*kinds) if type(thing) in kinds]:
        if type(thing) is caches:
            code = getattr(inspect.unwrap(thing), "__code__", None)
            if code is not None and not is_machinery(code.co_filename):
                thing.cache_clear()
        else:
            kind: type = type(thing)
            for name in _cached(kind):
                vars(thing).pop(name, None)


@functools.cache
def _cached(kind: type) -> tuple[str, ...]:
    """Return the cached properties of a class."""
    classes = [vars(base).items() for base in kind.__mro__]
    return tuple(name for own in classes for name, value in own if isinstance(value, functools.cached_property))


# What the sides of a pair ask about the process that traces them, at the sizes of a case.
class SideQueries:
    """Collects what sides ask while they are traced; what was traced without looking is traced again, apart."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._apart: Programs | None = None
        self._asked: WeakKeyDictionary[Program, tuple[Query, ...]] = WeakKeyDictionary()
        self._is_on = False

    @contextmanager
    def on(self) -> Iterator[None]:
        """Inside, what is traced under `watch` is looked at, which takes as long again."""
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    @contextmanager
    def watch(self, program: Program) -> Iterator[None]:
        """Note what the code of a program asks, inside."""
        if not self._is_on:
            yield
            return
        with process_queries() as queries:
            try:
                yield
            finally:
                self._asked[program] = tuple(dict.fromkeys(query for query in queries if query.asks != {"mesh"}))

    def of(self, sides: TracedSides, direction: str, side: str, site: Site) -> tuple[Query, ...]:
        """Return the queries of a side at a site."""
        with self.on():
            program = _program(sides, direction, side, site)
            if program is None:
                return ()
            if program not in self._asked:
                self._apart = self._apart or Programs(threads=1, watch=self.watch)
                again = _program(TracedSides(self._pair, self._apart), direction, side, site)
                self._asked[program] = () if again is None else self._asked[again]
            return self._asked[program]

    def close(self) -> None:
        """Drop what was traced apart."""
        if self._apart is not None:
            self._apart.close()
            self._apart = None


def _program(sides: TracedSides, direction: str, side: str, site: Site) -> Program | None:
    try:
        return sides.forward(side, site) if direction == "forward" else sides.gradient(side, site)
    except SamebitsError:
        return None  # whoever needs the program meets it too
