"""The specimens are what they say, by execution: where inputs that must not be read change, leaks move and others stay.

Compiled without optimisation: what passes from input to output is the same, and there are many programs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

from tests.properties.specimens import SPECIMENS
from tests.properties.specimens.specimen import Arrays, Specimen
from tests.properties.threads import THREADS

ALL = (*SPECIMENS, *THREADS)
pytestmark = pytest.mark.slow  # `test_named` decides them all, leaks by runs

FAST: dict[str, str | bool] = {
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}
Cut = tuple[np.ndarray, np.ndarray]
"""Which places of the inputs change, and which of the outputs must stay; true or false by batch and position."""


def cuts(specimen: Specimen, arguments: Arrays) -> Iterator[Cut]:
    """What a property says, as changes of inputs that leave outputs as they are."""
    rows, length = next(iter(arguments[name] for name in specimen.keywords["on"])).shape[:2]
    row, place = np.arange(rows)[:, None], np.arange(length)
    if specimen.property == "causal":
        yield from ((place >= t, place < t) for t in range(1, length))
    if specimen.property == "window":
        size = specimen.keywords["size"]
        yield from ((place > t, place <= t) for t in range(length - 1))
        yield from ((place <= t - size, place == t) for t in range(size, length))
    if specimen.property == "batch_rows":
        yield from ((row == i, row != i) for i in range(rows))
    if specimen.property == "padding":
        yield ~arguments[specimen.keywords["mask"]], arguments[specimen.keywords["mask"]]
    if specimen.property == "packed":
        ids = arguments[specimen.keywords["segment_ids"]]
        yield from ((ids == n, ids != n) for n in np.unique(ids))


def changed(array: np.ndarray, where: np.ndarray, seed: int) -> np.ndarray:
    """Another token, or a number far from the one that was there."""
    random = np.random.default_rng(seed)
    if np.issubdtype(array.dtype, np.integer):
        other = (array + random.integers(1, 10, array.shape)) % 11
    else:
        other = array + (3 * random.normal(size=array.shape)).astype(array.dtype)
    where = np.broadcast_to(where, array.shape[:2]).reshape(array.shape[:2] + (1,) * (array.ndim - 2))
    return np.asarray(np.where(where, other, array), array.dtype)


def stays(out: np.ndarray, where: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The part of an output that must stay: all of it where it does not begin with batch and length."""
    where = np.broadcast_to(where, shape)
    index = where if out.shape[:2] == shape else where.any(1) if out.shape[:1] == shape[:1] else ...
    return np.asarray(out[index])


def compiled(function: Callable[..., Any], arguments: Arrays) -> Callable[..., Any]:
    return jax.jit(function).lower(*arguments.values()).compile(compiler_options=FAST)


def moves(specimen: Specimen) -> bool:
    """Whether a change of what must not be read moves a bit of the outputs."""
    arguments = specimen.arguments()
    run = compiled(specimen.function, arguments)
    before = np.asarray(run(*arguments.values()))
    assert np.isfinite(before).all()
    for seed, (where, kept) in enumerate(cuts(specimen, arguments)):
        for name in specimen.keywords["on"]:
            other = arguments | {name: changed(arguments[name], where, seed)}
            after = np.asarray(run(*other.values()))
            shape = arguments[name].shape[:2]
            if stays(after, kept, shape).tobytes() != stays(before, kept, shape).tobytes():
                return True
    return False


def gradient_passes(specimen: Specimen) -> bool:
    """Whether what must not be read gets a gradient, or one that is not finite."""
    arguments = specimen.arguments()
    (name,) = specimen.keywords["on"] if len(specimen.keywords["on"]) == 1 else specimen.keywords["on"][:1]
    where = list(arguments).index(name)
    out = jax.eval_shape(specimen.function, *arguments.values())

    def pulled(weights: jax.Array, *given: jax.Array) -> Any:
        return jax.grad(lambda *xs: (specimen.function(*xs) * weights).sum(), argnums=where)(*given)

    random = np.random.default_rng(5).normal(size=out.shape).astype(out.dtype)
    run = compiled(pulled, {"weights": random} | arguments)
    shape = arguments[name].shape[:2]
    for inputs, outputs in cuts(specimen, arguments):
        weights = random
        if out.shape[:2] == shape:
            mask = np.broadcast_to(outputs, shape).reshape(shape + (1,) * (len(out.shape) - 2))
            weights = np.where(mask, random, 0).astype(random.dtype)
        gradient = np.asarray(run(weights, *arguments.values()))
        if not np.isfinite(gradient).all() or gradient[np.broadcast_to(inputs, shape)].any():
            return True
    return False


def is_reached(specimen: Specimen) -> bool:
    """Whether a parameter gets a gradient that is not zero."""
    arguments = specimen.arguments()
    (name,) = specimen.keywords["on"]
    gradient = jax.grad(lambda *xs: specimen.function(*xs).sum(), argnums=list(arguments).index(name))
    return bool(np.asarray(compiled(gradient, arguments)(*arguments.values())).any())


@pytest.mark.parametrize("specimen", ALL, ids=lambda specimen: specimen.name)
def test_it_leaks_or_does_not(specimen: Specimen) -> None:
    if specimen.property.startswith("gradient_"):
        assert is_reached(specimen) == (specimen.property.endswith("reaches") != specimen.leaks)
    elif specimen.keywords.get("gradient"):
        assert gradient_passes(specimen) == specimen.leaks
    else:
        assert moves(specimen) == specimen.leaks


def test_each_name_is_unique() -> None:
    names = [specimen.name for specimen in ALL]
    assert len(set(names)) == len(names)


def test_each_leak_has_an_honest_twin() -> None:
    pairs = {specimen.name.rsplit("_", 1)[0] for specimen in ALL}
    assert len(ALL) == 2 * len(pairs)
