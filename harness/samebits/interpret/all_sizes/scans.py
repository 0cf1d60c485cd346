"""Scans: what a step gives at a symbolic time, and what is carried there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samebits.interpret.all_sizes.demand import Demand, Devices, Evaluator, Index, Place
from samebits.interpret.all_sizes.facts import Carried, Facts, MapPiece
from samebits.interpret.all_sizes.loop_names import depth_of_loops
from samebits.interpret.all_sizes.loops import by_induction
from samebits.interpret.all_sizes.polynomial import Polynomial
from samebits.interpret.control_flow import scan_sizes

UNROLLED = 4
"""The most steps that are unrolled to say what is carried; after more it is a value of the scan."""


class Scan:
    """A scan of a program.

    Args:
        evaluator: of the program.
        demand: of any of its outputs.
    """

    def __init__(self, evaluator: Evaluator, demand: Demand) -> None:
        self._evaluator = evaluator
        self._frame = demand.frame
        self._equation = demand.equation
        params = demand.params
        self.length = demand.space.size(params["length"])
        self._closed, self._reverse = params["jaxpr"], bool(params["reverse"])
        self.consts, self.carries = scan_sizes(params)
        self.demand = demand
        self.not_induced: set[int] = set()
        self._frames: dict[Polynomial, Any] = {}
        self.name = f"scan {len(demand.space.scans)}"
        demand.space.scans[self.name] = self

    @property
    def _body(self) -> Any:
        return getattr(self._closed, "jaxpr", self._closed)

    def output(self, demand: Demand) -> list[MapPiece]:
        """What stands at a place of an output: carried to the end, or stacked over the steps."""
        number, index = demand.number, demand.index
        if number < self.carries:
            return self.carried(number, self.length, index, demand.facts, demand.devices)
        return self.step(number, self._turned(index[0]), index[1:], demand.facts, demand.devices)

    def _turned(self, place: Polynomial) -> Polynomial:
        return self.length - 1 - place if self._reverse else place

    def carried(self, number: int, time: Polynomial, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """What is carried at a place after so many steps."""
        body = self._body
        is_kept = body.outvars[number] is body.invars[self.consts + number]
        if time.constant == 0 or is_kept:
            return self.start(number, index, facts, devices)
        known = by_induction(self, number, time, index, (facts, devices))
        if known is not None:
            return known
        if time.constant is None or time.constant > UNROLLED:
            name = self.name if devices else self.demand.space.scans.name_of(self)
            return [MapPiece((), Carried(name, number, time, index, tuple(sorted(devices.items()))))]
        return self.step(number, time - 1, index, facts, devices)

    def start(self, number: int, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """What is carried before the first step."""
        return self._evaluator.value(self._frame, self._equation.invars[self.consts + number], index, facts, devices)

    def start_shape(self, number: int) -> Index:
        """The shape of a carried value."""
        return self.demand.shape(self.consts + number)

    def step_with(self, carry: Mapping[int, Place], time: Polynomial, output: int) -> Place:
        """What the step after so many others gives at places of an output of its body, where some carries are given."""
        frame = self._frame_of(time, carry)

        def at(index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
            return self._evaluator.value(frame, self._body.outvars[output], index, facts, devices)

        return at

    def step(self, number: int, time: Polynomial, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """What the step after so many others gives at a place of an output of its body."""
        return self._evaluator.value(self._frame_at(time), self._body.outvars[number], index, facts, devices)

    def _frame_at(self, time: Polynomial) -> Any:
        if time not in self._frames:
            self._frames[time] = self._frame_of(time, {})
        return self._frames[time]

    def _frame_of(self, time: Polynomial, carry: Mapping[int, Place]) -> Any:
        origins: dict[Any, Any] = {}
        for number, var in enumerate(self._body.invars):
            origins[var] = carry.get(number - self.consts) or self._input(number, time)
        depth = max(self._frame.depth, depth_of_loops(self.demand.space, time.variables))
        return self._evaluator.frame_of(self._closed, origins, depth)

    def _input(self, number: int, time: Polynomial) -> Place:
        atom, evaluator, frame = self._equation.invars[number], self._evaluator, self._frame
        if number < self.consts:
            return lambda index, facts, devices: evaluator.value(frame, atom, index, facts, devices)
        if number < self.consts + self.carries:
            return lambda index, facts, devices: self.carried(number - self.consts, time, index, facts, devices)
        place = self._turned(time)
        return lambda index, facts, devices: evaluator.value(frame, atom, (place, *index), facts, devices)
