"""Literals of every element type, as XLA serialises them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.hlo.module import parse_module
from samebits.hlo.types import dtype_of, leaves, literal_array

KINDS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4", "int2", "uint2",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz",
    "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3", "float8_e3m4", "float4_e2m1fn", "float8_e8m0fnu",
    "complex64", "complex128",
)  # fmt: skip


def instruction(value: np.ndarray[Any, Any]) -> Any:
    """The constant of a module that returns an array."""
    with jax.enable_x64(True):
        lowered = jax.jit(lambda: jnp.asarray(value)).lower()
    module = parse_module(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())  # type: ignore[union-attr]
    return next(i for c in module.computations for i in c.instructions if i.opcode == "constant")


@pytest.mark.parametrize("kind", KINDS)
def test_a_literal_is_read_back(kind: str) -> None:
    numbers = np.array([[1, 0, 2], [-1, 0.5, 1]])
    unsigned = kind.startswith("u") or kind in ("bool", "float8_e8m0fnu")
    value = (np.abs(numbers) + (kind == "float8_e8m0fnu") if unsigned else numbers).astype(kind)
    if value.dtype.kind == "c":
        value[0, 0], value[1, 1] = complex(np.inf, 1), complex(-0.0, -np.inf)
    inst = instruction(value)
    read = literal_array(inst.literal)
    assert read is not None
    assert dtype_of(inst.shape) == read.dtype == value.dtype
    assert np.ascontiguousarray(read).tobytes() == value.tobytes()


def test_a_literal_has_its_own_layout() -> None:
    inst = instruction(np.arange(6, dtype=np.int32).reshape(2, 3))
    inst.literal.shape.layout.minor_to_major[:] = [0, 1]
    assert np.array_equal(literal_array(inst.literal), [[0, 2, 4], [1, 3, 5]])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["int4", "float8_e5m2", "bfloat16"])
def test_a_literal_of_another_length_is_not_read(kind: str) -> None:
    """As one that is packed."""
    literal = instruction(np.array([1, 0, 2, 3]).astype(kind)).literal
    ((field, _),) = [(field, value) for field, value in literal.ListFields() if field.name != "shape"]
    setattr(literal, field.name, getattr(literal, field.name)[:-1])
    assert literal_array(literal) is None


def test_the_leaves_of_a_tuple() -> None:
    shape = instruction(np.zeros(2, np.int32)).shape
    assert [*leaves(shape)] == [shape]
    shape.tuple_shapes.add(element_type=3).tuple_shapes.add(element_type=5)
    shape.tuple_shapes.add(element_type=9)
    assert [leaf.element_type for leaf in leaves(shape)] == [5, 9]
