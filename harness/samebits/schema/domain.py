"""For which inputs a contract promises its verdict: facts about named inputs, as data; the text is made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, cast

from samebits.errors import DeclarationError
from samebits.schema.validate import check_tuple, expected

Fact = Literal["finite", "no_negative_zero", "no_subnormal", "no_nan", "no_signalling_nan"]
FACTS: Mapping[Fact, str] = {
    "finite": "finite",
    "no_negative_zero": "-0.0",
    "no_subnormal": "subnormal number",
    "no_nan": "NaN",
    "no_signalling_nan": "signalling NaN",
}
"""What a domain can say of an input, with its name in a text; all but the first are values that do not occur."""

_IMPLIES: Mapping[Fact, tuple[Fact, ...]] = {"no_nan": ("finite",), "no_signalling_nan": ("finite", "no_nan")}
"""The facts from which a fact follows."""

COTANGENTS = "cotangents"
"""Stands for the cotangent of every output."""

_COTANGENT = "the cotangent of "


def cotangent_of(leaf: str) -> str:
    """Name the cotangent of an output leaf among the inputs of a gradient."""
    return _COTANGENT + leaf


class RequiredFact(NamedTuple):
    """One fact that a proof needs of one input.

    Args:
        fact: what must hold.
        subject: the name of an argument, `the cotangent of LEAF`, or `OPERATION of` such names for what a program
            computes from them.
    """

    fact: Fact
    subject: str

    def __str__(self) -> str:
        return f"{self.fact}={self.subject}"

    def implies(self, fact: Fact) -> bool:
        """Tell whether another fact of the same input follows from this one."""
        return self.fact in _IMPLIES.get(fact, ())

    @classmethod
    def parse(cls, text: str) -> RequiredFact:
        """Read the fact that was written as `FACT=SUBJECT`."""
        fact, _, subject = text.partition("=")
        return cls(cast(Fact, fact), subject)


@dataclass(frozen=True, kw_only=True, slots=True)
class Domain:
    """For which inputs a verdict is promised.

    Each fact lists the inputs of which it holds: names of arguments (shell patterns), `cotangents` for the cotangents
    of all outputs, `the cotangent of LEAF` for one, or `OPERATION of INPUT` for what a program computes.

    Args:
        finite: neither infinite nor NaN.
        no_negative_zero: no -0.0.
        no_subnormal: no subnormal numbers.
        no_nan: no NaN.
        no_signalling_nan: no signalling NaN; quiet ones may occur.
        also: what no fact can say, such as "experts in [0, num_experts)"; it is printed, and no proof rests on it.

    Raises:
        DeclarationError: a fact is not a tuple of names, or nothing is said at all.
    """

    finite: tuple[str, ...] = ()
    no_negative_zero: tuple[str, ...] = ()
    no_subnormal: tuple[str, ...] = ()
    no_nan: tuple[str, ...] = ()
    no_signalling_nan: tuple[str, ...] = ()
    also: str | None = None

    def __post_init__(self) -> None:
        for fact in FACTS:
            names = getattr(self, fact)
            check_tuple("a domain", fact, names)
            if not all(isinstance(name, str) and name for name in names):
                raise DeclarationError(f"a domain: {fact}={names!r} must hold names of inputs only")
        if self.also is not None and not (isinstance(self.also, str) and self.also.strip()):
            raise DeclarationError(f"a domain: also={self.also!r} must be a text that says something; leave it out")
        if not any(getattr(self, fact) for fact in FACTS) and self.also is None:
            raise DeclarationError("a domain says nothing; leave it out where every input is promised")

    def says(self, needed: RequiredFact) -> bool:
        """Tell whether a fact that a proof needs is among those stated, or follows from them."""
        facts = (needed.fact, *_IMPLIES.get(needed.fact, ()))
        return any(_names(pattern, needed.subject) for fact in facts for pattern in getattr(self, fact))

    def check(self, where: str, arguments: Iterable[str]) -> None:
        """Reject a fact about an input that does not exist."""
        known = tuple(dict.fromkeys(arguments))
        for fact in FACTS:
            for pattern in getattr(self, fact):
                if pattern == COTANGENTS and COTANGENTS in known:
                    raise DeclarationError(
                        f"{where}: '{COTANGENTS}' in {fact} stands for the cotangents of all outputs, and the pair has "
                        "an argument of that name; rename the argument"
                    )
                if _is_made(pattern) or any(_names(pattern, name) for name in known):
                    continue
                raise DeclarationError(
                    f"{where}: {fact} refers to '{pattern}', which is not an argument; "
                    f"{expected(pattern, (*known, COTANGENTS))}"
                )

    def __str__(self) -> str:
        return "; ".join((*_text({fact: getattr(self, fact) for fact in FACTS}), *filter(None, (self.also,))))


def unsaid(domain: Domain | None, needed: Iterable[RequiredFact]) -> tuple[RequiredFact, ...]:
    """Return what a proof needs and a domain does not say; no domain says nothing."""
    return tuple(fact for fact in needed if domain is None or not domain.says(fact))


def in_words(needed: Iterable[RequiredFact]) -> str:
    """Write facts as a text, such as `x finite; no -0.0 or subnormal number in x and y`."""
    return "; ".join(_text(_by_fact(needed)))


def in_code(needed: Iterable[RequiredFact]) -> str:
    """Write facts as the declaration that states them."""
    stated = (
        f"{fact}={tuple(dict.fromkeys(names))!r}".replace('"', "'") for fact, names in _by_fact(needed).items() if names
    )
    return f"Domain({', '.join(stated)})"


def not_said(needed: Iterable[RequiredFact]) -> str:
    """Say that a contract's domain does not say what a proof needs, and what to write."""
    return f"the contract's domain does not say so: write domain={in_code(needed)}"


def _by_fact(needed: Iterable[RequiredFact]) -> dict[Fact, tuple[str, ...]]:
    facts = list(needed)
    return {
        fact: tuple(dict.fromkeys(required.subject for required in facts if required.fact == fact)) for fact in FACTS
    }


def _names(pattern: str, subject: str) -> bool:
    if pattern == COTANGENTS:
        return subject.startswith(_COTANGENT)
    if subject.startswith(_COTANGENT) != pattern.startswith(_COTANGENT) or _is_computed(subject) != _is_computed(
        pattern
    ):
        return False  # `*` stands for arguments; neither for cotangents nor for what is computed
    return pattern == subject or fnmatchcase(subject, pattern)


def _is_computed(name: str) -> bool:
    return not name.startswith(_COTANGENT) and " of " in name


def _is_made(pattern: str) -> bool:
    """Tell whether a pattern names what only a program has: a cotangent, or the result of an operation."""
    return pattern == COTANGENTS or pattern.startswith(_COTANGENT) or _is_computed(pattern)


def _text(facts: Mapping[Fact, tuple[str, ...]]) -> Iterable[str]:
    """Yield a sentence for what is finite, and one for each list of inputs that leave out the same values."""
    if facts["finite"]:
        yield f"{_listed(facts['finite'])} finite"
    left_out: dict[tuple[str, ...], list[str]] = {}
    for fact, names in facts.items():
        if fact != "finite" and names:
            left_out.setdefault(names, []).append(FACTS[fact])
    for names, words in left_out.items():
        *most, last = words
        yield f"no {', '.join(most)}{' or ' if most else ''}{last} in {_listed(names)}"


def _listed(names: tuple[str, ...]) -> str:
    words = {"*": "every argument", COTANGENTS: "the cotangents"}
    return " and ".join(words.get(name, name) for name in names)
