"""One instruction of a compiled module with the values of its operands, as the meanings of opcodes get it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.errors import CouldNotRun
from samebits.hlo.module import Instruction


class Untranslated(CouldNotRun):
    """An instruction has no meaning here.

    Args:
        instruction: its name in the module.
    """

    def __init__(self, instruction: Instruction, why: str) -> None:
        self.instruction = instruction.name
        super().__init__(f"the compiled program cannot be run: instruction '{instruction.name}': {why}")


@dataclass(frozen=True, slots=True)
class HloStep:
    """One instruction with the values of its operands.

    Args:
        inst: the instruction.
        values: of its operands.
        shapes: of its operands, as the module has them.
        program: the translation that it is part of.
    """

    inst: Instruction
    values: Sequence[Any]
    shapes: Sequence[Any]
    program: Any

    @property
    def dims(self) -> tuple[int, ...]:
        """Return the dimensions of the result."""
        return tuple(self.inst.shape.dimensions)

    @property
    def dtype(self) -> Any:
        """Return the dtype of the result."""
        return self.program.dtype(self.inst, self.inst.shape)

    @property
    def precision(self) -> str:
        """Return the precision of a product that the program asks for, the higher one of both operands."""
        return ("default", "high", "highest")[min(max(self.inst.precision.operands, default=0), 2)]

    def called(self, number: int = 0) -> Callable[..., Any]:
        """Return one of the computations that the instruction calls, as a function of its parameters."""
        computation = self.inst.called_computation_ids[number]
        return lambda *args: self.program.computation(computation, args)

    def refuse(self, why: str) -> Untranslated:
        """Return the error that names this instruction."""
        return Untranslated(self.inst, why)
