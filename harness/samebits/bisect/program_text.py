"""A traced program as the text of a function that needs nothing but jax, one line for an equation.

What only calls another program is inlined, and programs of loops and branches become inner functions. A program that
holds anything else, such as a kernel or a large constant, has no text.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jax import lax

from samebits.errors import NotCovered
from samebits.interpret.dead_code import only
from samebits.interpret.interpreter import CALLS

TEXTS = {
    "and": "lax.bitwise_and({all})",
    "argmax": "lax.argmax({0}, {axes}[0], {index_dtype})",
    "argmin": "lax.argmin({0}, {axes}[0], {index_dtype})",
    "broadcast_in_dim": "lax.broadcast_in_dim({0}, {shape}, {broadcast_dimensions})",
    "concatenate": "lax.concatenate([{all}], {dimension})",
    "convert_element_type": "lax.convert_element_type({0}, {new_dtype})",
    "copy": "{0}",
    "cumsum": "lax.cumsum({0}, {axis}, {reverse})",
    "dot_general": "lax.dot_general({0}, {1}, {dimension_numbers}, preferred_element_type={preferred_element_type})",
    "dynamic_slice": "lax.dynamic_slice({0}, [{rest}], {slice_sizes})",
    "dynamic_update_slice": "lax.dynamic_update_slice({0}, {1}, [{rest}])",
    "gather": "lax.gather({0}, {1}, {dimension_numbers}, {slice_sizes}, mode={mode})",
    "integer_pow": "lax.integer_pow({0}, {y})",
    "iota": "lax.broadcasted_iota({dtype}, {shape}, {dimension})",
    "not": "lax.bitwise_not({all})",
    "optimization_barrier": "lax.optimization_barrier([{all}])",
    "or": "lax.bitwise_or({all})",
    "pad": "lax.pad({0}, {1}, {padding_config})",
    "reduce_max": "lax.reduce_max({0}, {axes})",
    "reduce_min": "lax.reduce_min({0}, {axes})",
    "reduce_sum": "lax.reduce_sum({0}, {axes})",
    "reshape": "lax.reshape({0}, {new_sizes})",
    "reshard": "jax.sharding.reshard({0}, {spec})",
    "rev": "lax.rev({0}, {dimensions})",
    "scatter": "lax.scatter({0}, {1}, {2}, {dimension_numbers}, mode={mode})",
    "scatter-add": "lax.scatter_add({0}, {1}, {2}, {dimension_numbers}, mode={mode})",
    "sharding_constraint": "lax.with_sharding_constraint({0}, {spec})",
    "slice": "lax.slice({0}, {start_indices}, {limit_indices}, {strides})",
    "sort": "lax.sort([{all}], {dimension}, {is_stable}, {num_keys})",
    "square": "lax.square({0})",
    "squeeze": "lax.squeeze({0}, {dimensions})",
    "top_k": "lax.top_k({0}, {k})",
    "transpose": "lax.transpose({0}, {permutation})",
}
"""How an equation is written, by its primitive; others have the name of a function of `jax.lax`, and no parameters."""

MOVES = frozenset(
    ("reshape", "broadcast_in_dim", "transpose", "sharding_constraint", "slice", "rev", "squeeze", "copy")
)
"""What returns elements of its one operand: the integers are in the same range."""


ArrayType = tuple[tuple[int, ...], str]
"""A shape, and the name of a dtype."""

NAME = re.compile(r"\bv\d+\b")
"""A value in a text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextLine:
    """A statement: values that are the results of a call.

    Args:
        text: of the call.
        functions: that it takes, defined before it.
        moves: whether it returns elements of its operand.
        spec: how the result lies on the mesh, as text; empty where the line does not say it.
    """

    targets: tuple[str, ...]
    text: str
    functions: tuple[TextFunction, ...] = ()
    moves: bool = False
    spec: str = ""

    def shown(self) -> Iterator[str]:
        """Yield its text."""
        for function in self.functions:
            yield from function.shown()
        yield f"{', '.join(self.targets)} = {self.text}"

    def reads(self) -> set[str]:
        """Return the values that it needs."""
        return set(NAME.findall(self.text)).union(*(function.reads() for function in self.functions))

    def renamed(self, names: Mapping[str, str]) -> TextLine:
        """Return the line with other values."""
        functions = tuple(function.renamed(names) for function in self.functions)
        return replace(self, text=renamed(self.text, names), functions=functions)


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFunction:
    """A function: its parameters, its lines, and the expression that it returns."""

    name: str
    parameters: tuple[str, ...]
    lines: tuple[TextLine, ...]
    returns: str

    def shown(self) -> Iterator[str]:
        """Yield its text."""
        yield f"def {self.name}({', '.join(self.parameters)}):"
        yield from (f"    {text}" for line in self.lines for text in line.shown())
        yield f"    return {self.returns}"

    def reads(self) -> set[str]:
        """Return the values that it needs of those around it."""
        read = set(NAME.findall(self.returns)).union(*(line.reads() for line in self.lines))
        return read - set(self.parameters) - {name for line in self.lines for name in line.targets}

    def renamed(self, names: Mapping[str, str]) -> TextFunction:
        """Return the function with other values."""
        lines = tuple(line.renamed(names) for line in self.lines)
        return replace(self, lines=lines, returns=renamed(self.returns, names))

    def alive(self) -> TextFunction:
        """Return the function without lines and parameters that nothing needs; loops keep their parameters."""
        needed, lines = set(NAME.findall(self.returns)), list[TextLine]()
        for line in reversed(self.lines):
            if needed.intersection(line.targets):
                lines.append(replace(line, functions=tuple(function.alive() for function in line.functions)))
                needed |= line.reads()
        return replace(self, lines=tuple(reversed(lines)))


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other values."""
    return NAME.sub(lambda match: names.get(match[0], match[0]), text)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramText:
    """A function `f` of flat arguments, and the types of its values."""

    function: TextFunction
    types: Mapping[str, ArrayType]


def program_text(program: Any, output: int) -> ProgramText:
    """Write a closed jaxpr as a function of flat arguments that returns one of its outputs.

    Raises:
        NotCovered: an equation has no text.
    """
    writer = _Writer()
    return ProgramText(function=writer.function("f", only(program, (output,))), types=writer.types)


class _Writer:
    """Writes the equations of a program, each value with a name of its own."""

    def __init__(self) -> None:
        self.types: dict[str, ArrayType] = {}
        self.numbers, self.functions = itertools.count(), itertools.count(1)

    def function(self, name: str, program: Any) -> TextFunction:
        """Write a closed jaxpr as a function; it returns one value, or a tuple of them."""
        known = dict[Any, str]()
        parameters = tuple(self.value(var, known) for var in program.jaxpr.invars)
        lines = tuple(self.lines(program, known))
        return TextFunction(name=name, parameters=parameters, lines=lines, returns=self.results(program, known))

    def value(self, var: Any, known: dict[Any, str]) -> str:
        """Name a new value."""
        name = f"v{next(self.numbers)}"
        self.types[name] = (tuple(var.aval.shape), str(var.aval.dtype))
        known[var] = name
        return name

    def read(self, var: Any, known: Mapping[Any, str]) -> str:
        """Return the text of an operand."""
        return _constant(var.val, var.aval) if hasattr(var, "val") else known[var]

    def results(self, program: Any, known: Mapping[Any, str], part: slice = slice(None)) -> str:
        """Return the text of what a program returns, or a part of that."""
        return _tuple([self.read(var, known) for var in program.jaxpr.outvars[part]])

    def lines(self, program: Any, known: dict[Any, str]) -> Iterator[TextLine]:
        """Yield the lines of a program; calls are inlined."""
        for var, value in zip(program.jaxpr.constvars, program.consts, strict=True):
            known[var] = _constant(value, var.aval)
        for eqn in program.jaxpr.eqns:
            name, operands = eqn.primitive.name, [self.read(var, known) for var in eqn.invars]
            if name in CALLS:
                inner = _closed(eqn.params[CALLS[name]])
                inside = dict(zip(inner.jaxpr.invars, operands, strict=True))
                yield from self.lines(inner, inside)
                for var, result in zip(eqn.outvars, inner.jaxpr.outvars, strict=True):
                    known[var] = self.read(result, inside)
                continue
            if name in _CONTROL:
                text, functions = _CONTROL[name](self, eqn.params, operands)
            else:
                text, functions = _text(name, eqn.params, operands), ()
            if len(eqn.outvars) == 1 and (name in _CONTROL or name in ("sort", "optimization_barrier")):
                text += "[0]"  # of a list
            spec = eqn.params.get("sharding") if name == "sharding_constraint" else None
            targets = tuple(self.value(var, known) for var in eqn.outvars)
            shown = f"P{tuple(spec.spec)!r}" if spec is not None else ""
            yield TextLine(targets=targets, text=text, functions=functions, moves=name in MOVES, spec=shown)

    def inner(self, program: Any, consts: Sequence[str], *groups: int, returns: Sequence[slice]) -> TextFunction:
        """Write the program of a loop, whose parameters come in groups, each a value or a tuple of values."""
        known = dict[Any, str](zip(program.jaxpr.invars, consts, strict=False))
        parameters, unpack, start = [], [], len(consts)
        for size in groups:
            names = tuple(self.value(var, known) for var in program.jaxpr.invars[start : start + size])
            start += size
            parameters.append(names[0] if size == 1 else f"v{next(self.numbers)}")
            unpack += [TextLine(targets=names, text=parameters[-1])] if size > 1 else []
        lines = (*unpack, *self.lines(program, known))
        results = ", ".join(self.results(program, known, part) for part in returns)
        name = f"f{next(self.functions)}"
        return TextFunction(name=name, parameters=tuple(parameters), lines=lines, returns=results)


Written = tuple[str, tuple[TextFunction, ...]]


def _scan(writer: _Writer, params: Mapping[str, Any], operands: Sequence[str]) -> Written:
    consts, carried = params["num_consts"], params["num_carry"]
    split = consts + carried
    body = writer.inner(
        params["jaxpr"],
        operands[:consts],
        carried,
        len(operands) - split,
        returns=(slice(carried), slice(carried, None)),
    )
    more = ", reverse=True" if params["reverse"] else ""
    initial, scanned = _tuple(operands[consts:split]), _tuple(operands[split:])
    call = f"lax.scan({body.name}, {initial}, {scanned}, {params['length']}{more})"
    return f"jax.tree.leaves({call})", (body,)


def _while(writer: _Writer, params: Mapping[str, Any], operands: Sequence[str]) -> Written:
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    carried = len(operands) - second
    condition = writer.inner(params["cond_jaxpr"], operands[:first], carried, returns=(slice(None),))
    body = writer.inner(params["body_jaxpr"], operands[first:second], carried, returns=(slice(None),))
    initial = _tuple(operands[second:])
    return f"jax.tree.leaves(lax.while_loop({condition.name}, {body.name}, {initial}))", (condition, body)


def _branches(writer: _Writer, params: Mapping[str, Any], operands: Sequence[str]) -> Written:
    functions = tuple(writer.function(f"f{next(writer.functions)}", branch) for branch in params["branches"])
    names = ", ".join(function.name for function in functions)
    return f"jax.tree.leaves(lax.switch({operands[0]}, [{names}], {', '.join(operands[1:])}))", functions


_CONTROL: Mapping[str, Callable[[_Writer, Mapping[str, Any], Sequence[str]], Written]] = {
    "scan": _scan,
    "while": _while,
    "cond": _branches,
}


def _text(name: str, params: Mapping[str, Any], operands: Sequence[str]) -> str:
    if name not in TEXTS and (not hasattr(lax, name) or any(value for value in params.values())):
        raise NotCovered(f"the equation '{name}' has no text")
    known = {key: _parameter(value) for key, value in params.items() if f"{{{key}}}" in TEXTS.get(name, "")}
    shardings = [value for key, value in params.items() if key in ("sharding", "dst_sharding") and value is not None]
    known["spec"] = f"P{tuple(shardings[0].spec)!r}" if shardings else ""
    text = TEXTS.get(name, f"lax.{name}({{all}})")
    return text.format(*operands, all=", ".join(operands), rest=", ".join(operands[_FIRST.get(name, 1) :]), **known)


_FIRST = {"dynamic_update_slice": 2}


def _parameter(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"lax.{value}"
    if isinstance(value, np.dtype):
        return repr(value.name)
    if hasattr(value, "_fields") or dataclasses.is_dataclass(value):
        fields = value._fields if hasattr(value, "_fields") else [field.name for field in dataclasses.fields(value)]
        said = [f"{field}={getattr(value, field)!r}" for field in fields if getattr(value, field) != ()]
        return f"lax.{type(value).__name__}({', '.join(said)})"
    return repr(value)


def _constant(value: Any, aval: Any) -> str:
    array = np.asarray(value)
    if array.size != 1 or aval.shape:
        raise NotCovered(f"a constant of shape {array.shape} has no text")
    number = array.item()
    shown = repr(number) if not isinstance(number, float) or math.isfinite(number) else f"float({str(number)!r})"
    return f"jnp.{aval.dtype.name.replace('bool', 'bool_')}({shown})"


def _tuple(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})" if names else "None"


def _closed(program: Any) -> Any:
    from jax.extend.core import ClosedJaxpr

    return program if hasattr(program, "consts") else ClosedJaxpr(program, ())
