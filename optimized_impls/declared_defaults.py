"""The defaults of a training configuration as its YAML file declares them, read with PyYAML."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import yaml

BASE = """
attention: flash
axes: [data, fsdp, tensor]
capacity_factor: -1.0
dropout: null
float32_weight_sum: false
grad_dtype: float32
num_experts: 1
optimizer:
  b1: 0.9
  b2: 0.95
  eps: 1.0e-8
  weight_decay: 0.1
use_iota_embed: false
"""


def yaml_file(learning_rate: jax.Array) -> dict[str, Any]:
    """The configuration of a run that sets its learning rate and nothing else.

    Equivalent to `yaml.safe_load(BASE) | {"learning_rate": learning_rate}`.

    Args:
        learning_rate: floating point, of any shape.

    Returns:
        Every key with its value as an array whose dtype is the value's type: booleans, int64 and float64 numbers as
        their bits, texts as their bytes; `None` is an int8 zero.
    """
    return {**_arrays(yaml.safe_load(BASE)), "learning_rate": learning_rate}


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _arrays(one) for key, one in value.items()}
    if isinstance(value, list):
        return tuple(_arrays(one) for one in value)
    if value is None:
        return jnp.zeros((), jnp.int8)
    if isinstance(value, str):
        return jnp.asarray(np.frombuffer(value.encode(), np.uint8))
    if isinstance(value, bool):
        return jnp.asarray(value)
    words = np.uint32 if isinstance(value, float) else np.int32
    wide = np.float64 if isinstance(value, float) else np.int64
    return jnp.asarray(np.array([value], wide).view(words))
