"""Batches, defined on global indices: the same numbers on every mesh. NumPy only.

Documents are packed into rows: `segments` numbers them from 1 and is 0 on padding, targets do not cross their borders.
Positions are absolute in a row and differ from row to row, so that taking another row's shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .settings import Settings


def batch(s: Settings, seed: int, step: int) -> dict[str, Any]:
    """The batch of a step.

    Returns:
        `tokens`, `targets`, `positions`, `segments`, int32 [batch, seq], and `weights`, float32 [batch, seq]: 1 where
        a target counts.
    """
    rng = np.random.default_rng([seed, step])
    tokens = _text(s, step) if s.text is not None else _synthetic(s, rng)
    segments = _segments(s, rng)
    follows = np.zeros_like(segments, bool)
    follows[:, :-1] = (segments[:, 1:] == segments[:, :-1]) & (segments[:, :-1] > 0)
    positions = np.cumsum(rng.integers(1, 3, (s.batch, s.seq)), axis=1)
    return {
        "tokens": tokens[:, :-1].astype(np.int32),
        "targets": tokens[:, 1:].astype(np.int32),
        "positions": positions.astype(np.int32),
        "segments": segments.astype(np.int32),
        "weights": follows.astype(np.float32),
    }


def types(s: Settings) -> dict[str, Any]:
    """Shapes and dtypes of a batch, as arrays of NumPy that take no memory."""
    whole = dict.fromkeys(("tokens", "targets", "positions", "segments"), np.int32) | {"weights": np.float32}
    return {name: np.broadcast_to(np.zeros((), dtype), (s.batch, s.seq)) for name, dtype in whole.items()}


def _synthetic(s: Settings, rng: np.random.Generator) -> Any:
    """Rows in which the next token mostly follows from the last one, so that there is something to learn."""
    tokens = np.zeros((s.batch, s.seq + 1), np.int64)
    tokens[:, 0] = rng.integers(s.vocab, size=s.batch)
    for place in range(1, s.seq + 1):
        surprise = rng.random(s.batch) < 0.2
        tokens[:, place] = np.where(
            surprise, rng.integers(s.vocab, size=s.batch), (5 * tokens[:, place - 1] + 3) % s.vocab
        )
    return tokens


def _text(s: Settings, step: int) -> Any:
    """Consecutive pieces of the file, from its beginning again when it ends."""
    content = np.frombuffer(Path(str(s.text)).read_bytes(), np.uint8).astype(np.int64)
    first = (step - 1) * s.batch * s.seq + np.arange(s.batch)[:, None] * s.seq + np.arange(s.seq + 1)
    return content[first % content.size]


def _segments(s: Settings, rng: np.random.Generator) -> Any:
    """Up to three documents in a row, and padding at the end of some."""
    borders = np.sort(rng.integers(1, s.seq + s.seq // 4, (s.batch, 3)), axis=1)
    place = np.arange(s.seq)
    number = 1 + (place >= borders[:, :1]) + (place >= borders[:, 1:2])
    return np.where(place >= np.maximum(borders[:, 2:], s.seq // 2), 0, number)
