"""A kernel without its reference, in a process of its own: whether calls compute, and nothing else is looked at.

The reference is not imported in this process. The kernel is traced and called several times, also with the environment
of a test: each time it must be the same program, and each call must give what that computes.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from samebits.host.isolation import take_notes, undone
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.kernel_memory import program_memory
from samebits.interpret.kernels import compiled_once, interpreted_on_cpu
from samebits.kernel_gate.arguments import (
    Arguments,
    arrays_of,
    changed,
    kernels_of,
    near,
    nearby_sizes,
    of_arrays,
    others,
    outside_kernels,
    same,
)
from samebits.kernel_gate.request import split
from samebits.programs.implementations import function_named
from samebits.schema.gate_row import GateRow, holds, refuted
from samebits.user_errors import one_line

CALLS = 5

_WATCHED = {
    **dict.fromkeys(("sys._getframe", "sys._current_frames"), "reads the functions that call it"),
    **dict.fromkeys(
        ("gc.get_objects", "gc.get_referrers", "gc.get_referents"), "looks through the objects of this process"
    ),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.exec"), "starts another program"),
    **dict.fromkeys(("os.listdir", "os.scandir"), "lists folders"),
    **dict.fromkeys(("sys.settrace", "sys.setprofile"), "traces this process"),
    "os.fork": "starts another process",
    "os.putenv": "changes the environment",
    "socket.connect": "connects to a host",
    "socket.gethostname": "asks for the name of the machine",
    "open": "opens files",
    "ctypes.dlopen": "loads a library",
}

ARITHMETIC = {
    *("add", "sub", "mul", "div", "exp", "exp2", "log", "max", "min", "dot_general", "reduce_sum", "reduce_max"),
    *("rsqrt", "sqrt", "tanh", "erf", "logistic", "integer_pow", "pow", "cumsum", "add_any", "sin", "cos", "addupdate"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Alone:
    """What was seen of a kernel alone.

    Args:
        rows: one for each kind that was tried here.
        program: its text, which is the same beside the reference.
        types: shape and dtype of each output.
        on_tpu: whether it is another program where jax says that there are TPUs.
    """

    rows: tuple[GateRow, ...]
    program: str = ""
    types: tuple[tuple[tuple[int, ...], str], ...] = ()
    on_tpu: bool = False


class _Watch:
    """What code of the kernel's file does while it is watched: a hook of Python's cannot be taken away again."""

    def __init__(self, file: Path) -> None:
        self.file, self.seen, self._on = str(file), list[str](), False
        sys.addaudithook(self._event)

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Watch inside."""
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._on or event not in _WATCHED:
            return
        self._on = False
        frame = sys._getframe(1)
        importing = False  # which opens and executes files by itself; what is imported is read from the source
        while frame is not None and _is_of_python(frame.f_code.co_filename):
            importing = importing or frame.f_code.co_filename.startswith("<frozen importlib")
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None and frame.f_code.co_filename == self.file and not importing:
            self.seen.append(f"{_WATCHED[event]} (line {frame.f_lineno})")
        self._on = True


def _is_of_python(name: str) -> bool:
    return name.startswith("<frozen ") or (
        name.startswith(os.path.dirname(os.__file__)) and "site-packages" not in name
    )


def program_text(function: Callable[..., Any], values: Arguments) -> tuple[str, Any]:
    """Return the program of a function as text, from a trace of its own, and the trace."""
    jax.clear_caches()
    call, arrays = of_arrays(function, values)
    traced = jax.jit(call).trace(*arrays)
    with interpreted_on_cpu():
        return traced.lower().as_text(), traced


def watched_alone(kernel: str, values: Arguments) -> Iterator[Alone]:
    """Load a kernel, trace it and call it; what raises is a row.

    Yields:
        What was seen: first that its program ends, and in the end all.
    """
    file = split(kernel)[0]
    watch = _Watch(file)
    threads = set(threading.enumerate())
    try:
        with watch.on():
            function = function_named(kernel)
        module = sys.modules[function.__module__] if hasattr(function, "__module__") else None
        with watch.on(), undone("calling it"):
            text, traced = program_text(function, values)
    except BaseException as error:  # `sys.exit()` is no `Exception`
        yield Alone(rows=(refuted("form", one_line(error), file.name),))
        return
    types_of = tuple((out.shape, str(out.dtype)) for out in jax.tree.leaves(traced.out_info))
    before = _state(module, function)
    with watch.on(), undone("calling it"), compiled_once():
        both = values, others(values)
        computed = _computed(traced, both)
        unseen = GateRow(kind="kept", state="undecided", words="its calls did not end in the time")
        yield Alone(rows=(unseen,), program=text, types=types_of, on_tpu=True)
        rows = [_calls(function, computed, both)]
    moved = sorted(name for name, value in _state(module, function).items() if before.get(name, value) != value)
    if moved and rows[0].state != "refuted":
        words = f"keeps values between calls: {', '.join(moved[:3])}"
        rows = [refuted("kept", words, file.name)]
    rows.append(_memory(traced.jaxpr))
    written = "pallas_call" in file.read_text(encoding="utf-8")
    rows.append(_use(function, traced, values, written, computed[0]))
    rows.append(_surroundings(function, values, text, watch))
    rows.append(_tampering(function, values, threads))
    yield Alone(rows=tuple(rows), program=text, types=types_of, on_tpu=_is_other_on_tpu(function, values, text))


def _computed(traced: Any, several: Sequence[Arguments]) -> list[list[Any]]:
    """Return what a program computes from each of several arguments."""
    with interpreted_on_cpu():
        compiled = traced.lower().compile()
        return [_results(compiled(*arrays_of(each))) for each in several]


def _calls(function: Callable[..., Any], wanted: list[list[Any]], both: tuple[Arguments, Arguments]) -> GateRow:
    """Call a kernel with concrete arrays several times: each answer must be what its program computes."""
    values, second = both
    buffers = changed(np.copy, values)
    for number, place in enumerate((0, 1, 0, 0, 1), start=1):
        arguments = changed(jax.numpy.asarray, both[place])
        if number > CALLS - 2:  # the same NumPy arrays, whose content changes between two calls
            for buffer, value in zip(arrays_of(buffers), arrays_of(both[place]), strict=True):
                buffer[...] = value
            arguments = buffers
        try:
            with interpreted_on_cpu():
                answer = function(*arguments)
            got = _results(answer)
        except BaseException as error:
            return refuted("kept", f"call {number} {one_line(error)}")
        if not _plain(answer):
            return refuted("tampering", "returns an object in place of an array")
        if number == CALLS and not _equal(buffers, second):
            return refuted("tampering", "writes into its arguments")
        for leaf, expected in zip(got, wanted[place], strict=False):
            if not near(leaf, expected):
                earlier = any(near(leaf, other) for other in wanted[1 - place])
                words = "gives the answer of another call" if earlier else "is not what its program computes"
                return refuted("kept", f"call {number} {words}")
    return holds("kept", f"{CALLS} calls, each gave what the traced program computes")


def _memory(program: Any) -> GateRow:
    """Look at what kernels do with their memory, whatever the values are."""
    memory = program_memory(program)
    if memory.faults:
        fault = memory.faults[0]
        return refuted("memory", fault.text, fault.place)
    if not kernels_of(program):
        return GateRow(kind="memory", state="not tried", words="no kernel")
    said = "every block is inside, every place is written once at a time, and before it is read"
    return holds("memory", "; ".join((said, *memory.unseen)))


def _has_kernel(function: Callable[..., Any], values: Arguments) -> bool:
    with contextlib.suppress(Exception):  # sizes that it rejects
        call, arrays = of_arrays(function, values)
        return bool(kernels_of(jax.make_jaxpr(call)(*arrays)))
    return False


def _use(function: Callable[..., Any], traced: Any, values: Arguments, written: bool, computed: list[Any]) -> GateRow:
    """Look whether the kernels of a program decide what it gives: a copy of the reference may stand beside them."""
    kernels = kernels_of(traced.jaxpr)
    if not kernels:
        hidden = written and not any(_has_kernel(function, other.values) for other in nearby_sizes(values))
        words = "its kernel is in no program: plain code stands for it" if hidden else "plain code without a kernel"
        return GateRow(kind="reference", state="refuted" if hidden else "holds", words=words)
    if any(map(_is_plain_code, outside_kernels(traced.jaxpr.jaxpr))) and all(map(_returns_an_argument, kernels)):
        return refuted("reference", "its kernels return an argument as it is, and plain code computes the result")
    jax.clear_caches()  # which hold what was lowered
    with interpreted_on_cpu(altered=True):
        altered = _results(traced.lower().compile()(*arrays_of(values)))
    numbers = any(each.dtype.kind in "iub" or np.isfinite(each.astype(np.complex128)).any() for each in computed)
    if numbers and all(a.tobytes() == b.tobytes() for a, b in zip(computed, altered, strict=True)):
        return refuted("reference", "its kernels do not matter: plain code has the result")
    return holds("reference", "its kernels decide what it gives")


def _is_plain_code(eqn: Any) -> bool:
    """Return whether an equation makes numbers of others, where it does not only move or cast them."""
    return eqn.primitive.name not in {*MOVES, *STILL, "convert_element_type"}


def _returns_an_argument(kernel: Any) -> bool:
    """Return whether each result of a kernel is one of its operands, at random numbers."""
    rng = np.random.default_rng(0)
    operands = [np.asarray(rng.integers(0, 8, var.aval.shape), var.aval.dtype) for var in kernel.invars]
    try:
        results = _results(kernel.primitive.bind(*operands, **{**kernel.params, "interpret": True}))
    except Exception:  # whatever such numbers lead to, they do not pass through
        return False
    return all(any(same(result, each) for each in operands) for result in results)


def _plain(answer: Any) -> bool:
    return all(isinstance(leaf, jax.Array) or type(leaf) is np.ndarray for leaf in jax.tree.leaves(answer))


def _results(answer: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(answer)]


def _equal(first: Arguments, second: Arguments) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(arrays_of(first), arrays_of(second), strict=True))


def _state(module: types.ModuleType | None, function: Any) -> dict[str, Any]:
    """Return numbers, texts and arrays that a module and its functions hold, by where they are."""
    state: dict[str, Any] = {}

    def walk(where: str, value: Any, depth: int) -> None:
        if isinstance(value, bool | int | float | str | bytes):
            state[where] = value
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            state[where] = id(value)
        elif isinstance(value, Mapping) and depth:
            for key, each in list(value.items())[:1000]:
                walk(f"{where}[{key!r}]", each, depth - 1)
            state[f"arrays of {where}"] = sum(hasattr(each, "dtype") for each in value.values())
        elif isinstance(value, list | tuple | set) and depth:
            for place, each in enumerate(list(value)[:1000]):
                walk(f"{where}[{place}]", each, depth - 1)
            state[f"length of {where}"] = len(value)
        elif isinstance(value, types.FunctionType) and depth:
            for name, each in {**vars(value), **inspect.getclosurevars(value).nonlocals}.items():
                walk(f"{where}.{name}", each, depth - 1)

    names = vars(module) if module is not None else {}
    own = None, names.get("__name__")
    for name, value in list(names.items()):
        if not name.startswith("__") and getattr(value, "__module__", None) in own:
            walk(name, value, 3)
    walk("it", function, 3)
    return state


@contextlib.contextmanager
def _in_a_test() -> Iterator[None]:
    """Be in a test under continuous integration inside, as far as a kernel can see."""
    more = {"PYTEST_CURRENT_TEST": "test_kernel.py::test (call)", "CI": "true", "GITHUB_ACTIONS": "true"}
    argv, sys.argv = sys.argv, ["pytest", "-q"]
    os.environ.update(more)
    sys.modules["pytest"] = types.ModuleType("pytest")
    try:
        with contextlib.chdir("/"):
            yield
    finally:
        sys.argv = argv
        del sys.modules["pytest"]
        for name in more:
            os.environ.pop(name, None)


@contextlib.contextmanager
def on_tpus() -> Iterator[None]:
    """Have jax say that there are four TPUs; kernels choose blocks by it, and whether they are interpreted."""
    kind = {"platform": "tpu", "device_kind": "TPU v5", "process_index": 0, "num_cores": 1}
    devices = [types.SimpleNamespace(id=number, **kind) for number in range(4)]
    said: dict[str, Any] = {
        **dict.fromkeys(("devices", "local_devices"), lambda *_, **__: devices),
        **dict.fromkeys(("device_count", "local_device_count"), lambda *_, **__: len(devices)),
        "default_backend": lambda: "tpu",
    }
    before = {name: getattr(jax, name) for name in said}
    for name, function in said.items():
        setattr(jax, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(jax, name, function)


def _surroundings(function: Callable[..., Any], values: Arguments, text: str, watch: _Watch) -> GateRow:
    """Trace a kernel again, after its calls and in a test: it must be the same program."""
    for where, context in (("after some calls", contextlib.nullcontext()), ("in a test", _in_a_test())):
        try:
            with context, watch.on():
                again = program_text(function, values)[0]
        except BaseException as error:
            return refuted("aware", f"{where} it {one_line(error)}")
        if again != text:
            return refuted("aware", f"{where} it is another program")
    if watch.seen:
        return refuted("aware", watch.seen[0], Path(watch.file).name)
    return holds("aware", "the same program after calls and in a test")


def _is_other_on_tpu(function: Callable[..., Any], values: Arguments, text: str) -> bool:
    with contextlib.suppress(BaseException), on_tpus():
        return program_text(function, values)[0] != text
    return True


def _tampering(function: Callable[..., Any], values: Arguments, threads: set[threading.Thread]) -> GateRow:
    """Look at what the kernel changed in this process."""
    notes = [note for note in take_notes() if "It was undone" in note]
    if notes:
        return refuted("tampering", notes[0].partition(" It was undone")[0].rstrip("."))
    started = [thread.name for thread in set(threading.enumerate()) - threads if type(thread) is threading.Thread]
    if started:
        return refuted("tampering", f"starts threads ({', '.join(sorted(started))})")
    return holds("tampering", "its arguments and this process are as they were")
