"""The places of an output as symbolic indices, cut into digits where a program cuts them, and what holds of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from samebits.errors import NotCovered
from samebits.sizes.places.facts import (
    Element,
    Fact,
    Facts,
    Integer,
    Source,
    Whole,
    WholeResult,
    at_least,
    equal,
    variables_in,
)
from samebits.sizes.places.linear_questions import LimitReached, LinearQuestions
from samebits.sizes.places.polynomial import (
    Polynomial,
    dimension,
    is_not_negative,
    of,
    product,
    solution,
    variable,
    weights,
)

# The scans of the programs that are compared, and which of one program are those of the other.
Alike = Callable[[Any, Any], bool]
"""Whether two scans are shown to carry the same, number by number."""

MOST_COMPARED = 16
"""With how many scans of the other program one is compared."""


class KnownLoops(dict[str, Any]):
    """Scans by name; `shared` is true where two of them have one name."""

    def __init__(self) -> None:
        super().__init__()
        self._alike: Alike | None = None
        self._first: list[Any] = []
        self._names: dict[str, str] = {}
        self._assumed: dict[str, list[tuple[Any, dict[Fact, None]]]] = {}
        self._asked: set[str] = set()
        self.shared = False

    def begin(self, alike: Alike) -> None:
        """Forget which scans are the same, as indices may have been cut since; `alike` decides it for two of them."""
        self._alike, self._first, self._names, self._assumed, self.shared = alike, [], {}, {}, False

    def name_of(self, scan: Any) -> str:
        """Return the name of the first scan that is shown to be the same; its own where none is."""
        name: str = scan.name
        if self._alike is None or name in self._asked:
            return name
        if name not in self._names:
            self._asked.add(name)
            try:
                self._names[name] = self._first_like(scan, self._alike)
            finally:
                self._asked.discard(name)
        for evaluator, facts in self._assumed.get(name, ()):
            # Wherever it is called the same, and not only where that was found out.
            evaluator.assumed |= facts
        return self._names[name]

    def _first_like(self, scan: Any, alike: Alike) -> str:
        others = [
            first
            for first in self._first
            if (first.length, first.carries) == (scan.length, scan.carries)
            and first.demand.frame.depth == scan.demand.frame.depth
        ]
        for first in others[:MOST_COMPARED]:
            is_alike, assumed = _asked_alone(alike, first, scan)
            if is_alike:
                self._assumed[scan.name] = assumed
                self.shared = True
                return str(first.name)
        self._first.append(scan)
        return str(scan.name)


def _asked_alone(alike: Alike, first: Any, second: Any) -> tuple[bool, list[tuple[Any, dict[Fact, None]]]]:
    """Tell whether two scans are the same, and what their evaluators assume for that, which these do not note yet."""
    evaluators = first.demand.evaluator, second.demand.evaluator
    before = [dict(evaluator.assumed) for evaluator in evaluators]
    for evaluator in evaluators:
        evaluator.assumed.clear()
    try:
        is_alike = alike(first, second)
        return is_alike, [(evaluator, dict(evaluator.assumed)) for evaluator in evaluators]
    finally:
        for evaluator, facts in zip(evaluators, before, strict=True):
            evaluator.assumed.clear()
            evaluator.assumed.update(facts)


# Numbers of permutations: what a sort puts at a place, and at which place it puts a number.
@dataclass(frozen=True, slots=True)
class Permutation:
    """A place of a permutation of the numbers below the size of an axis, or of its inverse.

    Args:
        operation: what permutes.
        operands: the arrays that decide on the order; they are closed: of no index but their own.
        axis: along which the places are permuted; each place of the other axes has a permutation of its own.
        size: of the axis.
        inverse: whether it is the place of a number, and not the number at a place.
    """

    operation: str
    operands: tuple[Whole, ...]
    index: tuple[Polynomial, ...]
    axis: int
    size: Polynomial
    inverse: bool = False

    @property
    def place(self) -> Polynomial:
        """Return the place along the axis."""
        return self.index[self.axis]

    def at(self, place: Polynomial) -> Permutation:
        """Return another place along the axis."""
        return replace(self, index=(*self.index[: self.axis], place, *self.index[self.axis + 1 :]))

    def undone(self, number: Polynomial) -> Permutation:
        """Return the place of a number."""
        return replace(self.at(number), inverse=not self.inverse)

    def undoes(self, other: Permutation) -> bool:
        """Tell whether it is the inverse of another at that one's place of the other axes."""
        return replace(self.at(other.place), inverse=other.inverse) == other and self.inverse != other.inverse


class Permutations:
    """The numbers of permutations that stand in proofs, by the names of their variables."""

    def __init__(self) -> None:
        self._known: dict[str, Permutation] = {}

    def value(self, space: Space, wanted: Permutation) -> Polynomial:
        """Return the number at a place: a variable, or what a permutation and its inverse leave as it was."""
        for name, other in self._known.items():
            if wanted.undoes(other) and space.current(variable(name)) == wanted.place:
                return other.place
        source = WholeResult(f"{'inverse ' if wanted.inverse else ''}{wanted.operation}", wanted.index, wanted.operands)
        value = space.value_of(source, wanted.size)
        self._known[space.name_of(source)] = wanted
        return value

    def at_value(self, space: Space, value: Polynomial) -> Permutation | None:
        """Return the permutation whose number a value is."""
        for name, known in self._known.items():
            if space.current(variable(name)) == value:
                return known
        return None

    def hidden_in(self, space: Space, names: Sequence[str], unknown: frozenset[str]) -> tuple[str, Permutation] | None:
        """Return the one permutation of whose number some names are digits, and whose place alone is made of unknowns.

        None where it is not one, or is not a number of a place; its name comes first.
        """
        for name, known in self._known.items():
            if not set(names) <= space.current(variable(name)).variables:
                continue
            rest = (p for axis, p in enumerate(known.index) if axis != known.axis)
            if any(p.variables & unknown for p in rest):
                return None
            return name, known
        return None


NESTED = 2
"""How deep unknown integers inside the indices of others are compared."""

MOST_CONJUNCTIONS = 20_000
"""How many distinct conditions the proof of one output may look at, some ten seconds; then it is undecided."""


class Space:
    """Holds sizes, indices and their digits.

    Args:
        lowest: by symbol of a size, the smallest value that it takes.
        below: by input of integers, what all of them are below of, and at least 0, where that is declared.
        equals: by input of integers, what each of them is, of its place `index0, index1, ...`, where that is declared.
    """

    def __init__(
        self,
        lowest: Mapping[str, int],
        below: Mapping[str, Polynomial] | None = None,
        equals: Mapping[str, Polynomial] | None = None,
    ) -> None:
        self.lowest = dict(lowest)
        self._below, self._equals = dict(below or {}), dict(equals or {})
        self.bounded: dict[str, None] = {}
        self.ranges: dict[str, Polynomial] = {}
        self._digits: dict[str, Polynomial] = {}
        self.divisions = Divisions(self.ranges)
        self._values: dict[Source, str] = {}
        self.sources: dict[str, Source] = {}
        self.permutations = Permutations()
        self.scans = KnownLoops()
        self.inside: dict[str, frozenset[str]] = {}
        self.questions = LinearQuestions(self.ranges, self.lowest)
        self._contradictory: dict[Facts, bool] = {}
        self._facts = SimpleFacts(self.ranges, self.lowest)

    def size(self, value: Any) -> Polynomial:
        """Return a dimension of a shape."""
        return dimension(value, self._operation)

    def _operation(self, name: str, values: Sequence[Polynomial]) -> Polynomial:
        if name == "non_negative" and len(values) == 1:
            name, values = "max", [*values, of(0)]
        if len(values) == 2:
            first, second = values
            if name in ("floordiv", "mod"):
                return self.divide(first, second)[name == "mod"]
            if name in ("max", "min"):
                if self.proves((), first - second):
                    return first if name == "max" else second
                if self.proves((), second - first):
                    return second if name == "max" else first
        raise NotCovered(f"the size {name}({', '.join(map(str, values))}) depends on which size is larger")

    def index(self, name: str, size: Polynomial) -> Polynomial:
        """Return an index below a size: a variable, or the digits that it was cut into; 0 where there is one place."""
        if size.constant == 1:
            return of(0)
        if self.ranges.setdefault(name, size) != size:
            # Programs that are compared number their equations each for itself.
            name = f"{name} below {size}"
            self.ranges[name] = size
        return self.current(variable(name))

    def current(self, p: Polynomial) -> Polynomial:
        """Return a polynomial with the digits of every index that has been cut."""
        while cut := p.variables & self._digits.keys():
            p = p.substitute({name: self._digits[name] for name in cut})
        return p

    def cut(self, request: CutIndex) -> None:
        """Replace an index by a high and a low digit."""
        high = self.ranges[request.name].quotient(request.weight)
        assert high is not None
        digits = self.index(f"{request.name}.high", high) * request.weight
        self._digits[request.name] = digits + self.index(f"{request.name}.low", request.weight)
        if request.name in self.inside:
            for digit in self._digits[request.name].variables - self.lowest.keys():
                self.inside[digit] = self.inside[request.name]

    def input(self, name: str, index: Sequence[Polynomial]) -> Source:
        """Return an element of an input: itself, or the integer that it is declared to be."""
        if name not in self._equals:
            return Element(name, tuple(index))
        places = {f"index{axis}": place for axis, place in enumerate(index)}
        self.bounded[f"{name}[{', '.join(places)}] is {self._equals[name]}"] = None
        return Integer(self.current(self._equals[name].substitute(places)))

    def value_of(self, source: Source, below: Polynomial | None = None) -> Polynomial:
        """Return the unknown integer that a source is, at least 0 and below `below`, where that is known."""
        if below is None and isinstance(source, Element) and source.name in self._below:
            below = self._below[source.name]
            self.bounded[f"every element of {source.name} is in [0, {below})"] = None
        if below is None and isinstance(source, WholeResult):
            below = source.below
        if source not in self._values:
            name = str(source) if isinstance(source, Element) else f"{source} #{len(self._values)}"
            self._values[source] = name
            self.sources[name] = source
            self.inside[name] = variables_in(source)
            if below is not None:
                self.ranges[name] = below
        return self.current(variable(self._values[source]))

    def promise_below(self, source: Source, below: Polynomial) -> None:
        """Take an unknown integer for at least 0 and below a size, as a program promises of its inputs."""
        name = self._values[source]
        if name not in self.ranges:
            self.ranges[name] = below
            self.bounded[f"{getattr(source, 'name', name.partition('(')[0])}[...] is in [0, {below})"] = None
            self.questions.ask_again()
            self._facts.look_again()
            self._contradictory = {facts: True for facts, shown in self._contradictory.items() if shown}

    def name_of(self, source: Source) -> str:
        """Return the variable of an unknown integer that has been asked for."""
        return self._values[source]

    def simplified(self, facts: Facts) -> Facts | None:
        """Return facts without those that always hold and without common weights; None where one never holds."""
        return self._facts.simplified(facts)

    def possible(self, facts: Facts, known: Facts) -> Facts | None:
        """Simplify facts; None where they are shown never to hold beside what is known."""
        own = self.simplified(facts)
        return None if own is None or (own and self.contradicts((*known, *own))) else own

    def _bounded(self, p: Polynomial) -> bool:
        """Tell whether a polynomial is shown to be at least 0 in the box of all sizes and indices."""
        return self._facts.is_not_negative(p)

    def proves(self, facts: Facts, p: Polynomial) -> bool:
        """Tell whether a polynomial is shown to be at least 0 where the facts hold."""
        if self._bounded(p):
            return True
        if not facts and p.variables <= self.lowest.keys():
            return False
        if any(self._bounded(p - fact.polynomial) for fact in facts if fact.kind == "not_negative"):
            return True
        if self._bounded(-p - 1):
            return False
        return self.contradicts((*facts, at_least(-p, 1)))

    def proves_equal(self, facts: Facts, first: Polynomial, second: Polynomial, nested: int = NESTED) -> bool:
        """Tell whether two polynomials are shown to be equal where the facts hold.

        Unknown integers inside the indices of others are compared `nested` deep.
        """
        eliminated = self.eliminated(facts)
        if eliminated is None:
            return True
        left, values = eliminated
        difference = (first - second).substitute(values)
        if difference.constant is not None:
            return difference.constant == 0
        # By weight: sums of digits whose weights are products of sizes are equal where the digits are.
        groups: dict[tuple[str, ...], Polynomial] = {}
        for monomial, factor in difference.terms:
            weight = tuple(name for name in monomial if name in self.lowest)
            rest = product(variable(name) for name in monomial if name not in self.lowest) * factor
            groups[weight] = groups.get(weight, of(0)) + rest
        if all(self._is_zero(left, group) for group in groups.values()) or self._is_zero(left, difference):
            return True
        if not nested:
            return False
        more = equal_values(self, facts, difference.variables, nested - 1)
        return not set(more) <= set(facts) and self.proves_equal((*facts, *more), first, second, nested - 1)

    def _is_zero(self, facts: Facts, p: Polynomial) -> bool:
        if p.constant is not None:
            return p.constant == 0
        return self.proves(facts, p) and self.proves(facts, -p)

    def eliminated(self, facts: Facts) -> tuple[Facts, dict[str, Polynomial]] | None:
        """Replace the indices that equations give a value; return these values too; None where a fact never holds."""
        values: dict[str, Polynomial] = {}
        left: list[Fact] = []
        facts = tuple(dict.fromkeys((*facts, *self._defined(facts))))
        for fact in facts:
            if fact.kind != "zero":
                continue
            p = fact.polynomial.substitute(values)
            solved = solution(p, self.lowest)
            if solved is None:
                left.append(Fact("zero", p))
                continue
            name, value = solved
            values = {other: q.substitute({name: value}) for other, q in values.items()} | {name: value}
            if name in self.lowest:
                # The bounds of an index of this size are bounds of the value then.
                names = {other for fact in facts for other in fact.polynomial.variables & self.ranges.keys()}
                left += self.ranges_of(other for other in names if name in self.ranges[other].variables)
                left.append(at_least(value, self.lowest[name]))
            if name in self.ranges:
                left += [at_least(value, 0), at_least(self.ranges[name] - 1, value)]
        left += [fact for fact in facts if fact.kind != "zero"]
        known = (Fact(fact.kind, fact.polynomial.substitute(values)) for fact in left)
        simple = self.simplified(tuple(known))
        return None if simple is None else (simple, values)

    def contradicts(self, facts: Facts) -> bool:
        """Tell whether facts are shown never to hold together."""
        if facts not in self._contradictory:
            if len(self._contradictory) >= MOST_CONJUNCTIONS:
                raise LimitReached(f"more than {MOST_CONJUNCTIONS} conditions on indices, the limit for one output")
            left = self.eliminated(facts)
            self._contradictory[facts] = left is None or bool(left[0][1:] and self.questions.contradict(left[0]))
        return self._contradictory[facts]

    def covered_by(self, cases: Iterable[Facts], where: Facts = ()) -> bool:
        """Tell whether it is shown that one of several conjunctions holds everywhere, or where facts hold."""
        simple = [self.simplified(facts) for facts in cases]
        known = [facts for facts in simple if facts is not None]
        if () in known:
            return True
        defined = self._defined((*where, *(fact for facts in known for fact in facts)))
        return self.questions.contradict((*where, *defined), known)

    def ranges_of(self, names: Iterable[str]) -> Facts:
        """Say that indices lie in their ranges."""
        facts: list[Fact] = []
        for name in sorted(set(names) & self.ranges.keys()):
            facts += [at_least(variable(name), 0), at_least(self.ranges[name] - 1, variable(name))]
        return tuple(facts)

    def all_facts(self, facts: Facts) -> Facts:
        """Add the definitions of what stands in facts, and the ranges of what these bring in."""
        defined = self._defined(facts)
        names = {name for fact in defined for name in fact.polynomial.variables}
        return (*facts, *defined, *self.ranges_of(names))

    def _defined(self, facts: Facts) -> list[Fact]:
        """Return the definitions of the quotients and remainders in facts."""
        todo = [name for fact in facts for name in fact.polynomial.variables]
        known: dict[str, tuple[Fact, ...]] = {}
        while todo:
            name = todo.pop()
            if name in self.divisions.definitions and name not in known:
                known[name] = self.divisions.definitions[name]
                todo += [other for fact in known[name] for other in fact.polynomial.variables]
        return [fact for facts_of in known.values() for fact in facts_of]

    def divide(self, p: Polynomial, divisor: Polynomial, facts: Facts = ()) -> tuple[Polynomial, Polynomial]:
        """Divide, rounded down: quotient and remainder.

        Raises:
            CutIndex: an index has to be cut first.
        """
        if divisor.constant == 1:
            return p, of(0)
        whole, rest = p.divided(divisor)
        for shift in (0, 1, -1):
            low = rest + divisor * shift
            if self.proves(facts, low) and self.proves(facts, divisor - 1 - low):
                return whole - shift, low
        self._cut_for(rest, divisor)
        return self._defined_division(p, divisor)

    def _cut_for(self, rest: Polynomial, divisor: Polynomial) -> None:
        for name in sorted(rest.variables & self.ranges.keys()):
            parts = rest.by(name)
            if parts is None or not parts[0].terms or not parts[0].variables <= self.lowest.keys():
                continue
            for sign in (1, -1):
                weight = divisor.quotient(parts[0] * sign)
                if weight is None or weight.constant == 1 or not self.proves((), weight - 1):
                    continue
                high = self.ranges[name].quotient(weight)
                if high is not None and high.constant != 1:
                    raise CutIndex(name, weight)

    def _defined_division(self, p: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Return two variables that the equation of a division defines."""
        if not self.proves((), divisor - 1):
            # For whatever place: the definition holds wherever its variables stand.
            raise NotCovered(f"a division by {divisor}, which is not shown to be positive")
        return self.divisions.divide(p, divisor)


def equal_values(space: Space, facts: Facts, names: Iterable[str], nested: int) -> Facts:
    """Return the equations between unknown integers that follow from facts about their indices."""
    wanted = set(names)
    values = [
        (name, source) for name, source in space.sources.items() if space.current(variable(name)).variables & wanted
    ]
    return tuple(
        equal(space.current(variable(first)), space.current(variable(second)))
        for (first, source), (second, another) in combinations(values, 2)
        if _same_at_equal_indices(space, facts, source, another, nested)
    )


def _same_at_equal_indices(space: Space, facts: Facts, first: Source, second: Source, nested: int) -> bool:
    if isinstance(first, Element) and isinstance(second, Element):
        alike = first.name == second.name
    elif isinstance(first, WholeResult) and isinstance(second, WholeResult):
        alike = first.operation == second.operation and first.operands == second.operands
    else:
        return False
    return alike and all(
        space.proves_equal(facts, a, b, nested) for a, b in zip(first.index, second.index, strict=True)
    )


class SimpleFacts:
    """Simplifies facts; each is looked at once, as ranges are only added and what is shown of a box stays shown."""

    def __init__(self, ranges: Mapping[str, Polynomial], lowest: Mapping[str, int]) -> None:
        self._ranges, self._lowest = ranges, lowest
        self._not_negative: dict[Polynomial, bool] = {}
        self._simpler: dict[Fact, Facts | None] = {}

    def look_again(self) -> None:
        """Forget what was not shown, since more is known of an index now."""
        self._not_negative.clear()
        self._simpler.clear()

    def simplified(self, facts: Facts) -> Facts | None:
        """Return facts without those that always hold and without common weights; None where one never holds."""
        known: dict[Fact, None] = {}
        for fact in facts:
            simpler = self._of_one(fact)
            if simpler is None:
                return None
            known.update(dict.fromkeys(simpler))
        return tuple(known)

    def _of_one(self, fact: Fact) -> Facts | None:
        """Simplify one fact: nothing is left where it always holds; None where it never does."""
        if fact not in self._simpler:
            if self._never(fact):
                self._simpler[fact] = None
            elif self._always(fact):
                self._simpler[fact] = ()
            else:
                parts = self._lighter(fact)
                self._simpler[fact] = (fact,) if parts is None else self.simplified(tuple(parts))
        return self._simpler[fact]

    def _lighter(self, fact: Fact) -> list[Fact] | None:
        """Split a fact about digits of weight `w` and the rest below `w`: into the digits alone, or both."""
        p, zero = fact.polynomial, fact.kind == "zero"
        for weight in weights(p, self._lowest, self._ranges):
            whole, rest = p.divided(weight)
            if not whole.variables or whole == p:
                continue
            for shift in (0, 1):
                low = rest + weight * shift
                # A multiple of the weight between -w and w is 0.
                least = low + weight - 1 if zero else low
                if self.is_not_negative(least) and self.is_not_negative(weight - 1 - low):
                    high = Fact(fact.kind, whole - shift)
                    return [high, Fact("zero", low)] if zero else [high]
        return None

    def is_not_negative(self, p: Polynomial) -> bool:
        """Tell whether a polynomial is shown to be at least 0 in the box of all sizes and indices."""
        if p not in self._not_negative:
            self._not_negative[p] = is_not_negative(p, self._ranges, self._lowest)
        return self._not_negative[p]

    def _never(self, fact: Fact) -> bool:
        p = fact.polynomial
        if self.is_not_negative(-p - 1):
            return True
        if fact.kind != "zero":
            return False
        rest = dict(p.terms).get((), 0)
        common = math.gcd(*(factor for monomial, factor in p.terms if monomial))
        return (common > 1 and rest % common != 0) or self.is_not_negative(p - 1)

    def _always(self, fact: Fact) -> bool:
        if fact.kind == "zero":
            return not fact.polynomial.terms
        return self.is_not_negative(fact.polynomial)


# Quotients and remainders by a size, as variables: one pair of them for whatever has the same remainder.
class CutIndex(Exception):
    """An index has to be cut into two digits; the evaluation begins again with them."""

    def __init__(self, name: str, weight: Polynomial) -> None:
        super().__init__(f"{name} by {weight}")
        self.name, self.weight = name, weight


class Divisions:
    """Holds the divisions whose results are variables; a remainder is below its divisor."""

    def __init__(self, ranges: dict[str, Polynomial]) -> None:
        self.definitions: dict[str, tuple[Fact, ...]] = {}
        self._ranges = ranges
        self._named: dict[tuple[Polynomial, Polynomial], tuple[Polynomial, Polynomial]] = {}
        self._remainders: dict[str, tuple[Polynomial, Polynomial, Polynomial]] = {}
        self.divided: dict[str, tuple[Polynomial, Polynomial, bool]] = {}

    def divide(self, p: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Divide, rounded down, by a divisor that is at least 1: quotient and remainder."""
        whole, p = self.without_multiples(p, divisor)
        if p.terms and p.terms[0][1] < 0:
            # (-1 - x) // m is -1 - x // m, and its remainder is m - 1 - x % m.
            high, low = self._variables(-p - 1, divisor)
            return whole - 1 - high, divisor - 1 - low
        high, low = self._variables(p, divisor)
        return whole + high, low

    def without_multiples(self, p: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Return `(q, r)` with `p = q * divisor + r`, where `r` has no remainder or multiple of this divisor."""
        total = of(0)
        while True:
            whole, p = p.divided(divisor)
            total = total + whole
            name = next((name for name in sorted(p.variables) if self._divided_by(name) == divisor), None)
            parts = None if name is None else p.by(name)
            if name is None or parts is None:
                return total, p
            divided, _, high = self._remainders[name]
            # factor * (x % m) is factor * x - factor * (x // m) * m.
            p, total = parts[1] + parts[0] * divided, total - parts[0] * high

    def _divided_by(self, remainder: str) -> Polynomial | None:
        known = self._remainders.get(remainder)
        return None if known is None else known[1]

    def _variables(self, p: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        key = p, divisor
        if key not in self._named:
            high, low = f"({p})//({divisor})", f"({p})%({divisor})"
            self._ranges[low] = divisor
            definition = equal(p, divisor * variable(high) + variable(low))
            self.definitions[high] = self.definitions[low] = (definition,)
            self.divided[high], self.divided[low] = (p, divisor, False), (p, divisor, True)
            self._named[key] = variable(high), variable(low)
            self._remainders[low] = p, divisor, variable(high)
        return self._named[key]
