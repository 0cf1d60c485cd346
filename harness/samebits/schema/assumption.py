"""The assumptions of a proof: a record that is printed and published with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption of a proof.

    Args:
        word: its kind, in one word: `shapes`, `values`, `comparisons`, `range`, `underflow`, `roots`, `casts` ...
        text: what is assumed.
        false_where: how it could be false, in one line.
        counterexample: other inputs at which it was seen to be false, and how both sides differ there; None where none
            were tried or none were seen.
        inherent: every proof of its method rests on it, whatever the programs are, and the contract covers it:
            the shapes of the case, and rounding. A request for proofs without assumptions leaves these out.
    """

    word: str
    text: str
    false_where: str
    inherent: bool = False
    counterexample: str | None = None

    def __str__(self) -> str:
        seen = "" if self.counterexample is None else f"; seen to be false: {self.counterexample}"
        return f"{self.text}; false where {self.false_where}{seen}"


def words_of(assumptions: Iterable[Assumption]) -> str:
    """Return the kinds of what is assumed beyond shapes and rounding, in words; empty where nothing is."""
    return ", ".join(dict.fromkeys(assumption.word for assumption in assumptions if not assumption.inherent))


def passing_words(kinds: Sequence[Iterable[str]], hold: str) -> str | None:
    """Count what holds under assumptions that other values could break, by kind; None where nothing does."""
    counts = Counter(word for words in kinds for word in dict.fromkeys(words))
    if not counts:
        return None
    listed = ", ".join(f"{word} {count}" for word, count in counts.most_common())
    assumed = sum(map(bool, kinds))
    return f"{assumed} of {len(kinds)} {hold} under assumptions that other values could break ({listed})"
