"""Is a loss of accuracy one of kind? Else it is rounding, and its size is told.

Standard code may have many times the error of its reference in some group of elements: it rounds once more, to the
dtype of its output. A loss of kind does not end there:

- *gross*: more than `GROSS` times the reference's error in the whole leaf or in rows by their own size, or more than
  `GROSS_IN_PART` times in any other group, in at least `MOSTLY` of the draws: digits that cancel, or a part in a
  narrower dtype. Where it is in more than one less that part of them, it hangs on the numbers, and is not decided;
- *growing*: a sum of more than `MANY` additions in a type narrower than float32, more than twice as many as the
  reference makes in a row. The error of such a sum grows with its length, which the program says: nothing has to be
  run at four times the length. It counts where the draws show a loss of `GROWN` times.

The numbers are from the corpus of standard formulas and from planted faults. Of honest forms the largest are 16 times
the error in a whole leaf and 7 additions (a ring of eight devices in bfloat16); of faults the smallest are 76 times
(a variance in one pass, of numbers around 10), or 31 additions. In bfloat16 a running sum of n terms has sqrt(n / 2)
times the error of one that is rounded once, so that one of fewer than 16 is hardly worse than other code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from samebits.check.error_groups import LARGEST, is_natural
from samebits.check.sample import LeafSample
from samebits.check.sequential_test import Accuracy, Ratios, accuracy_over

TOLD = 2.0
"""A loss of this factor is told where no limit is set: the effect that the test over draws finds."""
GROWN = 1.5
"""A loss of this factor fails where it grows with a sum that the variant alone makes in a narrow type."""
GROSS, MOSTLY = 32.0, 0.75
GROSS_IN_PART = 1024.0
"""Of slices and magnitudes, whose sums may cancel on one side: honest forms have 60 times there, a part that is cast to
bfloat16 on its way 30 000 times.
"""
MANY = 14


def gross(first: Mapping[str, Ratios], further: Sequence[Mapping[str, Ratios]]) -> tuple[float, Accuracy]:
    """Return in what part of the draws a loss is gross, and the ratios of the group in which it mostly is.

    Args:
        first: the ratios of the first draw, by input; it chose the groups, and counts where there is no other.
        further: those of all others.
    """
    groups = dict(_groups(first, further))
    # What one cotangent alone pulls back is mostly zero: the ratio of the few elements that are not is noise.
    many = [where for where in groups if not where[0].endswith("one_hot cotangent")]
    limits = {where: GROSS if is_natural(where[1]) else GROSS_IN_PART for where in many or groups}
    share, _, where = max(
        (sum(value > limit for value in groups[where]) / len(groups[where]), median(groups[where]) / limit, where)
        for where, limit in limits.items()
    )
    known = {"group": f"{where[1]} (input '{where[0]}')", "where": (*where, 1.0), "fixed": not further}
    return share, accuracy_over(groups[where], lossy=True, limit=limits[where], **known)


def _groups(
    first: Mapping[str, Ratios], further: Sequence[Mapping[str, Ratios]]
) -> Iterator[tuple[tuple[str, str], list[float]]]:
    """Yield the ratios of each group of each input."""
    for label, ratios in first.items():
        for name in (name for name, ratio in ratios.items() if ratio.bias is None):
            values = [draw[label][name].value for draw in further if name in draw.get(label, {})]
            yield (label, name), values or [ratios[name].value / (1 if name == LARGEST else math.sqrt(3))]


def growing(sample: LeafSample) -> str | None:
    """Return the sum in a narrow type that the variant alone makes, in words; None where there is none."""
    if sample.narrow_sums is None:
        return None
    reference, variant = sample.narrow_sums
    if variant.step is None or variant.additions <= max(MANY, 2 * reference.additions):
        return None
    place = f" at {variant.step.place}" if variant.step.place else ""
    row = f"{variant.additions} additions in a row in {variant.step.output.dtype.name}"
    return f"{row}, up to {variant.step.name}{place}, beside {reference.additions or 'none'}: it grows with them"
