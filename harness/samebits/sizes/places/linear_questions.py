"""Questions to z3 about facts, with every product of variables as a variable of its own: linear, and sound for proofs.

What holds for the products as free variables holds for the products too. The other way round it need not, so a model
is not a counterexample. Every question ends after a fixed number of z3's steps, the same on every machine.

Proofs for other dtypes, cases and numbers of devices ask the same questions: each is answered once in a process.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from samebits.errors import NotCovered
from samebits.sizes.places.facts import Fact, Facts
from samebits.sizes.places.polynomial import Monomial, Polynomial, of, product, variable

STEPS = 2_000_000
"""z3's resource limit for one question; a question that needs more is undecided."""

FEW_STEPS = STEPS // 10
"""The limit in the context that questions share. One that needs more steps is asked again in a context of its own, so
that its answer does not depend on the questions before it."""

MOST_ANSWERS = 1 << 14
"""The most answers that a process remembers."""


def in_order(fact: Fact) -> tuple[str, object]:
    """Return a key that sorts facts alike in every process: their sets are in another order in each."""
    return fact.kind, fact.polynomial.terms


MOST_QUESTIONS = 20_000
"""The most questions of the proof of one output, which is about a minute; one that needs more is undecided."""


class LimitReached(NotCovered):
    """The proof of an output has reached a limit; `step` is the equation that was being evaluated, if any."""

    def __init__(self, limit: str, step: str = "") -> None:
        super().__init__(f"{limit}, reached at {step}" if step else limit)
        self.limit = limit
        self.step = step


class LinearQuestions:
    """Asks z3 whether facts contradict each other.

    Args:
        ranges: by index, its size.
        lowest: by symbol of a size, its smallest value.
    """

    def __init__(self, ranges: Mapping[str, Polynomial], lowest: Mapping[str, int]) -> None:
        self._ranges = ranges
        self._lowest = lowest
        self._answers: dict[tuple[frozenset[Fact], frozenset[Facts]], bool] = {}
        self.asked = 0

    def contradict(self, facts: Facts, never: Sequence[Facts] = ()) -> bool:
        """Tell whether facts are proved never to hold where none of `never` does; False also where z3 cannot decide.

        Raises:
            LimitReached: there were too many questions before this one.
        """
        key = frozenset(facts), frozenset(never)
        if key not in self._answers:
            self.asked += 1
            if self.asked > MOST_QUESTIONS:
                raise LimitReached(f"more than {MOST_QUESTIONS} questions to z3, the limit for one output")
            self._answers[key] = self._contradict(facts, never)
        return self._answers[key]

    def ask_again(self) -> None:
        """Forget what could not be shown, since more is known of an index now."""
        self._answers = {key: answer for key, answer in self._answers.items() if answer}

    def _contradict(self, facts: Facts, never: Sequence[Facts]) -> bool:
        everything = (*facts, *(fact for conjunction in never for fact in conjunction))
        known = sorted({*facts, *self._bounds(everything), *self._weighted(facts)}, key=in_order)
        return _contradictory(tuple(known), tuple(never))

    def _bounds(self, facts: Iterable[Fact]) -> list[Fact]:
        """Return the bounds of every product that occurs, and of those that occur in the bounds."""
        todo = [monomial for fact in facts for monomial, _ in fact.polynomial.terms]
        seen: set[Monomial] = set()
        bounds: list[Fact] = []
        while todo:
            monomial = todo.pop()
            if not monomial or monomial in seen or len(monomial) > 8:
                continue
            seen.add(monomial)
            for fact in self._bounds_of(monomial):
                bounds.append(fact)
                todo += [other for other, _ in fact.polynomial.terms]
        return bounds

    def _weighted(self, facts: Facts) -> list[Fact]:
        """Multiply inequalities by the sizes that all of their indices are multiplied by elsewhere.

        A size is not negative, and neither is what it multiplies: `q < p` says `q*n < p*n + n` where `q*n` and `p*n`
        are numbers of their own.
        """
        weights: dict[str, set[Monomial]] = {}
        for fact in facts:
            for monomial, _ in fact.polynomial.terms:
                indices = [name for name in monomial if name not in self._lowest]
                sizes = tuple(name for name in monomial if name in self._lowest)
                if len(indices) == 1 and sizes and all(self._lowest[name] >= 0 for name in sizes):
                    weights.setdefault(indices[0], set()).add(sizes)
        weighted = []
        for fact in facts:
            indices_of = fact.polynomial.variables - self._lowest.keys()
            linear = all(len(monomial) <= 1 for monomial, _ in fact.polynomial.terms)
            if fact.kind != "not_negative" or not indices_of or not linear:
                continue
            for weight in sorted(set.intersection(*(weights.get(name, set()) for name in indices_of))):
                weighted.append(Fact("not_negative", fact.polynomial * product(map(variable, weight))))
        return weighted

    def _bounds_of(self, monomial: Monomial) -> list[Fact]:
        """Bound a product by its smallest factors' product, and by what it is with one factor at its bounds."""
        if any(name not in self._ranges and name not in self._lowest for name in monomial):
            return []
        bounds = []
        for position, name in enumerate(monomial):
            if name in monomial[:position]:
                continue
            rest = of(1)
            for other in (*monomial[:position], *monomial[position + 1 :]):
                rest = rest * variable(other)
            if name in self._ranges:
                bounds += [
                    Fact("not_negative", rest * variable(name)),
                    Fact("not_negative", rest * (self._ranges[name] - 1 - variable(name))),
                ]
            else:
                bounds.append(Fact("not_negative", rest * (variable(name) - self._lowest[name])))
        return bounds


class _Solver:
    """z3 with a state of its own."""

    def __init__(self) -> None:
        import z3  # here, because only proofs for all sizes need it

        self._z3 = z3
        self._context = z3.Context()
        self._asserted = functools.lru_cache(MOST_ANSWERS)(self._assertion)
        self._product = functools.lru_cache(MOST_ANSWERS)(self._variable)

    def is_unsatisfiable(self, known: Facts, never: tuple[Facts, ...], steps: int) -> bool | None:
        """Tell whether no values satisfy facts and none of several conjunctions; None where z3 needs more steps."""
        z3 = self._z3
        # Most questions are small: to set up z3's solver of linear arithmetic takes three times as long as to ask them.
        solver = z3.SimpleSolver(ctx=self._context)
        solver.set("rlimit", steps)
        solver.add(*map(self._asserted, known))
        for conjunction in never:
            solver.add(z3.Not(z3.And(*map(self._asserted, conjunction))))
        answer = solver.check()
        return None if answer == z3.unknown else bool(answer == z3.unsat)

    def _assertion(self, fact: Fact) -> Any:
        """Return a fact in z3's words."""
        terms = [factor * self._product(monomial) if monomial else factor for monomial, factor in fact.polynomial.terms]
        total = sum(terms, self._z3.IntVal(0, self._context))
        return total >= 0 if fact.kind == "not_negative" else total == 0

    def _variable(self, monomial: Monomial) -> Any:
        return self._z3.Int("*".join(monomial), self._context)


@functools.cache
def _shared_solver() -> _Solver:
    """Return the one of this process: setting z3 up takes as long as six questions."""
    return _Solver()


_ONE_AT_A_TIME = threading.Lock()
"""Two threads may not use one context of z3 at once."""


@functools.lru_cache(MOST_ANSWERS)
def _contradictory(known: Facts, never: tuple[Facts, ...]) -> bool:
    """Tell whether facts never hold where none of several conjunctions does; False where z3 cannot decide."""
    with _ONE_AT_A_TIME:
        answer = _shared_solver().is_unsatisfiable(known, never, FEW_STEPS)
    if answer is None:
        answer = _Solver().is_unsatisfiable(known, never, STEPS)
    return bool(answer)
