"""Outputs that a comparison ignores by pattern: said, checked, and nothing else ignored with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import samebits
from samebits.errors import NothingCompared, RequestError
from tests.support.invoke import samebits as command

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
Function = Callable[..., Any]


def plain(x: Any) -> Any:
    return {"y": x * 2}


def cached(x: Any) -> Any:
    return {"y": x + x, "cache": {"k": x, "v": x * 3}}


def cached_wrong(x: Any) -> Any:
    return {"y": x * 3, "cache": {"k": x}}


def filling(cache: Any, x: Any) -> Any:
    cache["k"] = x * 3
    return x * 2


def filling_wrong(cache: Any, x: Any) -> Any:
    cache["k"] = x * 3
    return x * 2 + cache["v"]


def replacing(cache: Any, x: Any) -> Any:
    cache["k"] = x * 3
    cache["kind"] = "full"
    del cache["v"]
    return x * 2


def filling_and_naming(cache: Any, x: Any) -> Any:
    cache["kind"] = "full"
    return filling(cache, x)


def replacing_other(cache: Any, x: Any) -> Any:
    cache["rest"] = x
    return replacing(cache, x)


CACHE = {"k": X, "v": X}
SAME: list[tuple[Function, Function, tuple[Any, ...], tuple[str, ...], str]] = [
    (plain, cached, (X,), ("cache.*",), "out['cache']['k'] (of 'cached' alone), out['cache']['v'] (of 'cached' alone)"),
    (lambda x: x * 2, lambda x: (x + x, {"k": x}), (X,), ("1.*",), "out[1]['k'] (of 'variant' alone)"),
    (lambda x: [x, x * 2], lambda x: [x, x + x, x * 5], (X,), ("2",), "out[2] (of 'variant' alone)"),
    (lambda cache, x: x + x, filling, (CACHE, X), ("cache.*",), "cache['k'] after the call"),
    (lambda x: (x, x[0], x), lambda x: (x, x[1], x), (X,), ("1",), "out[1]"),
    (lambda cache, x: x + x, replacing, (CACHE, X), ("cache.*",),
     "cache['k'] after the call, cache['kind'] after the call, cache['v'] after the call"),
    (filling, filling_and_naming, (CACHE, X), ("cache.kind",), "cache['kind'] after the call"),
]  # fmt: skip
WRONG: list[tuple[Function, Function, tuple[Any, ...], tuple[str, ...]]] = [
    (plain, cached_wrong, (X,), ("cache.*",)),
    (lambda x: x * 2, lambda x: (x * 3, {"k": x}), (X,), ("1.*",)),
    (lambda x: [x, x * 2], lambda x: [x, x * 3, x * 5], (X,), ("2",)),
    (lambda cache, x: x + x, filling_wrong, (CACHE, X), ("cache.*",)),
    (lambda x: (x, x[0], x), lambda x: (x, x[1], x * 2), (X,), ("1",)),
    (plain, cached, (X,), ("cache.k",)),
    (lambda cache, x: x + x, replacing, (CACHE, X), ("cache.k",)),
    (lambda cache, x: x + x, replacing_other, (CACHE, X), ("cache.k", "cache.v", "cache.kind")),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(len(SAME)))
def test_what_is_ignored_is_said_and_the_rest_compared(number: int) -> None:
    reference, variant, args, ignore, words = SAME[number]
    samebits.assert_same(reference, variant, *args, ignore=ignore)
    for call in (samebits.check, samebits.prove):
        compared = call(reference, variant, *args, ignore=ignore)
        assert compared.ok and f"note: ignored, and not compared: {words}" in str(compared)
        assert any(taken.word == "ignored" for taken in compared.assumptions)
    if number != 4:  # whose outputs have one structure
        assert not samebits.check(reference, variant, *args, gradients=False).ok


def test_ignored_writes_hinder_no_proof_for_all_sizes() -> None:
    args = {name: jax.ShapeDtypeStruct(X.shape, X.dtype) for name in CACHE}, X
    for variant, ok in ((replacing, True), (replacing_other, False)):
        ignore = ("cache.k", "cache.v", "cache.kind")
        proved = samebits.prove(lambda cache, x: x + x, variant, *args, sizes="all", ignore=ignore, gradients=False)
        assert proved.ok is ok, proved


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_what_is_not_ignored_still_differs(number: int) -> None:
    reference, variant, args, ignore = WRONG[number]
    with pytest.raises(AssertionError):
        samebits.assert_same(reference, variant, *args, ignore=ignore)
    assert samebits.prove(reference, variant, *args, ignore=ignore).verdict == "different"


def test_patterns_must_match_and_leave_something() -> None:
    with pytest.raises(
        RequestError, match=r"ignore 'cash\.\*' matches no output; the outputs are out\['cache'\]\['k'\]"
    ):
        samebits.assert_same(plain, cached, X, ignore=("cash.*",))
    with pytest.raises(NothingCompared, match=r"ignore=\* leaves nothing of 'variant', which returns out\['y'\]"):
        samebits.check(plain, lambda x: {"y": x}, X, ignore=("*",), name="nothing")
    with pytest.raises(RequestError, match=r"ignore='cache'; expected a tuple of patterns, such as \('cache\.\*',\)"):
        samebits.check(plain, cached, X, ignore="cache")


def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "caches.py").write_text(
        "def plain(x):\n    return {'y': x * 2}\n\n\ndef cached(x):\n    return {'y': x + x, 'cache': x}\n"
    )
    words = "caches.py:plain", "caches.py:cached", "--arg", "x=f32[4,8]"
    for name in ("compare", "prove"):
        done = command(name, *words, "--ignore", "cache")
        assert done.code == 0 and "ignored, and not compared: out['cache'] (of 'cached' alone)" in done.out
        assert command(name, *words).code == 1
    wrong = command("compare", *words, "--ignore", "cash")
    assert wrong.code == 2 and "ignore 'cash' matches no output" in wrong.err + wrong.out
