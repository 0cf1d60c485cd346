"""The question of a proof: two programs and their common inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.dead_code import only
from samebits.interpret.equation import Array, Type, type_of

Magnitudes = Literal["all", "given", "stated"]


@dataclass(frozen=True, slots=True)
class Input:
    """One flat input of both programs.

    Args:
        name: as the reader knows it, such as `x` or `cotangent of out`.
        values: those of the case: they decide comparisons; where they are integers, fields know no others.
        is_index_operand: integers that address memory or choose experts; the proof holds for these values.
        magnitudes: what is known of the numbers that may be given: `all` where nothing is stated of them,
            `given` where there is an array of them, `stated` where a distribution is declared. Of integers `all` where
            every one in their range may be given.
        integers: the smallest and the largest integer that may be given; None of floats.
        is_cotangent: it multiplies a gradient, and may be anything.
        between: the ends of the range of floats that is declared, where one is.
    """

    name: str
    values: Array
    is_index_operand: bool = False
    magnitudes: Magnitudes = "stated"
    integers: tuple[int, int] | None = None
    is_cotangent: bool = False
    between: tuple[float, float] | None = None

    def kind(self, aval: Any) -> Type:
        """The type that a program gives this input; complex ones are not covered: `real_programs` makes real ones."""
        kind = type_of(aval)
        if kind.is_complex:
            raise NotCovered(f"'{self.name}' is {kind.dtype.name}, whose parts are not separate inputs")
        return kind


@dataclass(frozen=True, slots=True)
class Question:
    """Are these two programs the same?

    Args:
        reference, variant: closed jaxprs, each traced for its own mesh; their inputs are those of `inputs`, in order.
        inputs: the flat inputs.
        platform: whose branches of `lax.platform_dependent` run; None takes the default branches.
        ties: whether numbers that are equal up to rounding are equal in float64, as at inputs where conditions tie.
        in_range: whether the inputs have the magnitudes of the case. At others, only formulas count: values may leave
            the range of float64 on the way, as in the gradient of a softmax that does not subtract its maximum.
    """

    reference: Any
    variant: Any
    inputs: Sequence[Input]
    outputs: Sequence[str]
    platform: str | None = None
    in_range: bool = True
    ties: bool = False

    @property
    def sides(self) -> tuple[Any, Any]:
        """Both programs, the reference first."""
        return self.reference, self.variant

    @property
    def arrays(self) -> list[Array]:
        """The values of the flat inputs."""
        return [np.asarray(argument.values) for argument in self.inputs]

    def types(self, program: Any) -> list[Type]:
        """The types of the outputs of a program."""
        return [type_of(aval) for aval in program.out_avals]

    @property
    def uneven(self) -> str | None:
        """Why the programs cannot be held against each other, in words: other numbers of outputs, or other inputs.

        A gradient pulls back other cotangents where the outputs of the variant have other shapes.
        """
        first, second = len(self.reference.out_avals), len(self.variant.out_avals)
        if first != second:
            return f"the programs have {first} and {second} outputs"
        takes = [[(aval.shape, aval.dtype) for aval in each.in_avals] for each in (self.reference, self.variant)]
        return None if takes[0] == takes[1] else "the programs take arrays of other shapes"

    def mismatch(self, number: int) -> str | None:
        """How the shape or dtype of an output differs between the programs, in words; None where both are equal."""
        first, second = self.types(self.reference)[number], self.types(self.variant)[number]
        if first == second:
            return None
        return f"{first.dtype.name}{list(first.shape)} and {second.dtype.name}{list(second.shape)}"

    def having(self, values: Mapping[int, Array]) -> Question:
        """The question with other values of some inputs, by their number; integers are those of the input's dtype."""
        inputs = list(self.inputs)
        for number, array in values.items():
            own = inputs[number].values.dtype
            inputs[number] = replace(inputs[number], values=array.astype(own) if own.kind in "iub" else array)
        return replace(self, inputs=inputs)

    def only(self, outputs: Sequence[str]) -> Question:
        """The question about some of the outputs: what the others alone are computed by is not in its programs."""
        numbers = tuple(number for number, name in enumerate(self.outputs) if name in outputs)
        if len(numbers) == len(self.outputs):
            return self
        return replace(
            self,
            reference=only(self.reference, numbers),
            variant=only(self.variant, numbers),
            outputs=[self.outputs[number] for number in numbers],
        )

    @property
    def routing(self) -> tuple[str, ...]:
        """The inputs for whose values alone a proof by labels holds."""
        return tuple(argument.name for argument in self.inputs if argument.is_index_operand)

    @property
    def is_fixed(self) -> tuple[bool, ...]:
        """Per input, whether fields use its values as they are: integers and booleans are not field elements."""
        arguments = zip(self.inputs, self.reference.in_avals, strict=True)
        return tuple(argument.is_index_operand or not argument.kind(aval).is_float for argument, aval in arguments)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The inputs for whose values alone a proof over fields holds."""
        return tuple(argument.name for argument, fixed in zip(self.inputs, self.is_fixed, strict=True) if fixed)


def first_place(differs: Array) -> tuple[int, ...]:
    """The index of the first true element."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(differs)), differs.shape))
