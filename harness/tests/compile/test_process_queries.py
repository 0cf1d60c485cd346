"""Sides that ask for the platform or the devices of the process that traces them, compiled for another machine."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import samebits
from samebits.compile.pair import other_answer
from samebits.errors import CouldNotRun
from samebits.prove.mesh_queries import Query
from samebits.schema.target import Target
from tests.hlo.programs import V5E, needs_libtpu

pytestmark = pytest.mark.usefixtures("whole_heap")
ROWS = jax.ShapeDtypeStruct((8, 128), jnp.float32)


def doubled(x: Any) -> Any:
    return x * 2.0


def by_count(x: Any) -> Any:
    return x * (jax.device_count() / 4)


@functools.cache
def remembered() -> float:
    return jax.device_count() / 4


def by_remembered(x: Any) -> Any:
    return x * remembered()


def by_platform(x: Any) -> Any:
    return x * (3.0 if jax.default_backend() == "tpu" else 2.0)


def by_first_device(x: Any) -> Any:
    return x * (3.0 if jax.devices()[0].platform == "tpu" else 2.0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("variant", [by_count, by_remembered])
def test_the_count_of_this_process_is_not_the_targets(variant: Callable[[Any], Any]) -> None:
    remembered()  # outside, where nothing watches
    compared = samebits.compare_programs(doubled, variant, ROWS, target="cpu:4", gradients=False)
    assert compared.verdict is None and not compared.leaves
    (error,) = compared.errors
    assert isinstance(error, CouldNotRun) and "test_process_queries.py:" in str(error)
    assert "asks for jax.device_count() while it is traced, which is 8 here, and 4 on cpu:4" in str(error)
    again = samebits.compare_programs(variant, doubled, ROWS, target="cpu:4", gradients=False)
    assert again.verdict is None and again.errors


def test_where_the_target_answers_alike_it_is_compared() -> None:
    assert samebits.compare_programs(doubled, by_count, ROWS, target="cpu:8", gradients=False).verdict == "proved"
    assert samebits.compare_programs(doubled, by_platform, ROWS, target="cpu:4", gradients=False).verdict == "proved"


@pytest.mark.sampled(1)
@needs_libtpu
@pytest.mark.parametrize("variant", [by_platform, by_first_device])
def test_the_platform_of_this_process_is_not_the_targets(variant: Callable[[Any], Any]) -> None:
    compared = samebits.compare_programs(doubled, variant, ROWS, target=V5E)
    assert compared.verdict is None and not compared.leaves and len(compared.errors) == 2  # forward and gradient
    assert all("asks for the platform while it is traced, which is cpu here" in str(e) for e in compared.errors)


def test_a_mesh_of_the_target_is_asked_itself() -> None:
    of_mesh = Query("mine.py:1", frozenset({"mesh", "platform"}), "devices")
    of_process = Query("mine.py:2", frozenset({"platform"}), "default_backend")
    assert other_answer((), Target(name="v5e:2x2")) is None
    assert other_answer((of_mesh,), Target(name="cpu:8")) is None
    why = other_answer((of_mesh, of_process), Target(name="v5e:2x2"))
    assert why == "mine.py:2 asks for the platform while it is traced, which is cpu here"
