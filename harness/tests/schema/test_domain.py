"""What a domain states; a proof uses nothing that it does not state."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import samebits.schema.domain
from samebits.schema.case import Arg
from samebits.schema.contract import Contract
from samebits.schema.domain import Domain, RequiredFact, cotangent_of, in_code, in_words, unsaid
from tests.schema import raising
from tests.support.toys import of, run, toy

OUT = cotangent_of("out")
ZERO_ADDED = tuple(RequiredFact(fact, OUT) for fact in ("no_negative_zero", "no_subnormal", "no_signalling_nan"))
PULLED: dict[str, Any] = {
    "no_negative_zero": ("cotangents",),
    "no_subnormal": ("cotangents",),
    "no_signalling_nan": ("cotangents",),
}


def rolled(x: Any, *, factor: float = 2.0) -> Any:
    """Its gradient adds zeros to the cotangent."""
    return jnp.concatenate([x[1:], x[:1]])


def taken(x: Any, *, factor: float = 2.0) -> Any:
    return x[(np.arange(len(x)) + 1) % len(x)]


def verdict(domain: Domain) -> str:
    """Of a gradient that is proved for cotangents without -0.0, subnormal numbers and signalling NaNs."""
    contract = Contract(direction="gradient", lowest="proved", domain=domain)
    (found,) = of(run(toy(rolled, taken=taken), contracts=(contract,)), variant="taken", direction="gradient")
    return found.ruling.verdict


def of_one(name: str) -> Domain:
    """What the proof needs, of another input."""
    return Domain(no_negative_zero=(name,), no_subnormal=(name,), no_signalling_nan=(name,))


STATED = {
    "for all cotangents": Domain(**PULLED),
    "for the cotangent by name": of_one(OUT),
    "a finite one has no NaN": Domain(finite=("cotangents",), no_negative_zero=(OUT,), no_subnormal=("cotangents",)),
}
SHORT = {
    "the words in a text": Domain(also="every bit, that of -0.0 included; subnormal numbers and NaN too"),
    "of the argument, not of its cotangent": Domain(no_negative_zero=("x",), no_subnormal=("x",), no_nan=("x",)),
    "of all arguments, which have no cotangents among them": of_one("*"),
    "one fact of three": Domain(no_negative_zero=("cotangents",)),
    "a finite number may be -0.0": Domain(finite=("cotangents",), no_subnormal=("cotangents",)),
    "the cotangent of another output": of_one(cotangent_of("out['b']")),
    "of what is computed from it": of_one(f"neg of {OUT}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", STATED)
def test_a_domain_that_states_what_the_proof_needs(what: str) -> None:
    assert unsaid(STATED[what], ZERO_ADDED) == ()
    assert verdict(STATED[what]) == "proved"


@pytest.mark.parametrize("what", SHORT)
def test_a_domain_that_does_not(what: str) -> None:
    assert unsaid(SHORT[what], ZERO_ADDED)


@pytest.mark.parametrize("what", ["the words in a text", "of the argument, not of its cotangent"])
def test_a_check_proves_nothing_for_it(what: str) -> None:
    assert verdict(SHORT[what]) == "bitwise"


def test_no_domain_states_nothing() -> None:
    assert unsaid(None, ZERO_ADDED) == ZERO_ADDED


@pytest.mark.parametrize(
    ("pattern", "subject", "says"),
    [
        ("*", "x", True),
        ("w_*", "w_up", True),
        ("w_*", "x", False),
        ("*", "mul of x", False),
        ("mul of *", "mul of x and y", True),
        ("mul of x", "neg of x", False),
        ("cotangents", "mul of the cotangent of out", False),
        ("mul of the cotangent of out", "mul of the cotangent of out", True),
        ("the cotangent of out['a']", "the cotangent of out['a']", True),  # brackets are no pattern here
    ],
)
def test_which_names_stand_for_which_inputs(pattern: str, subject: str, says: bool) -> None:
    assert Domain(no_nan=(pattern,)).says(RequiredFact("no_nan", subject)) is says


def test_the_text_is_made_from_the_facts() -> None:
    domain = Domain(finite=("*", "cotangents"), no_subnormal=("x",), no_negative_zero=("x",), also="ids in [0, 8)")
    assert str(domain) == "every argument and the cotangents finite; no -0.0 or subnormal number in x; ids in [0, 8)"
    assert in_words(ZERO_ADDED) == "no -0.0, subnormal number or signalling NaN in the cotangent of out"
    assert in_code(ZERO_ADDED[:1]) == "Domain(no_negative_zero=('the cotangent of out',))"
    assert [RequiredFact.parse(str(one)) for one in ZERO_ADDED] == list(ZERO_ADDED)
    assert eval(in_code(ZERO_ADDED)).says(ZERO_ADDED[1])  # what a message says to write can be written


def pair(argument: str, domain: Domain) -> Any:
    """The toy with another argument, and a contract for a domain."""
    args = {argument: Arg(shape=("rows", "columns"))}
    return dataclasses.replace(toy(), contracts=(Contract(domain=domain),), args=args)


WRONG_DOMAINS: dict[str, tuple[Callable[[], object], str]] = {
    "domain that is a text": (
        lambda: Contract(leaf="out", domain="the table is finite"),  # type: ignore[arg-type]
        "a contract (leaf=out) gives its domain as str 'the table is finite'; expected facts by input, as in "
        "Domain(finite=('x',), no_negative_zero=('cotangents',)), and Domain(also='...') for what no fact can say",
    ),
    "domain that says nothing": (lambda: Domain(), "a domain says nothing; leave it out where every input is promised"),
    "domain with a text for a tuple": (
        lambda: Domain(finite="table"),  # type: ignore[arg-type]
        "a domain: finite is the text 'table'; expected a tuple, as in ('table',)",
    ),
    "domain with a number for a name": (
        lambda: Domain(finite=(1,)),  # type: ignore[arg-type]
        "a domain: finite=(1,) must hold names of inputs only",
    ),
    "domain with an empty text": (
        lambda: Domain(also=" "),
        "a domain: also=' ' must be a text that says something; leave it out",
    ),
    "domain of a misspelt argument": (
        lambda: run(pair("x", Domain(no_nan=("y",)))),
        "pair 'toy', contract (every result): no_nan refers to 'y', which is not an argument; "
        "expected some of x, cotangents",
    ),
    "domain of an argument called cotangents": (
        lambda: pair("cotangents", Domain(finite=("cotangents",))).check_argument_names(),
        "pair 'toy', contract (every result): 'cotangents' in finite stands for the cotangents of all outputs, and the "
        "pair has an argument of that name; rename the argument",
    ),
}


def test_every_message_of_the_module_is_in_the_table() -> None:
    assert raising.unreached(samebits.schema.domain, [call for call, _ in WRONG_DOMAINS.values()]) == []
