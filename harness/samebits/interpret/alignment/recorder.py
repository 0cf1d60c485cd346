"""An interpreter that records every value with the equation and the values that it was computed from."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from samebits.errors import NotCovered
from samebits.interpret.alignment.graph import Graph, Kind, Node, size_of
from samebits.interpret.control_flow import CONTROL
from samebits.interpret.data_movement import MOVES, STILL, Index
from samebits.interpret.devices import Axes, PerDevice
from samebits.interpret.domain import AbstractDomain, Value
from samebits.interpret.equation import Type, frame_of
from samebits.interpret.interpreter import CALLS, Interpreter

MOVED = frozenset(MOVES) | STILL
_LOOPS = {"scan": "jaxpr", "while": "body_jaxpr"}


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """What a recording may cost.

    Args:
        seconds: of interpretation.
        elements: that are held, over all values.
    """

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
    """Interprets one program and records its graph.

    Args:
        domain: gives values and the rules of arithmetic.
        platform: as of `Interpreter`.
        limits: beyond which the recording ends.
    """

    def __init__(self, domain: AbstractDomain, platform: str | None, limits: RecordLimits) -> None:
        super().__init__(domain, platform)
        self.graph = Graph()
        self._numbers: dict[int, tuple[int, int | None]] = {}
        self._frames: list[_Frame] = []
        self._inside = 0  # equations being evaluated, whose own steps are not recorded
        self._limits = limits
        self._elements = 0
        self._deadline = time.monotonic() + limits.seconds

    def record(self, closed: Any, args: Sequence[Value]) -> Graph:
        """The graph of a closed jaxpr.

        Raises:
            NotCovered: the domain has no rule for an equation, or the program exceeds the limits.
        """
        self.graph.outputs = [*self._operands(self(closed, *args))[0]]
        return self.graph

    def equation(self, eqn: Any, values: list[Value], axes: Axes) -> Sequence[Value]:
        """Evaluate an equation and record its outputs; those of calls and loops are recorded inside."""
        name = eqn.primitive.name
        if self._inside:
            return super().equation(eqn, values, axes)
        if name in CALLS or name in CONTROL or name == "shard_map":
            outputs = self._called(eqn, values, axes)
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
        node = Node(len(self.graph.nodes), value, kind, *origin, self._trips(), self._written(origin.equation))
        self.graph.nodes.append(node)
        self._numbers[id(value)] = node.number, None
        for device, each in enumerate(value.values if isinstance(value, PerDevice) else ()):
            self._numbers.setdefault(id(each), (node.number, device))

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
