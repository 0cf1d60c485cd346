"""Decoders of one attention layer with shared key and value heads: honest ones, and planted faults."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY, WIDTH, HEADS, SHARED, DEPTH, LENGTH = 5, 4, 4, 2, 2, 5
WINDOW, PAGE = 2, 2
PADS = (0, 2)
"""How many tokens of padding begin each row."""

Params = dict[str, Any]
Cache = dict[str, Any]


def parameters() -> Params:
    rng = np.random.default_rng(0)
    shapes = {
        "embed": (VOCABULARY, WIDTH),
        "q": (WIDTH, HEADS, DEPTH),
        "k": (WIDTH, SHARED, DEPTH),
        "v": (WIDTH, SHARED, DEPTH),
        "out": (HEADS * DEPTH, VOCABULARY),
    }
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


TOKENS = np.random.default_rng(1).integers(0, VOCABULARY, (2, LENGTH)).astype(np.int32)


def rotated(x: Any, positions: Any) -> Any:
    """Rotate pairs of features by an angle for each position."""
    angle = positions[..., None].astype(jnp.float32)
    a, b = x[..., 0], x[..., 1]
    return jnp.stack([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1)


def projected(params: Params, tokens: Any, positions: Any) -> tuple[Any, Any, Any]:
    x = params["embed"][tokens]
    q, k, v = (jnp.einsum("btd,dhc->bthc", x, params[name]) for name in ("q", "k", "v"))
    return rotated(q, positions), rotated(k, positions), v


def attended(params: Params, q: Any, k: Any, v: Any, mask: Any, *, wrong_head: bool = False) -> Any:
    """Attend where the mask `[batch, queries, keys]` is true, and return logits."""
    heads = np.arange(HEADS) % SHARED if wrong_head else np.arange(HEADS) // (HEADS // SHARED)
    k, v = k[:, :, heads], v[:, :, heads]
    scores = jnp.where(mask[:, None], jnp.einsum("bqhc,bkhc->bhqk", q, k), -jnp.inf)
    mixed = jnp.einsum("bhqk,bkhc->bqhc", jax.nn.softmax(scores, -1), v)
    return mixed.reshape(*mixed.shape[:2], -1) @ params["out"]


def forward(params: Params, tokens: Any, window: int = LENGTH) -> Any:
    """Return the logits of every position, without a cache."""
    positions = jnp.arange(tokens.shape[1])
    q, k, v = projected(params, tokens, jnp.broadcast_to(positions, tokens.shape))
    far = positions[:, None] - positions[None]
    return attended(params, q, k, v, jnp.broadcast_to((far >= 0) & (far < window), (len(tokens), *far.shape)))


def padded_forward(params: Params, tokens: Any) -> Any:
    """Return the logits of rows without their padding, each alone; zeros at the padding."""
    rows = [jnp.pad(forward(params, tokens[n : n + 1, pad:]), ((0, 0), (pad, 0), (0, 0))) for n, pad in enumerate(PADS)]
    return jnp.concatenate(rows)


class Decoder:
    """Keeps keys and values at the slots that `slot` gives for each position.

    Args:
        window: how far back a position reads.
        slots: how many the cache has.
        pages: whether they lie in pages, in another order than the positions.
        pads: how many tokens of padding begin each row.
        int8: whether keys and values are kept as int8 with a scale for each token and head.
        fault: what is planted, or nothing.
    """

    def __init__(
        self,
        window: int = LENGTH,
        slots: int = 6,
        pages: bool = False,
        pads: tuple[int, ...] = (0, 0),
        fault: str = "",
        int8: bool = False,
    ) -> None:
        self.window, self.slots, self.fault, self.int8 = window, slots, fault, int8
        self.pads = np.asarray(pads)
        self.table = np.array([[4, 1, 3], [0, 5, 2]]) if pages else None

    def prefill(self, params: Params, tokens: Any) -> tuple[Any, Cache]:
        places = jnp.arange(tokens.shape[1])
        q, k, v = projected(params, tokens, jnp.maximum(places - self.pads[:, None], 0))
        far = places[:, None] - places[None]
        mask = (far >= 0) & (far < self.window) & (places >= self.pads[:, None, None])
        cache = self.empty(len(tokens))
        for place in range(tokens.shape[1]):
            cache = self.written(cache, k[:, place], v[:, place], place)
        return attended(params, q, k, v, mask), {**cache, "length": jnp.int32(tokens.shape[1])}

    def empty(self, batch: int) -> Cache:
        shape = (6, PAGE, SHARED, DEPTH) if self.table is not None else (batch, self.slots, SHARED, DEPTH)
        at = jnp.full((self.slots,), -1)
        if self.int8:
            scales = {"k_scale": jnp.zeros((*shape[:-1], 1)), "v_scale": jnp.zeros((*shape[:-1], 1))}
            return {"k": jnp.zeros(shape, jnp.int8), "v": jnp.zeros(shape, jnp.int8), **scales, "at": at}
        return {"k": jnp.zeros(shape), "v": jnp.zeros(shape), "at": at}

    def written(self, cache: Cache, k: Any, v: Any, place: Any, *, wrong: bool = False) -> Cache:
        """Write the keys and values of one position."""
        slot = place % self.slots
        written = {"k": k, "v": v}
        if self.int8:
            scales = {name: jnp.abs(x).max(-1, keepdims=True) / 127 for name, x in written.items()}
            written = {name: jnp.round(x / scales[name]).astype(jnp.int8) for name, x in written.items()}
            if self.fault != "scale not written" or isinstance(place, int):  # of the prefill
                written |= {f"{name}_scale": scale for name, scale in scales.items()}
        if self.table is not None:
            page = jnp.asarray(self.table)[:, (slot + wrong) // PAGE % 3]
            stored = {name: cache[name].at[page, slot % PAGE].set(x) for name, x in written.items()}
        else:
            stored = {name: cache[name].at[:, slot].set(x) for name, x in written.items()}
        return {**cache, **stored, "at": cache["at"].at[slot].set(place)}

    def read(self, cache: Cache) -> tuple[Any, Any]:
        if self.int8:
            return cache["k"] * cache["k_scale"], cache["v"] * cache["v_scale"]
        if self.table is None:
            return cache["k"], cache["v"]
        k, v = (cache[name][self.table].reshape(2, self.slots, SHARED, DEPTH) for name in ("k", "v"))
        return k, v

    def decode(self, params: Params, cache: Cache, token: Any) -> tuple[Any, Cache]:
        place, fault = cache["length"], self.fault
        turned = jnp.maximum(place - self.pads, 0)[:, None] + (fault == "position off by one")
        q, k, v = projected(params, token[:, None], turned)
        before = cache
        cache = self.written(cache, k[:, 0], v[:, 0], place, wrong=fault == "wrong page")
        keys, values = self.read(before if fault == "read before written" else cache)
        far = place - cache["at"]
        mask = (cache["at"] >= 0) & (far >= 0) & (far < self.window + (fault == "window off by one"))
        if fault == "stale slot":
            mask = jnp.ones_like(mask)
        mask = mask & ((cache["at"] >= self.pads[:, None]) | (fault == "padding attended"))
        logits = attended(params, q, keys, values, mask[:, None], wrong_head=fault == "wrong head")
        return logits[:, 0], {**cache, "length": place + 1}


windowed_forward = partial(forward, window=WINDOW)

HONEST: dict[str, tuple[Decoder, Callable[..., Any]]] = {
    "contiguous": (Decoder(), forward),
    "paged": (Decoder(pages=True), forward),
    "ring of a window": (Decoder(window=WINDOW, slots=WINDOW), windowed_forward),
    "window in a long cache": (Decoder(window=WINDOW), windowed_forward),
    "left padding": (Decoder(pads=PADS), padded_forward),
}

FAULTS: dict[str, tuple[Decoder, Callable[..., Any]]] = {
    "position off by one": (Decoder(fault="position off by one"), forward),
    "read before written": (Decoder(fault="read before written"), forward),
    "window off by one": (Decoder(window=WINDOW, fault="window off by one"), windowed_forward),
    "stale slot": (Decoder(window=WINDOW, slots=WINDOW + 1, fault="stale slot"), windowed_forward),
    "wrong page": (Decoder(pages=True, fault="wrong page"), forward),
    "padding attended": (Decoder(pads=PADS, fault="padding attended"), padded_forward),
    "wrong head": (Decoder(fault="wrong head"), forward),
}
