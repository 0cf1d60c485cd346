"""A training over whose mesh nothing is split is an error; axes that only the step uses count as used."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import DeclarationError, MeshNotUsed
from samebits.host import environment
from samebits.schema.meshes import MeshSpec
from samebits.schema.model import Config, Matrix, Model, Training
from samebits.train.matrix import run_matrix
from samebits.train.trainer import require_axes_used, require_known_axes
from tests.support.toy_model import MATRIX, toy, training

environment.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import NamedSharding, PartitionSpec  # noqa: E402

HERE = Path(__file__).parent
TWO = Config(name="two", mesh="data2")
EIGHT = jax.ShapeDtypeStruct((8,), jnp.float32)


def _model(batch_spec: Any, matrix: Matrix = MATRIX) -> Model:
    def build(config: Config, parts: Any) -> Training:
        del parts
        return replace(training(config, {}, 1.0), batch_spec=batch_spec)

    return replace(toy(HERE, matrix=matrix), build=build)


def test_a_run_whose_mesh_splits_nothing_could_not_run() -> None:
    whole = PartitionSpec()
    result = run_matrix(_model({"x": whole, "y": whole}), MATRIX, HERE, 2)
    (problem,) = result.problems
    assert (problem.pair, problem.exit_code) == ("two", 3)
    assert problem.message == (
        "config 'two': mesh 'data2': nothing is split over 'data', neither the state nor a batch nor anything within "
        "the step; give state_spec or batch_spec with 'data', or leave the axis out"
    )
    assert list(result.runs) == ["one"] and not result.comparisons


def test_a_spec_over_an_axis_that_no_mesh_has_is_wrong() -> None:
    """On every mesh of the model the axis would be left out."""
    model = _model({"x": PartitionSpec("rows"), "y": (("data", "rows"),)})
    message = (
        "^config 'two': batch_spec of 'x' names axis 'rows', which no mesh of the model has; expected some of data$"
    )
    with pytest.raises(DeclarationError, match=message):
        require_known_axes(model, TWO, model.build(TWO, {}))
    with pytest.raises(DeclarationError, match="batch_spec of 'x' names axis 'rows'"):
        run_matrix(model, MATRIX, HERE, 2)
    require_known_axes(model, TWO.having(mesh="data2_rows2"), model.build(TWO, {}))


def _constrained(x: Any) -> Any:
    return jax.lax.with_sharding_constraint(x, PartitionSpec("data")) * 2


def _mapped(x: Any) -> Any:
    split = PartitionSpec("data")
    return jax.shard_map(lambda part: part * 2, in_specs=split, out_specs=split)(x)


def _summed(x: Any) -> Any:
    whole = PartitionSpec()
    return jax.shard_map(lambda part: jax.lax.psum(part, "data"), in_specs=whole, out_specs=whole, check_vma=False)(x)


def _looped(x: Any) -> Any:
    return jax.lax.fori_loop(0, 2, lambda _, y: _constrained(y), x)


def _mapped_whole(x: Any) -> Any:
    whole = PartitionSpec()
    return jax.shard_map(lambda part: part * 2, in_specs=whole, out_specs=whole)(x)


def data(x: Any) -> Any:
    """A function by the name of an axis."""
    return x * 2


def _used(step: Callable[[Any], Any], config: Config = TWO, spec: PartitionSpec | None = None) -> None:
    mesh = MeshSpec.parse(config.mesh).build("auto")
    at = NamedSharding(mesh, spec or PartitionSpec())
    arguments = {"x": jax.ShapeDtypeStruct(EIGHT.shape, EIGHT.dtype, sharding=at)}
    with jax.set_mesh(mesh):
        traced = jax.jit(lambda given: step(given["x"])).trace(arguments)
    require_axes_used(config, arguments, traced.jaxpr)


@pytest.mark.parametrize("step", [_constrained, _mapped, _summed, _looped])
def test_axes_that_only_the_step_uses_count_as_used(step: Callable[[Any], Any]) -> None:
    _used(step)
    with pytest.raises(MeshNotUsed, match="nothing is split over 'model'"):
        _used(step, TWO.having(mesh="data2_model2"))


@pytest.mark.parametrize("step", [lambda x: x * 2, _mapped_whole, jax.jit(data)])
def test_a_step_that_splits_nothing_does_not(step: Callable[[Any], Any]) -> None:
    with pytest.raises(MeshNotUsed, match="nothing is split over 'data'"):
        _used(step)
    _used(step, spec=PartitionSpec("data"))
    _used(step, Config(name="alone", mesh="data1"))
