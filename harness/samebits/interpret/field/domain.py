"""The abstract domain in which every number is a random element of finite fields: equal formulas give equal elements.

Sums, products and quotients are exact there, so the order of adding does not matter and rounding casts change
nothing. If two formulas differ, their difference is a polynomial that is not zero, and such a polynomial vanishes at
a random point with a probability of at most its degree over the size of the field (Schwartz 1980; Zippel 1979). A
float64 *shadow* beside each element decides comparisons; where it cannot decide, there is no proof.

An element carries residues modulo up to five primes, each of which divides the one before less one, so that exp(x)
keeps its law exp(a) exp(b) = exp(a + b) (Mirage, arXiv 2405.05751); each exp uses up one of them.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.interpret.equation import Step
from samebits.interpret.field.arithmetic import FORMULAS
from samebits.interpret.field.base import FieldBase
from samebits.interpret.field.comparisons import CHOICES
from samebits.interpret.field.functions import FUNCTIONS
from samebits.interpret.field.special_functions import SPECIAL_RULES

RULES = ChainMap(CHOICES, FUNCTIONS, FORMULAS, SPECIAL_RULES)


class Field(FieldBase):
    """The domain of field elements, with the rules of its primitives; the arguments are those of `FieldBase`."""

    covers = frozenset(RULES)

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Arithmetic in the fields, with the shadow beside it."""
        with np.errstate(all="ignore"):
            outputs = RULES[step.name](self, step, *values)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        for output in outputs:
            self.held(output)
        return outputs
