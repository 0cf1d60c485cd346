"""Where an instruction of a compiled program comes from, as the name of a scope that JAX carries along."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_SCOPE = "hlo"
"""What the name of a scope of an instruction begins with."""

_SEPARATOR = "\x1f"
"""Between the parts of such a name; no path and no name of an operation holds it."""


@dataclass(frozen=True, slots=True)
class InstructionOrigin:
    """An instruction, and the operation of JAX and the line that it comes from; empty and 0 where nothing says it."""

    name: str
    opcode: str
    operation: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"%{self.name} = {self.opcode}" + (f" ({self.operation})" if self.operation else "")

    def scope(self) -> str:
        """Return the name of the scope in which JAX traces what the instruction computes."""
        return _SEPARATOR.join((_SCOPE, self.name, self.opcode, self.operation, self.file, str(self.line)))

    @classmethod
    def of_scopes(cls, names: Iterable[str]) -> InstructionOrigin | None:
        """Return the innermost instruction among the names of scopes; None where they are not of a module."""
        last = next((name for name in reversed([*names]) if name.startswith(_SCOPE + _SEPARATOR)), None)
        if last is None:
            return None
        _, name, opcode, operation, file, line = last.split(_SEPARATOR)
        return cls(name, opcode, operation, file, int(line))
