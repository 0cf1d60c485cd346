"""Aligns two programs and names the lines of the source where they part.

In: a question, which has both programs and their inputs. Out: for an output that differs the equations that cause it,
with their places on both sides, surest first; and all values of the variant, each with its place in the reference.
"""

from __future__ import annotations

import difflib
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from samebits.errors import NotCovered
from samebits.host.numpy_threads import one_blas_thread
from samebits.interpret.alignment.fingerprints import (
    Counterparts,
    Fingerprints,
    Graph,
    Kind,
    Node,
    Side,
    frontier,
    reaching,
    size_of,
)
from samebits.interpret.alignment.naming import named
from samebits.interpret.alignment.sources import code_of, place_of, source_of
from samebits.interpret.control_flow import CONTROL
from samebits.interpret.data_movement import MOVES, STILL, Index
from samebits.interpret.devices import Axes, PerDevice
from samebits.interpret.domain import AbstractDomain, Value
from samebits.interpret.equation import Array, Step, Type, frame_of
from samebits.interpret.field.domain import Field
from samebits.interpret.inner_equations import equations, exponentials
from samebits.interpret.interpreter import CALLS, Interpreter
from samebits.interpret.jax_evaluation import execute
from samebits.interpret.oracle import Oracle
from samebits.interpret.problem import Question
from samebits.interpret.shard_map import added_axes
from samebits.schema.line_difference import AlignedTensor, LineDifference


# The domain of the numbers that a program computes, each in its own dtype, for what no other domain has rules for.
class _AnyPrimitive(frozenset[str]):
    """All primitives."""

    def __contains__(self, name: object) -> bool:
        return True


class ExecutedNumbers(Oracle):
    """Runs every equation by itself; of replicas the first one counts."""

    name = "executed"
    keeps_constants = True
    covers = _AnyPrimitive()

    def lift(self, array: Array, kind: Type) -> Array:
        """A constant as it is."""
        return array

    def apply(self, step: Step, values: Sequence[Array]) -> list[Any]:
        """What jax computes."""
        return execute(step, values)

    def same(self, first: Array, second: Array) -> bool:
        """All replicas count as equal."""
        return True


# An interpreter that records every value with the equation and the values that it was computed from.
MOVED = frozenset(MOVES) | STILL
_LOOPS = {"scan": "jaxpr", "while": "body_jaxpr"}


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """What a recording may cost: seconds of interpretation, and elements held over all values."""

    seconds: float = 10.0
    elements: int = 6_000_000


@dataclass(slots=True)
class _Frame:
    """A call or a loop that is being interpreted; `loop` is its number, `done` the evaluations of its body."""

    equation: Any
    body: Any = None
    loop: int = -1
    done: int = 0


class _Origin(NamedTuple):
    """How a value was computed, as in `Node`."""

    equation: Any = None
    operands: tuple[int, ...] = ()
    devices: tuple[int | None, ...] = ()
    output: int = 0
    again: Callable[[Sequence[Value]], Value] | None = None


_NOWHERE = _Origin()


class Recorder(Interpreter):
    """Interprets one program and records its graph."""

    def __init__(self, domain: AbstractDomain, platform: str | None, limits: RecordLimits) -> None:
        super().__init__(domain, platform)
        self.graph = Graph()
        self._numbers: dict[int, tuple[int, int | None]] = {}
        self._frames: list[_Frame] = []
        self._inside = 0  # equations being evaluated, whose own steps are not recorded
        self._grid: tuple[int, ...] = ()
        self._limits = limits
        self._elements = 0
        self._deadline = time.monotonic() + limits.seconds

    def record(self, closed: Any, args: Sequence[Value]) -> Graph:
        """The graph of a closed jaxpr."""
        self.graph.outputs = [*self._operands(self(closed, *args))[0]]
        return self.graph

    def equation(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        """Evaluate an equation and record its outputs; those of calls and loops are recorded inside."""
        name = eqn.primitive.name
        if self._inside:
            return super().equation(eqn, values, axes)
        self._grid = tuple(size for _, size in axes.sizes)
        if name in CALLS or name in CONTROL or name == "shard_map":
            outputs = self._called(eqn, values, axes)
            self._grid = tuple(size for _, size in axes.sizes)
        else:
            self._inside += 1
            try:
                outputs = super().equation(eqn, values, axes)
            finally:
                self._inside -= 1
        operands, on = self._operands(values)
        kind: Kind = "moved" if name in MOVED else "computed"
        for place, output in enumerate(outputs):
            if id(output) not in self._numbers and not self._joined(output):
                again = functools.partial(self._again, eqn, axes, place)
                self._add(output, kind, _Origin(eqn, operands, on, place, again))
        return outputs

    def _again(self, eqn: Any, axes: Axes, place: int, values: Sequence[Value]) -> Value:
        """An output of an equation for other operands, without recording it."""
        self._inside += 1
        try:
            return super().equation(eqn, list(values), axes)[place]
        finally:
            self._inside -= 1

    def _taken_again(self, index: Index, kind: Type, values: Sequence[Value]) -> Value:
        return super().taken(values, index, kind)

    def _called(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        frame = _Frame(eqn)
        if eqn.primitive.name == "shard_map":
            self._grid += tuple(added_axes(eqn.params).values())
        if eqn.primitive.name in _LOOPS:
            frame.body, frame.loop = eqn.params[_LOOPS[eqn.primitive.name]], len(self.graph.loops)
            self.graph.loops.append(eqn)
            self.graph.counts.append(0)
        self._frames.append(frame)
        try:
            return super().equation(eqn, values, axes)
        finally:
            self._frames.pop()

    def closed(self, closed: Any, args: Sequence[Value], axes: Axes) -> list[Value]:
        """The outputs of a closed jaxpr; evaluations of a loop's body are counted."""
        if not self.graph.nodes:  # the program itself, whose arguments are values now
            for arg in args:
                if id(arg) not in self._numbers:
                    self._add(arg, "input")
        frame = self._frames[-1] if self._frames and not self._inside else None
        outputs = super().closed(closed, args, axes)
        if frame is not None and frame.loop >= 0 and closed is frame.body:
            frame.done += 1
            self.graph.counts[frame.loop] = frame.done
        return outputs

    def taken(self, values: Sequence[Value], index: Index, kind: Type) -> Value:
        """`take` on every device, recorded where a loop or a `shard_map` moves elements."""
        if self._inside or not self._frames:
            return super().taken(values, index, kind)
        output = super().taken(values, index, kind)
        again = functools.partial(self._taken_again, index, kind)
        self._add(output, "moved", _Origin(self._frames[-1].equation, *self._operands(values), 0, again))
        return output

    def _joined(self, value: Value) -> bool:
        """Whether a value is made of recorded ones, one per device; it gets a node of its own then."""
        if not isinstance(value, PerDevice) or not all(id(each) in self._numbers for each in value.values):
            return False
        equation = self._frames[-1].equation if self._frames else None
        self._add(value, "moved", _Origin(equation, *self._operands(value.values), 0, _together))
        return True

    def _operands(self, values: Sequence[Value]) -> tuple[tuple[int, ...], tuple[int | None, ...]]:
        """The nodes of values, and of each the device whose part of the node's value it is."""
        for value in values:
            if id(value) not in self._numbers and not self._joined(value):
                self._add(value, "constant")
        pairs = [self._numbers[id(value)] for value in values]
        return tuple(number for number, _ in pairs), tuple(device for _, device in pairs)

    def _add(self, value: Value, kind: Kind, origin: _Origin = _NOWHERE) -> None:
        if time.monotonic() > self._deadline:
            raise NotCovered(f"aligning takes more than {self._limits.seconds:g} s")
        self._elements += size_of(value)
        if self._elements > self._limits.elements:
            raise NotCovered(f"the values of the program have more than {self._limits.elements:,} elements")
        number, written = len(self.graph.nodes), self._written(origin.equation)
        node = Node(number, value, kind, *origin, self._trips(), written, self._mesh(value, origin.equation))
        self.graph.nodes.append(node)
        self._numbers[id(value)] = node.number, None
        for device, each in enumerate(value.values if isinstance(value, PerDevice) else ()):
            self._numbers.setdefault(id(each), (node.number, device))

    def _mesh(self, value: Value, equation: Any) -> tuple[int, ...]:
        """The mesh of the devices that have a value, or parts of it: not of what a `shard_map` returns."""
        is_joined = equation is not None and equation.primitive.name == "shard_map"
        return () if is_joined and not isinstance(value, PerDevice) else self._grid

    def _written(self, equation: Any) -> Any:
        """The innermost equation around one that has a place in the traced code."""
        if equation is None:
            return None
        around = (equation, *(frame.equation for frame in reversed(self._frames)))
        return next((each for each in around if frame_of(each) is not None), None)

    def _trips(self) -> tuple[tuple[int, int], ...]:
        return tuple((frame.loop, _position(frame)) for frame in self._frames if frame.loop >= 0)


def _together(values: Sequence[Value]) -> Value:
    return PerDevice(tuple(values))


def _position(frame: _Frame) -> int:
    """The iteration of a loop, along the leading axis of what a scan takes and gives."""
    params = frame.equation.params
    return params["length"] - 1 - frame.done if params.get("reverse") else frame.done


def align(
    question: Question,
    seed: str = "",
    limits: RecordLimits | None = None,
    forward: tuple[Any, Any] | None = None,
    *,
    rounded: bool = False,
) -> Alignment:
    """Interpret both programs and align their values; in float64 where the fields have no rule.

    Args:
        forward: where the programs are gradients, the closed jaxprs of the functions; their gradient rules have lines.
        rounded: whether the values may be those of the programs' own dtypes, where neither fields nor float64 have a
            rule: of programs that round alike.
    """
    limits = limits or RecordLimits()
    if question.uneven is not None:
        raise NotCovered(question.uneven)
    levels = 1 + min(2, max(exponentials(program) for program in question.sides))
    try:
        domain = _AnyReplica(1, levels, seed=seed)
        graphs = [_recorded(question, question.reference, domain, limits)]
        domain.side = 1
        graphs.append(_recorded(question, question.variant, domain, limits))
    except NotCovered as error:
        try:
            graphs = [_recorded(question, side, _AnyReplicaOracle(), limits) for side in question.sides]
        except NotCovered:
            if not rounded:
                raise error from None
            graphs = [_recorded(question, side, None, limits) for side in question.sides]
    for graph, function in zip(graphs, forward or (), strict=False):
        with_rules(graph, function)
    return Alignment(question, *graphs)


def _recorded(question: Question, program: Any, domain: Any, limits: RecordLimits) -> Graph:
    """The graph of a program in a domain; without one of the numbers themselves."""
    args: list[Any] = []
    for argument, aval, fixed in zip(question.inputs, question.reference.in_avals, question.is_fixed, strict=True):
        values = np.asarray(argument.values)
        if fixed or domain is None:
            args.append(values.copy())  # an object of its own, which no other input is
        elif isinstance(domain, Field):
            args.append(domain.input(argument.name, values, argument.kind(aval)))
        else:
            args.append(values.astype(np.float64).reshape(argument.kind(aval).shape))
    with np.errstate(all="ignore"):
        used: Any = ExecutedNumbers() if domain is None else domain
        return Recorder(used, question.platform, limits).record(program, args)


class _AnyReplica(Field):
    """The field domain for programs that may be wrong: replicas that differ are not an error, the first one counts."""

    def same(self, first: Any, second: Any) -> bool:
        """Not asked."""
        return True


class _AnyReplicaOracle(Oracle):
    """The float64 domain for programs that may be wrong."""

    def same(self, first: Any, second: Any) -> bool:
        """Not asked."""
        return True


class Alignment:
    """Two programs whose values have been compared."""

    def __init__(self, question: Question, reference: Graph, variant: Graph) -> None:
        self.question = question
        self._marks = Fingerprints(reference), Fingerprints(variant)
        self._sides: dict[bool, tuple[Side, Side]] = {}
        self._places: dict[tuple[int, bool], tuple[LineDifference, ...]] = {}

    def lines(self, number: int, *, refuted: bool = False) -> tuple[LineDifference, ...]:
        """The places that make an output differ, likeliest first; none where its formulas agree.

        Args:
            refuted: whether it is known that the formulas differ: then differences count that float64 does not show.
        """
        places = self._named(number, True)
        return places if places or not refuted else self._named(number, False)

    @one_blas_thread()
    def _named(self, number: int, approximate: bool) -> tuple[LineDifference, ...]:
        if (number, approximate) not in self._places:
            self._places[number, approximate] = named(*self.sides(approximate), number)
        return self._places[number, approximate]

    def differs(self, number: int) -> bool:
        """Whether an output of the variant is another value than that of the reference, in float64."""
        reference, variant = self.sides(True)
        mine, other = (side.graph.nodes[side.graph.outputs[number]] for side in (variant, reference))
        return variant.order(mine) != reference.order(other)

    def has_places(self) -> bool:
        """Whether it is known of any value where it is computed."""
        return any(source_of(node) is not None for side in self.sides(True) for node in side.graph.nodes)

    def tensors(self, number: int) -> tuple[AlignedTensor, ...]:
        """List the computed values of the variant that an output depends on, each with its place in the reference."""
        variant = self.sides(True)[1]
        end = variant.graph.nodes[variant.graph.outputs[number]]
        wrong = frontier(variant.graph, end, variant.occurs)
        first = wrong[0].number if wrong else -1
        rows = []
        for node in reaching(variant.graph, end, lambda node: node.is_source):
            if node.kind == "computed" and not variant.marks.is_constant(node):
                rows.append(_tensor(variant, node, is_first=node.number == first))
        return tuple(rows)

    def sides(self, approximate: bool) -> tuple[Side, Side]:
        """The reference and the variant, each with the other's values."""
        if approximate not in self._sides:
            first, second = self._marks
            inside = [Counterparts(marks, approximate=approximate) for marks in self._marks]
            self._sides[approximate] = Side(first, inside[1], inside[0]), Side(second, inside[0], inside[0])
        return self._sides[approximate]


def _tensor(variant: Side, node: Node, *, is_first: bool) -> AlignedTensor:
    twins = variant.there.of(variant.marks[node])
    twin = next((twin for twin in twins if source_of(twin) is not None), None)
    aval = node.equation.outvars[node.output].aval
    place, its = source_of(node), source_of(twin)
    return AlignedTensor(
        primitive=node.name,
        type=f"{aval.dtype.name}{list(aval.shape)}".replace(" ", ""),
        variant=None if place is None else str(place),
        code=code_of(node),
        reference=None if its is None else str(its),
        occurs=variant.occurs(node),
        first=is_first,
        iteration=node.trips[-1][1] if node.trips else None,
    )


def with_rules(graph: Graph, forward: Any) -> None:
    """Give the values of a gradient that a rule written by hand computes the places in that rule.

    jax gives every equation of a `custom_vjp` rule the source of the call whose gradient it is. The forward program
    still has the rule: it is traced once more, and its equations stand in the same order as those of the gradient.
    """
    written: dict[int, Any] = {}
    for call in equations(forward.jaxpr):
        if call.primitive.name != "custom_vjp_call" or place_of(call) is None:
            continue
        rule = _rule(call)
        mine = {id(node.equation): node.equation for node in graph.nodes if _is_backward_of(node.equation, call)}
        times = -(-len(mine) // len(rule)) if rule else 0
        names = [equation.primitive.name for equation in mine.values()], [e.primitive.name for e in rule] * times
        blocks = difflib.SequenceMatcher(None, *names, autojunk=False).get_matching_blocks()
        ids = [*mine]
        for block in blocks:
            for step in range(block.size):
                written[ids[block.a + step]] = rule[(block.b + step) % len(rule)]
    graph.nodes = [
        replace(node, written=written[id(node.equation)]) if id(node.equation) in written else node
        for node in graph.nodes
    ]


def _is_backward_of(equation: Any, call: Any) -> bool:
    """Whether an equation of a gradient has the source of a call, and is not one of its forward equations."""
    if equation is None or equation.primitive.name == "custom_vjp_call" or place_of(equation) != place_of(call):
        return False
    return "transpose" in str(equation.source_info.name_stack)


def _rule(call: Any) -> list[Any]:
    """The equations of the backward rule of a `custom_vjp` call; none where this jax does not give it away."""
    import jax

    params = call.params
    try:
        forward, _ = params["fwd_jaxpr_thunk"].call_wrapped(*(False for _ in call.invars[params["num_consts"] :]))
        forwarded = params["out_trees"]()[2]
        own = iter(forward.outvars[: len(forward.outvars) - len(call.outvars)])
        passed = call.invars[params["num_consts"] :]
        saved = [(next(own) if number is None else passed[number]).aval for number in forwarded]
        avals = [*saved, *(var.aval for var in call.outvars)]
        shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        return list(jax.make_jaxpr(params["bwd"].call_wrapped)(*shapes).jaxpr.eqns)
    except Exception:  # the parameters of this primitive are jax's own affair, and the rule is the user's code
        return []
