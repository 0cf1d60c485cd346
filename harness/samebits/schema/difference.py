"""How two arrays differ, in words: the classes of their differing elements, and one of these as the witness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Farthest = Literal["one side is 0", "opposite signs"]
"""What a distance in ulps cannot say: from 0 or over it, it counts all representable numbers between."""

LONG = 10_000
"""From this distance on two digits are shown: ten would be unreadable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Witness:
    """One differing element.

    Args:
        leaf, index: which element of which leaf.
        reference, optimized: both values in decimal.
        reference_hex, optimized_hex: both bit patterns in hex.
        kind: its own class of difference.
        ulps: the distance of both values in ulps; for integers, their difference; None where one is not finite.
        input: on which the sides gave these values; None where there is one alone.
    """

    leaf: str
    index: tuple[int, ...]
    reference: str
    optimized: str
    reference_hex: str
    optimized_hex: str
    kind: str = ""
    ulps: int | None = None
    input: str | None = None

    @property
    def at(self) -> str:
        """Name the element, such as `out[0, 3]`."""
        return f"{self.leaf}[{', '.join(map(str, self.index))}]" if self.index else self.leaf

    def __str__(self) -> str:
        return self.said("variant")

    def said(self, variant: str) -> str:
        """Return the element with both values, that of the variant under its own name."""
        first, second = self.values
        return f"{self.at}: reference={first}, {variant}={second}"

    @property
    def values(self) -> tuple[str, str]:
        """Return both values, each with its bits."""
        return f"{self.reference} ({self.reference_hex})", f"{self.optimized} ({self.optimized_hex})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The elements of a leaf that differ in one way.

    Args:
        kind: the class of difference.
        elements: how many there are.
        max_ulp: the largest distance among them in ulps; for integers, the largest difference; None where none has one.
        farthest: how the two values with that distance lie: of opposite signs, or one of them 0; None where neither.
    """

    kind: str
    elements: int
    max_ulp: int | None = None
    farthest: Farthest | None = None


_VERBS = {
    "structure": "differ in structure",
    "dtype": "differ in dtype",
    "shape": "differ in shape",
    "weak type": "differ in weak type",
    "NaN vs number": "are NaN for a number",
    "overflow to infinity": "are infinite for a finite number",
    "other": "differ by more than the last digits",
    "rounding": "differ by rounding",
    "subnormal flushed": "are zero for a subnormal number",
    "sign of zero": "are zeros of the other sign",
    "NaN payload": "are NaN with other bits",
}
_OF_ONE = {"differ": "differs", "are": "is", "zeros": "a zero"}


def extent(differences: Sequence[Difference], elements: int) -> str:
    """Say how many elements of a leaf differ in which ways, the largest class first.

    Such as `4999 of 8192 elements differ by rounding (up to 2 ulps) and 1 is NaN for a number`.
    """
    first, *rest = (_clause(difference) for difference in differences)
    total = f"{differences[0].elements} of {elements} elements"
    words = [
        f"{total} {first}",
        *(f"{difference.elements} {text}" for difference, text in zip(differences[1:], rest, strict=True)),
    ]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _clause(difference: Difference) -> str:
    text = _VERBS.get(difference.kind, f"differ ({difference.kind})")
    if difference.elements == 1:
        text = " ".join(_OF_ONE.get(word, word) for word in text.split(" "))
    if difference.max_ulp is None or difference.kind not in ("rounding", "other", "subnormal flushed"):
        return text
    if difference.farthest is not None and difference.kind == "other":
        return f"{text} (at the farthest {difference.farthest.replace('opposite', 'the values have opposite')})"
    return f"{text} (up to {ulps_in_words(difference.max_ulp)})"


def ulps_in_words(distance: int) -> str:
    """Write a distance in ulps as a person reads it: `2 ulps`, `3.1e5 ulps`."""
    if distance < LONG:
        return f"{distance} ulp{'' if distance == 1 else 's'}"
    digits, _, exponent = f"{distance:.1e}".partition("e")
    return f"{digits}e{int(exponent)} ulps"
