"""Pairs of functions that share state in Python: of the unequal ones a cache, a flag or a register makes them equal."""

import functools
import types
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Side = Callable[..., Any]
Sides = tuple[Side, Side]


def _mask(length: int, window: int) -> Any:
    rows, columns = np.arange(length)[:, None], np.arange(length)[None]
    return (rows >= columns) & (rows - columns < window)


def _by_mask(mask: Callable[[int, int], Any], windows: tuple[int, int] = (2, 99)) -> Sides:
    """Attention scores under a mask of this window, and of that one."""

    def windowed(scores: jax.Array) -> Any:
        return jnp.where(mask(scores.shape[0], windows[0]), scores, 0.0)

    def causal(scores: jax.Array) -> Any:
        return jnp.where(mask(scores.shape[0], windows[1]), scores, 0.0)

    return windowed, causal


def dict_without_window(windows: tuple[int, int] = (2, 99)) -> Sides:
    masks: dict[int, Any] = {}

    def mask(length: int, window: int) -> Any:
        if length not in masks:
            masks[length] = _mask(length, window)
        return masks[length]

    return _by_mask(mask, windows)


def dict_with_window() -> Sides:
    masks: dict[Any, Any] = {}

    def mask(length: int, window: int) -> Any:
        return masks.setdefault((length, window), _mask(length, window))

    return _by_mask(mask, (99, 99))


def default_argument() -> Sides:
    def mask(length: int, window: int, known: dict[int, Any] = {}) -> Any:  # noqa: B006
        try:
            return known[length]
        except KeyError:
            return known.setdefault(length, _mask(length, window))

    return _by_mask(mask)


class _Masks:
    known: dict[int, Any] = {}  # noqa: RUF012
    latest: Any = None

    def __init__(self) -> None:
        self.own: dict[int, Any] = {}

    def of(self, length: int, window: int) -> Any:
        self.own.setdefault(length, _mask(length, window))
        return self.own[length]

    @classmethod
    def of_class(cls, length: int, window: int) -> Any:
        if cls.latest is None:
            cls.latest = _mask(length, window)
        return cls.latest


def attribute_of_instance() -> Sides:
    return _by_mask(_Masks().of)


@dataclass(slots=True, eq=False)
class _Slots:
    latest: Any = None

    def of(self, length: int, window: int) -> Any:
        if self.latest is None:
            self.latest = _mask(length, window)
        return self.latest


def attribute_in_a_slot() -> Sides:
    return _by_mask(_Slots().of)


def attribute_of_class() -> Sides:
    return _by_mask(_Masks.of_class)


def attribute_of_function() -> Sides:
    def mask(length: int, window: int) -> Any:
        if not hasattr(mask, "known"):
            mask.known = _mask(length, window)  # type: ignore[attr-defined]
        return mask.known  # type: ignore[attr-defined]

    return _by_mask(mask)


def weak_dict() -> Sides:
    kind = type("Kind", (), {})
    masks: Any = weakref.WeakKeyDictionary()

    def mask(length: int, window: int) -> Any:
        if kind not in masks:
            masks[kind] = _mask(length, window)
        return masks[kind]

    return _by_mask(mask)


def equal_keys() -> Sides:
    @functools.lru_cache
    def scale(kind: str, factor: float) -> Any:
        return np.float32(3.0 if isinstance(factor, bool) else 2.0)

    return (lambda x: x * scale("a", 1)), (lambda x: x * scale("a", True))


def equal_zeros() -> Sides:
    @functools.cache
    def sign(zero: float) -> Any:
        return np.copysign(np.float32(1.0), np.float32(zero))

    return (lambda x: x * sign(0.0)), (lambda x: x * sign(-0.0))


def equal_numbers(*, honest: bool = False) -> Sides:
    @functools.lru_cache(maxsize=None, typed=honest)
    def table(step: float) -> Any:
        return np.float32(step * (2 - honest) if type(step) is int else step)

    return (lambda x: x * table(1)), (lambda x: x * table(1.0))


def static_arguments() -> Sides:
    @functools.partial(jax.jit, static_argnums=1)
    def scaled(x: jax.Array, factor: Any) -> Any:
        return x * (3.0 if isinstance(factor, float) else 2.0)

    return (lambda x: scaled(x, 1)), (lambda x: scaled(x, 1.0))


def flag_of_closure() -> Sides:
    is_set = 0

    def reference(x: jax.Array) -> Any:
        nonlocal is_set
        is_set = 1
        return x * 2.0

    return reference, lambda x: x * (2.0 if is_set else 3.0)


FLAG = False


def flag_of_module() -> Sides:
    def reference(x: jax.Array) -> Any:
        global FLAG
        FLAG = True
        return x * 2.0

    return reference, lambda x: x * (2.0 if FLAG else 3.0)


def settings() -> Sides:
    config = types.SimpleNamespace(scale=3.0)

    def reference(x: jax.Array) -> Any:
        config.scale = 2.0
        return x * config.scale

    return reference, lambda x: x * config.scale


def context_variable() -> Sides:
    scale: ContextVar[float] = ContextVar("scale", default=3.0)

    def reference(x: jax.Array) -> Any:
        scale.set(2.0)
        return x * 2.0

    return reference, lambda x: x * scale.get()


def register() -> Sides:
    seen: list[float] = []

    def reference(x: jax.Array) -> Any:
        seen.append(2.0)
        return x * seen[-1]

    return reference, lambda x: x * (seen[-1] if seen else 1.0)


def backward_alone() -> Sides:
    known: dict[int, Any] = {}

    def side(factor: float) -> Side:
        @jax.custom_vjp
        def twice(x: jax.Array) -> Any:
            return x * 2.0

        def backward(length: int, cotangent: jax.Array) -> Any:
            if length not in known:
                known[length] = np.float32(factor)
            return (cotangent * known[length],)

        twice.defvjp(lambda x: (x * 2.0, x.shape[0]), backward)
        return lambda x: twice(x)

    return side(2.0), side(3.0)


def forward_rule_alone() -> Sides:
    """A cache that only a rule fills, when the outputs are differentiated."""
    known: dict[int, Any] = {}

    def side(factor: float) -> Side:
        @jax.custom_vjp
        def twice(x: jax.Array) -> Any:
            return x * 2.0

        def forward(x: jax.Array) -> Any:
            if len(x) not in known:
                known[len(x)] = np.float32(factor)
            return x * 2.0, known[len(x)]

        twice.defvjp(forward, lambda known, cotangent: (cotangent * known,))
        return lambda x: twice(x)

    return side(2.0), side(3.0)


def inside_jit() -> Sides:
    state = {"scale": 0.0}

    @jax.jit
    def scaled(x: jax.Array) -> Any:
        return x * state["scale"]

    def side(scale: float) -> Side:
        def function(x: jax.Array) -> Any:
            state.setdefault("first", scale)
            state["scale"] = state["first"]
            return scaled(x)

        return function

    return side(2.0), side(3.0)


def counter() -> Sides:
    count = [0]

    def side(x: jax.Array) -> Any:
        count[0] += 1
        with jax.named_scope(f"layer{count[0]}"):
            return x * 2.0

    return side, lambda x: side(x)


def log() -> Sides:
    lines: list[str] = []

    def reference(x: jax.Array) -> Any:
        lines.append(f"reference {x.shape}")
        return x + x

    def variant(x: jax.Array) -> Any:
        lines.append(f"variant {x.shape}")
        return x * 2.0

    return reference, variant


def table_of_names() -> Sides:
    table: dict[str, Any] = {"scale": 2.0, "unused": 1}

    def side(x: jax.Array) -> Any:
        table["latest"] = x.shape
        return x * table["scale"]

    return side, lambda x: side(x)


def lazy() -> Sides:
    @functools.cache
    def weights() -> Any:
        return jnp.arange(8, dtype=jnp.float32)

    return (lambda x: x * weights()), (lambda x: weights() * x)


def lazy_and_filled() -> Sides:
    sides = lazy()
    sides[0](jnp.ones((8, 8)))
    return sides


def seeds() -> Sides:
    seed = {"next": 0}

    def noisy(x: jax.Array) -> Any:
        seed["next"] += 1
        return x * np.random.default_rng(7).normal(size=x.shape[-1:]).astype(np.float32)

    return noisy, lambda x: noisy(x)


UNEQUAL: dict[str, Callable[[], Sides]] = {
    each.__name__: each
    for each in (
        *(dict_without_window, default_argument, attribute_of_instance, attribute_of_class, attribute_of_function),
        *(
            attribute_in_a_slot,
            weak_dict,
            equal_keys,
            equal_zeros,
            equal_numbers,
            static_arguments,
            flag_of_closure,
            flag_of_module,
        ),
        *(settings, context_variable, register, backward_alone, forward_rule_alone, inside_jit),
    )
}
EQUAL: dict[str, Callable[[], Sides]] = {
    each.__name__: each for each in (dict_with_window, counter, log, table_of_names, lazy, lazy_and_filled, seeds)
} | {"equal_numbers": functools.partial(equal_numbers, honest=True)}

GIVEN = ("settings", "context_variable")
"""Those in which an earlier call leaves behind what nothing can distinguish from what the user has set."""
