"""The layers of `examples/real/`, at small sizes: honest ones pass, and a fault in each is different."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

import samebits
from tests.project.import_graph import ROOT

PATH = ROOT / "examples" / "real" / "layers.py"
spec = importlib.util.spec_from_file_location("real_layers", PATH)
assert spec is not None and spec.loader is not None
layers: Any = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = layers
spec.loader.exec_module(layers)


def small(size: int) -> int:
    return size if size <= 16 else max(8, size // 256)


@pytest.fixture
def _few_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("HEADS", 4), ("GROUPS", 2)):
        monkeypatch.setattr(layers, name, number)


def checked(name: str, variant: Callable[..., Any] | None = None) -> Any:
    """Check a layer at small sizes, of which a block of keys has 4."""
    layer = layers.LAYERS[name]
    variant = layer.variant if variant is None else functools.partial(variant, layer.variant)
    if name == "attention":
        variant = functools.partial(variant, block=4)
        arrays = layers.arrays(layer._replace(shapes=_attention), 16, "float32")
    else:
        arrays = layers.arrays(layer, 16, "float32", small)
    return samebits.check(layer.reference, variant, *arrays.values(), gradients=name != "attention")


def _attention(tokens: int) -> dict[str, tuple[int, ...]]:
    return {"x": (tokens, 16), "wq": (16, 16), "wk": (16, 8), "wv": (16, 8), "wo": (16, 16)}


def one_late(honest: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Take the row before, from the second row on."""
    result = honest(*args, **more)
    return jnp.concatenate([result[:1], result[:-1]])


@pytest.mark.usefixtures("_few_heads")
@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # of labels and experts beyond their range
@pytest.mark.parametrize("name", layers.LAYERS)
def test_both_ways_of_a_layer_are_the_same(name: str) -> None:
    compared = checked(name)
    assert compared.verdict in ("rounding", "bitwise"), compared


@pytest.mark.usefixtures("_few_heads")
@pytest.mark.parametrize("name", layers.LAYERS)
def test_rows_that_are_one_late_are_different(name: str) -> None:
    assert checked(name, one_late).verdict == "different"
