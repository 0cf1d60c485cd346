"""One equation as the rules of a domain get it: its name, its parameters, and the types of its inputs and outputs."""

from __future__ import annotations

import functools
import itertools
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.hlo.origins import InstructionOrigin
from samebits.host.installed import CARRIED, PACKAGE
from samebits.host.installed import NAMES as INSTALLED
from samebits.numerics import floats
from samebits.user_errors import is_typed

Array = NDArray[Any]


_is_float = functools.cache(floats.is_float)  # asked for at every equation


class Type(NamedTuple):
    """Shape and dtype of one value."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def is_float(self) -> bool:
        """Whether its numbers are rounded real ones."""
        return _is_float(self.dtype)

    @property
    def is_key(self) -> bool:
        """Whether its elements are random keys."""
        return self.dtype.type is np.void

    @property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return self.dtype.kind == "c"


def type_of(aval: Any) -> Type:
    """The type of an abstract value; a random key is an element of as many bytes as its data.

    Raises:
        NotCovered: it is not an array of numbers or random keys, as a reference to memory.
    """
    try:
        return Type(tuple(aval.shape), _numpy_dtype(aval.dtype))
    except (TypeError, AttributeError):
        raise NotCovered(f"a value of type {aval} is not an array of numbers") from None


@functools.cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    return key_bytes(dtype) if is_key(dtype) else np.dtype(dtype)


@functools.cache  # asked for at every value of every equation
def is_key(dtype: Any) -> bool:
    """Whether a dtype of jax is that of random keys."""
    import jax  # here, because labels and arrays need no jax

    return dtype is not None and bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


@functools.cache
def key_bytes(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype whose elements are the data of random keys of one implementation."""
    import jax

    data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype))
    return np.dtype((np.void, math.prod(data.shape) * data.dtype.itemsize))


@dataclass(frozen=True)
class Step:
    """One equation."""

    name: str
    params: Mapping[str, Any]
    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]
    equation: Any = None

    @classmethod
    def of(cls, equation: Any) -> Step:
        """The step of a jax equation.

        Raises:
            NotCovered: a value is not an array of numbers or random keys.
        """
        name, params = equation.primitive.name, equation.params
        try:
            inputs = tuple([type_of(var.aval) for var in equation.invars])
            outputs = tuple([type_of(var.aval) for var in equation.outvars])
        except NotCovered as error:
            raise NotCovered(f"{cls(name, params, (), (), equation)}: {error}") from None
        return cls(name, params, inputs, outputs, equation)

    def like(self, name: str, inputs: Sequence[Type], outputs: Sequence[Type], **params: Any) -> Step:
        """Another step at the same place of the source: a collective is made of ordinary steps."""
        return Step(name, params, tuple(inputs), tuple(outputs), self.equation)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether only integers, booleans and random keys are in it."""
        return not any(kind.is_float or kind.is_complex for kind in (*self.inputs, *self.outputs))

    @functools.cached_property
    def has_complex(self) -> bool:
        """Whether complex numbers are in it."""
        return any(kind.is_complex for kind in (*self.inputs, *self.outputs))

    @property
    def output(self) -> Type:
        """The type of the only output."""
        return self.outputs[0]

    @property
    def place(self) -> str:
        """`file:line` in the code that was traced, else the instruction that was compiled, or an empty text."""
        frame = frame_of(self.equation)
        if frame is None:
            return ""
        return f"{short(frame.file_name)}:{frame.line_num}" if frame.line_num else str(frame.file_name)

    @property
    def located(self) -> str:
        """Its name, with its place where that is known."""
        return f"{self.name} at {self.place}" if self.place else self.name

    def __str__(self) -> str:
        kinds = ", ".join(f"{'key' if t.is_key else t.dtype.name}{list(t.shape)}" for t in self.inputs)
        return f"{self.name}({kinds})" + (f" at {self.place}" if self.place else "")


class _NotedPlace(NamedTuple):
    """A place that a compiler noted; the name of an instruction, and 0, where it noted none."""

    file_name: str
    line_num: int
    function_name: str = ""


def instruction_of(equation: Any) -> InstructionOrigin | None:
    """Return the instruction of a compiled program that an equation is of; None of what was written in JAX."""
    stack = getattr(getattr(getattr(equation, "source_info", None), "name_stack", None), "stack", ())
    return InstructionOrigin.of_scopes(getattr(scope, "name", "") for scope in stack)


def frame_of(equation: Any) -> Any:
    """The innermost stack frame of the code that was traced, with a file where one has; None where it is not known."""
    instruction = instruction_of(equation)
    if instruction is not None:
        return _NotedPlace(instruction.file or f"%{instruction.name}", instruction.line)
    traceback = getattr(getattr(equation, "source_info", None), "traceback", None)
    frames = getattr(traceback, "frames", ())
    with_file = next((frame for frame in frames if not is_machinery(frame.file_name)), None)
    if with_file is not None:
        return with_file
    return next((frame for frame in frames if is_typed(frame.file_name, frame.function_name)), None)


JAX = frozenset({"jax", "jaxlib"})


@functools.lru_cache(maxsize=65536)
def is_machinery(file: str, libraries: frozenset[str] | None = None) -> bool:
    """Whether a stack frame belongs to jax, to the interpreter or to this package, and not to what was traced.

    Args:
        libraries: which packages count as such; None for jax and those that are written on top of it.
    """
    ours = file.startswith(_OURS) and not file.startswith(_CARRIED)
    return file.startswith("<") or ours or _is_in_package(file, _LIBRARIES if libraries is None else libraries)


def _is_in_package(file: str, names: frozenset[str]) -> bool:
    """Whether a file is of a package, imported or installed; not where a folder of the user's has that name."""
    imported = (getattr(sys.modules.get(name), "__path__", ()) for name in names)
    if file.startswith(tuple(os.path.join(folder, "") for folders in imported for folder in folders)):
        return True
    parts = file.replace("\\", "/").split("/")
    return any(folder in INSTALLED and name in names for folder, name in itertools.pairwise(parts))


_LIBRARIES = frozenset({*JAX, "flax", "optax", "chex", "equinox", "haiku", "tokamax"})
"""Packages whose frames are passed over: the line that a reader can change is the one that calls them."""

_OURS, _CARRIED = f"{PACKAGE}{os.sep}", f"{CARRIED}{os.sep}"


def short(file: str) -> str:
    """The last two parts of a path: enough to find it, the same on every machine."""
    return "/".join(file.replace("\\", "/").split("/")[-2:])


def scan_sizes(params: Any) -> tuple[int, int]:
    """How many constants and carried values a scan has; newer versions of jax store them as trees."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)
