"""Is a loss of accuracy one of kind? Else it is rounding, and its size is told.

Standard code may have many times the error of its reference in some group of elements: it rounds once more, to the
dtype of its output. A loss of kind does not end there:

- *gross*: more than `GROSS` times the reference's error in the whole leaf or in rows by their own size, or more than
  `GROSS_IN_PART` times in any other group, in at least `MOSTLY` of the draws: digits that cancel, or a part in a
  narrower dtype. Where it is in more than one less that part of them, it hangs on the numbers, and is not decided;
- *growing*: a sum of more than `MANY` additions in a type narrower than float32, more than twice as many as the
  reference makes in a row. The error of such a sum grows with its length, which the program says: nothing has to be
  run at four times the length. It counts where the median of at least `MEASURED` draws shows a loss at all.

The numbers are from the corpus of standard formulas and from planted faults. Of honest forms the largest are 16 times
the error in a whole leaf and 7 additions (a ring of eight devices in bfloat16); of faults the smallest are 76 times
(a variance in one pass, of numbers around 10), or 31 additions. In bfloat16 a running sum of n terms has sqrt(n / 2)
times the error of one that is rounded once, so that one of fewer than 16 is hardly worse than other code.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from statistics import median

from samebits.check.error_groups import LARGEST, is_natural
from samebits.check.sample import LeafSample
from samebits.check.sequential_test import ALIKE, Accuracy, More, Ratios, accuracy_over

TOLD = 2.0
"""A loss of this factor is told where no limit is set: the effect that the test over draws finds."""
GROSS, MOSTLY = 32.0, 0.75
GROSS_IN_PART = 1024.0
"""Of slices and magnitudes, whose sums may cancel on one side: honest forms have 60 times there, a part that is cast to
bfloat16 on its way 30 000 times.
"""
MANY = 14
MEASURED = 16


class DrawnRatios:
    """The draws of one accuracy test, which show whether a loss is gross.

    Args:
        first: the ratios of the first draw, by input.
        more: gives further draws; None where there are none.
    """

    def __init__(self, first: Mapping[str, Ratios], more: More | None) -> None:
        self.first = first
        self.further: list[Mapping[str, Ratios]] = []
        self._more = more

    def more(self, number: int, labels: Collection[str]) -> Mapping[str, Ratios] | None:
        """A further draw, which is recorded; None where there is none."""
        ratios = None if self._more is None else self._more(number, labels)
        self.further += [] if ratios is None else [ratios]
        return ratios

    def gross(self) -> tuple[float, Accuracy]:
        """In what part of the draws a loss is gross, and the ratios of the group in which it mostly is."""
        groups = [*self._groups()]
        # What one cotangent alone pulls back is mostly zero: the ratio of the few elements that are not is noise.
        many = [(where, values) for where, values in groups if not where[0].endswith("one_hot cotangent")]
        share, _, where, limit = max(
            (sum(value > limit for value in values) / len(values), median(values) / limit, where, limit)
            for where, values in many or groups
            for limit in (GROSS if is_natural(where[1]) else GROSS_IN_PART,)
        )
        return share, self._accuracy(where, limit)

    def typical(self) -> Accuracy:
        """The ratios of the group with the largest median, over as many draws as make it one."""
        while len(self.further) < MEASURED and self.more(len(self.further) + 1, list(self.first)) is not None:
            pass
        _, where = max((median(values), where) for where, values in self._groups() if is_natural(where[1]))
        return self._accuracy(where, TOLD)

    def _groups(self) -> Iterator[tuple[tuple[str, str], list[float]]]:
        """The ratios of each group; the first draw chose the groups, and counts where there is no other."""
        for label, ratios in self.first.items():
            for name in (name for name, ratio in ratios.items() if ratio.bias is None):
                values = [draw[label][name].value for draw in self.further if name in draw.get(label, {})]
                yield (label, name), values or [ratios[name].value / (1 if name == LARGEST else math.sqrt(3))]

    def _accuracy(self, where: tuple[str, str], limit: float) -> Accuracy:
        values = dict(self._groups())[where]
        lossy, group = median(values) > ALIKE * limit, f"{where[1]} (input '{where[0]}')"
        known = {"group": group, "where": (*where, 1.0), "fixed": not self.further}
        return accuracy_over(values, lossy=lossy, limit=limit, **known)


def growing(sample: LeafSample) -> str | None:
    """The sum in a narrow type that the variant alone makes, in words; None where there is none."""
    if sample.narrow_sums is None:
        return None
    reference, variant = sample.narrow_sums
    if variant.step is None or variant.additions <= max(MANY, 2 * reference.additions):
        return None
    place = f" at {variant.step.place}" if variant.step.place else ""
    row = f"{variant.additions} additions in a row in {variant.step.output.dtype.name}"
    return f"{row}, up to {variant.step.name}{place}, beside {reference.additions or 'none'}: it grows with them"
