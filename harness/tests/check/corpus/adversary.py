"""Functions that are unequal where it is hard to see: what the checks and the proofs must say of each, as data.

What no input tried can show, and no reading of the program refutes, may be accepted; a proof that accepts it prints an
assumption, and no verdict `proved` is right for any of them.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from samebits.schema.case import Arg, Case
from samebits.schema.contract import Contract
from samebits.schema.meshes import Mode
from samebits.schema.pair import Pair
from tests.check.corpus.formula import Function

Command = Literal["check", "prove"]


@dataclass(frozen=True, slots=True)
class Adversary:
    """Two functions that are not equal.

    Args:
        name: lower-case letters, digits and `_`.
        reference, other: the two sides.
        keeps_state: `other` takes nothing and returns the side, made anew for each test: what one leaves in it is not
            seen by the next.
        args: the arguments; the inputs that they draw may not reach the difference.
        refuted: the commands that must call it different or undecided; the others may accept it under an assumption.
        dtypes, meshes, modes, gradients: of the pair.
    """

    name: str
    reference: Function
    other: Function
    args: Mapping[str, Arg]
    refuted: tuple[Command, ...] = ("check", "prove")
    dtypes: tuple[str, ...] = ("float32",)
    meshes: tuple[str, ...] = ("data1",)
    modes: tuple[Mode, ...] = ("auto",)
    gradients: bool = True
    keeps_state: bool = False

    @property
    def pair(self) -> Pair:
        """The two as a pair that promises rounding."""
        return Pair(
            name=f"adversary_{self.name}",
            reference=self.reference,
            variants={"other": self.other() if self.keeps_state else self.other},
            args=self.args,
            cases=(Case(id="inputs"),),
            dtypes=self.dtypes,
            meshes=self.meshes,
            modes=self.modes,
            contracts=(Contract(lowest="rounding", reason="the least that a variant may promise"),),
            gradients=self.gradients,
            origin=inspect.getfile(self.other),
        )


def same(x: Any) -> Any:
    """The identity."""
    return x


def twice(x: Any) -> Any:
    """Two times the argument."""
    return 2 * x
