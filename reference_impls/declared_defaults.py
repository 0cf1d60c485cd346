"""The defaults of a training configuration as its schema declares them.

Source: MaxText keeps every default twice, in `configs/types.py` (a pydantic schema) and in `configs/base.yml`; pull
request #3922, items 1 and 2, changes `float32_weight_sum` in both, because they must agree.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class _Optimizer:
    b1: float = 0.9
    b2: float = 0.95
    eps: float = 1.0e-8
    weight_decay: float = 0.1


@dataclasses.dataclass(frozen=True)
class _Schema:
    attention: str = "flash"
    axes: tuple[str, ...] = ("data", "fsdp", "tensor")
    capacity_factor: float = -1.0
    dropout: float | None = None
    float32_weight_sum: bool = False
    grad_dtype: str = "float32"
    num_experts: int = 1
    optimizer: _Optimizer = dataclasses.field(default_factory=_Optimizer)
    use_iota_embed: bool = False


def schema(learning_rate: jax.Array) -> dict[str, Any]:
    """The configuration of a run that sets its learning rate and nothing else.

    Args:
        learning_rate: floating point, of any shape.

    Returns:
        Every key with its value as an array whose dtype is the value's type: booleans, int64 and float64 numbers as
        their bits, texts as their bytes; `None` is an int8 zero.
    """
    return {**_arrays(dataclasses.asdict(_Schema())), "learning_rate": learning_rate}


def _arrays(value: Any) -> Any:
    """Bits that a program can carry: jax has no texts, and without x64 no double precision."""
    if isinstance(value, dict):
        return {key: _arrays(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_arrays(one) for one in value)
    if value is None:
        return jnp.zeros((), jnp.int8)
    if isinstance(value, str):
        return jnp.asarray(np.frombuffer(value.encode(), np.uint8))
    if isinstance(value, bool):
        return jnp.asarray(value)
    # Two words of 32 bits: of a double unsigned, of an integer signed, so that 1 is not 1.0.
    words = np.uint32 if isinstance(value, float) else np.int32
    wide = np.float64 if isinstance(value, float) else np.int64
    return jnp.asarray(np.array([value], wide).view(words))
