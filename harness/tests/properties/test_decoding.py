"""`assert_decodes`: honest decoders with every kind of cache, and planted faults with the position that they change."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.errors import CouldNotRun, RequestError
from samebits.functions.result import Comparing
from samebits.properties import decoding as module
from samebits.properties.decoding import decoding
from tests.properties.decoders import FAULTS, HONEST, LENGTH, PADS, TOKENS, Decoder, forward, parameters

PARAMS = parameters()
BEHIND_PADDING = np.arange(LENGTH) >= np.array(PADS)[:, None]

PLACES = {
    "position off by one": 2,
    "read before written": 2,
    "window off by one": 2,
    "stale slot": 2,
    "wrong page": 3,
    "padding attended": 2,
    "wrong head": 2,
}
"""The first position whose logits a fault changes."""


def options(kind: str) -> dict[str, Any]:
    return {"params": PARAMS, "prefixes": (2,), "positions": BEHIND_PADDING if "padding" in kind else None}


@pytest.fixture
def unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the judge out, which other tests call."""
    monkeypatch.setattr(module, "check", lambda *_, **__: Comparing(name="", reference="", leaves=()))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_with_its_position(fault: str) -> None:
    decoder, forward = FAULTS[fault]
    step = PLACES[fault] - 1
    place = rf"prefix of 2: position {PLACES[fault]}, row \d, vocabulary index \d, by step {step} of decoding: forward"
    with pytest.raises(AssertionError, match=place):
        samebits.assert_decodes(decoder.prefill, decoder.decode, forward, TOKENS, **options(fault))


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_decoder_is_the_function_in_float64(kind: str) -> None:
    decoder, forward = HONEST[kind]
    assert decoding(decoder.prefill, decoder.decode, forward, TOKENS, **options(kind)).first == ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_decoder_has_the_same_formulas(kind: str) -> None:
    decoder, forward = HONEST[kind]
    result = decoding(decoder.prefill, decoder.decode, forward, TOKENS, **options(kind))
    result.raise_for_status()
    assert result.ok and "the same formulas" in str(result) and "step by step: " in str(result)


@pytest.mark.parametrize(("fault", "place"), [("", 0), ("scale not written", 2), ("position off by one", 2)])
def test_a_cache_of_int8_is_held_against_a_tolerance(fault: str, place: int) -> None:
    decoder = Decoder(int8=True, fault=fault)
    asked = (decoder.prefill, decoder.decode, forward, TOKENS)
    result = decoding(*asked, params=PARAMS, prefixes=(2,), tolerance=0.02)
    assert [each.position for each in result.first] == ([place] if fault else [])
    assert result.ok != bool(fault) and "within 0.02 of the largest logit" in str(result)
    if not fault:
        with pytest.raises(AssertionError, match="not the function of the full forward pass, executed"):
            samebits.assert_decodes(*asked, params=PARAMS, prefixes=(2,))


TABLE = np.arange(20, dtype=np.float32).reshape(5, 4) - 9
"""Small integers, whose sums are exact."""


def summed(tokens: Any) -> Any:
    return jnp.cumsum(jnp.asarray(TABLE)[tokens], axis=-2)


def last_alone(tokens: Any) -> Any:
    logits = summed(tokens)[..., -1, :]
    return logits, logits


def added(cache: Any, token: Any) -> Any:
    cache = cache + jnp.asarray(TABLE)[token]
    return cache, cache


def by_place(cache: Any, token: Any, position: Any) -> Any:
    logits, cache = added(cache, token)
    return jnp.where(position == 4, -logits, logits)[..., None, :], cache


def all_of_them(tokens: Any) -> Any:
    return summed(tokens), summed(tokens)[..., -1, :]


def wrong_prefill(tokens: Any) -> Any:
    return summed(tokens[..., ::-1]), summed(tokens)[..., -1, :]


def test_bits_of_one_sequence_without_parameters() -> None:
    result = decoding(last_alone, added, summed, TOKENS[0], accept="bitwise", seeds=1)
    assert result.ok and result.prefixes == (1, 2, 4) and result.other_bits == 0


def test_a_fault_of_the_prefill_or_of_one_position() -> None:
    place = "position 4, vocabulary index 3, by step 2 of decoding: forward 14 "
    with pytest.raises(AssertionError, match=f"prefix of 3: {place}") as caught:
        samebits.assert_decodes(all_of_them, by_place, summed, TOKENS[0], prefixes=(3, 1))
    assert "prefix of 1: position 4" in str(caught.value)
    with pytest.raises(AssertionError, match=r"prefix of 3: position 0, row \d, vocabulary index \d, by the prefill"):
        samebits.assert_decodes(wrong_prefill, added, summed, TOKENS, prefixes=(3,))


def listed(tokens: Any) -> Any:
    return summed(tokens), jnp.asarray(TABLE)[tokens]


def appended(cache: Any, token: Any) -> Any:
    """Make the cache one entry longer."""
    cache = jnp.concatenate([cache, jnp.asarray(TABLE)[token][..., None, :]], axis=-2)
    return cache.sum(-2), cache


@pytest.mark.usefixtures("unjudged")
def test_many_steps_are_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNROLLED", 2)
    with pytest.raises(AssertionError, match="prefix of 1: position 4"):
        samebits.assert_decodes(all_of_them, by_place, summed, TOKENS, prefixes=(1,))
    assert decoding(last_alone, added, summed, TOKENS, prefixes=(1,)).first == ()
    assert decoding(listed, appended, summed, TOKENS, prefixes=(1,)).first == ()  # which no scan can carry


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: decoding(last_alone, added, summed, TABLE),
            RequestError,
            r"tokens float32\[5, 4\] and prefixes 1, 2, 3",
        ),
        (lambda: decoding(last_alone, added, summed, TOKENS, prefixes=(5,)), RequestError, "prefixes 5; expected"),
        (lambda: decoding(last_alone, added, summed, TOKENS, positions=[True]), RequestError, r"positions \[1\]; exp"),
        (
            lambda: decoding(summed, added, summed, TOKENS),
            RequestError,
            r"prefill returns \w+; expected \(logits, cache\)",
        ),
        (
            lambda: decoding(last_alone, added, lambda t: summed(t)[:, -1], TOKENS),
            RequestError,
            "logits of every token",
        ),
        (lambda: decoding(last_alone, lambda c, t: 1 / 0, summed, TOKENS), CouldNotRun, "could not run: .*ZeroDiv"),
    ],
)
def test_what_cannot_be_asked_is_one_line(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_cache_that_one_step_alone_keeps_is_ignored() -> None:
    """Compare two decode steps of which one keeps a table of positions beside its keys and values."""
    decoder = Decoder()
    _, cache = decoder.prefill(PARAMS, TOKENS[:, :2])

    def lean(params: Any, cache: Any, token: Any) -> Any:
        logits, kept = decoder.decode(params, cache, token)
        return {"logits": logits, "cache": {name: kept[name] for name in ("k", "v")}}

    def whole(params: Any, cache: Any, token: Any) -> Any:
        logits, kept = decoder.decode(params, cache, token)
        return {"logits": logits, "cache": kept}

    extra = ("cache.at", "cache.length")
    samebits.assert_same(lean, whole, PARAMS, cache, TOKENS[:, 2], gradients=False, ignore=extra)
