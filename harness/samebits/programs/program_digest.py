"""Digests a traced program: everything that it computes, and what a judgement reads of it besides.

The StableHLO text says what is compiled; the jaxpr is what is interpreted. What an equation was traced from counts by
its file, its function and the line in that: some conclusions depend on which equations have one place.
"""

from __future__ import annotations

import functools
import hashlib
import re
import types
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh

from samebits.host.cache_keys import digest_of
from samebits.host.environment import configuration
from samebits.interpret.equation import JAX, is_machinery
from samebits.programs.program_cache import Program
from samebits.user_errors import one_line

_KNOWN_CALLS = re.compile(
    r"lapack_|cu[a-z]+_|cublas|cudnn|hip[a-z]+_|tpu_custom_call$|__gpu\$|triton_kernel_call$|mosaic_gpu|xla\.|mhlo\.|chlo\."
    r"|stablehlo\.|Sharding$|SPMDFullToShardShape$|SPMDShardToFullShape$|annotate_device_placement$|TopK$|ApproxTopK$"
    r"|LayoutConstraint$|MoveToHost$|MoveToDevice$|shape_assertion$|Qr$|Eigh$|LuDecomposition$|ProductOfElementary"
)
"""Calls whose meaning is that of jax's version; any other may be the user's own code."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_LINE = re.compile(r":\d+$")
_RULES = frozenset({"_scatter_jvp"})
"""The functions of jax's that `interpret` looks for in what an equation was traced from."""


class ProgramDigest:
    """The digest of a program.

    Attributes:
        text: the digest.
        files: the user's source files that it was traced from.
        calls: what it calls at run time that no digest covers, in words; None where there is nothing.
    """

    def __init__(self, program: Program) -> None:
        self.files: set[str] = set()
        self.calls: str | None = None
        self._words: list[str] = []
        self._numbers: dict[int, int] = {}
        self._jaxprs: dict[int, int] = {}
        self._alive: list[Any] = []
        self._in_library = False
        self._add(program.setup.x64, program.setup.options, _place(program.setup.mesh), _settings())
        if program.error is not None:
            self._add("error", one_line(program.error), program.advice)
        else:
            self._traced(program)
        self.text = hashlib.sha256("\n".join(self._words).encode("utf-8", "backslashreplace")).hexdigest()

    def _traced(self, program: Program) -> None:
        traced = program.traced
        outputs = jax.tree.structure(traced.out_info)
        self._add(program.constants, _text(traced.in_tree), _text(outputs), _text(traced.out_info))
        self._jaxpr(traced.jaxpr)
        if not isinstance(program.setup.mesh, AbstractMesh):
            self._lowered(program)

    def _lowered(self, program: Program) -> None:
        try:
            text = program.text()
        except Exception as error:  # of a primitive without a rule for this platform; its point says so
            self.calls = f"cannot be lowered: {one_line(error)}"
            return
        self._add(text.digest)
        unknown = next((name for name in text.calls if not _KNOWN_CALLS.match(name)), None)
        if unknown is not None and self.calls is None:
            self.calls = f"calls {unknown}, which is code of another language or of Python"

    def _add(self, *words: object) -> None:
        self._words.append(repr(words))

    def _jaxpr(self, closed: Any) -> None:
        inner = getattr(closed, "jaxpr", closed)
        if id(inner) in self._jaxprs:
            self._add("jaxpr", self._jaxprs[id(inner)])
            return
        self._jaxprs[id(inner)] = len(self._jaxprs)
        self._alive.append(inner)
        info = getattr(inner, "debug_info", None)
        source = _LINE.sub("", str(getattr(info, "func_src_info", "")))
        self._add(source, getattr(info, "arg_names", None))
        outside, file = self._in_library, source.rpartition(" at ")[2]
        self._in_library = outside or is_machinery(file, JAX)
        if file and not is_machinery(file):
            self.files.add(file)  # a rule without equations is named by it
        for constant in getattr(closed, "consts", ()):
            self._value(constant)
        self._vars((*inner.constvars, *inner.invars))
        for equation in inner.eqns:
            self._equation(equation)
        self._vars(inner.outvars)
        self._in_library = outside

    def _equation(self, equation: Any) -> None:
        name = equation.primitive.name
        if any(word in name for word in ("callback", "debug_print", "infeed", "outfeed", "ffi_call")):
            self.calls = f"calls back into Python or foreign code ({name})"
        self._add(name, type(equation.primitive).__qualname__, str(equation.source_info.name_stack))
        self._add(sorted(map(_text, equation.effects)), self._place(equation))
        self._vars(equation.invars)
        for key, value in equation.params.items():
            if key == "ctx_mesh":  # of a function that is traced once, the mesh of whoever came first
                continue
            self._add(key)
            self._value(value)
        self._vars(equation.outvars)

    def _vars(self, variables: Any) -> None:
        for variable in variables:
            if hasattr(variable, "val"):
                self._add("literal", _aval(variable.aval))
                self._value(variable.val)
            else:
                self._alive.append(variable)
                self._add(self._numbers.setdefault(id(variable), len(self._numbers)), _aval(variable.aval))

    def _place(self, equation: Any) -> tuple[object, ...]:
        """Return where an equation was traced: the innermost code of the user's, and the line in it.

        A function of jax's own is traced once for all that call it, and says which one came first.
        """
        names: set[str] = set()
        for frame in getattr(equation.source_info.traceback, "frames", ()):
            if not is_machinery(frame.file_name):
                self.files.add(frame.file_name)
                line = frame.line_num - frame.function_start_line
                return (names, *(() if self._in_library else (frame.file_name, frame.function_name, line)))
            names |= _RULES & {frame.function_name}
        return (names,)

    def _value(self, value: Any) -> None:
        """Add a parameter of an equation, or a constant."""
        if isinstance(value, bool | int | float | complex | str | bytes | None):
            self._add(type(value).__name__, value)
        elif hasattr(getattr(value, "jaxpr", value), "eqns"):
            self._jaxpr(value)
        elif isinstance(value, np.ndarray | np.generic | jax.Array):
            self._add(digest_of([value]))
        elif isinstance(value, tuple | list):
            self._add(type(value).__name__, len(value))
            for each in value:
                self._value(each)
        elif isinstance(value, dict | types.MappingProxyType):
            self._add("dict", len(value))
            for key, each in value.items():
                self._value(key)
                self._value(each)
        elif isinstance(value, set | frozenset):
            self._add("set", sorted(map(_text, value)))
        elif isinstance(value, functools.partial):
            self._add("partial")
            self._value([value.func, value.args, value.keywords])
        elif isinstance(value, types.FunctionType):
            self._add("function", value.__module__, value.__qualname__)
        else:
            self._add(type(value).__qualname__, _text(value))


def _settings() -> str:
    return _text([setting for setting in configuration() if setting[0] != "jax_compilation_cache_dir"])


def _text(value: Any) -> str:
    return _ADDRESS.sub("", repr(value))


@functools.lru_cache(maxsize=16384)
def _aval(aval: Any) -> tuple[str, ...]:
    sharding = getattr(aval, "sharding", None)
    return str(aval), str(getattr(aval, "weak_type", "")), "" if sharding is None else _sharding(sharding)


@functools.lru_cache(maxsize=4096)
def _sharding(sharding: Any) -> str:
    return _text(sharding)


def _place(mesh: Any) -> object:
    if mesh is None or isinstance(mesh, AbstractMesh):
        return _text(mesh)
    return mesh.axis_names, mesh.devices.shape, [device.id for device in mesh.devices.flat], _text(mesh.axis_types)
