"""Questions about the trainer's functions: the plain form against the rewritten one, with or without a slip."""

import functools
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from samebits.interpret.alignment.align import Alignment, align
from samebits.interpret.problem import Input, Question
from tests.interpret.alignment.slips import SLIPS, Slip

TRAINER = Path(__file__).with_name("trainer")


@functools.cache
def _random() -> dict[str, tuple[Any, ...]]:
    draw = np.random.default_rng(7)

    def normal(*shape: int) -> Any:
        return draw.normal(size=shape).astype(np.float32)

    heads = normal(2, 6, 4, 4), normal(2, 6, 2, 4), normal(2, 6, 2, 4)
    experts = normal(4, 3), normal(3, 4, 4), normal(3, 4, 4)
    return {
        "rms_norm": (normal(3, 4), normal(4)),
        "layer_norm": (normal(3, 4), normal(4), normal(4)),
        "rope": (normal(2, 3, 2, 8), np.array([[1, 2, 3], [2, 4, 5]], np.float32)),
        "attention": heads,
        "moe": (normal(6, 4), *experts),
        "cross_entropy": (normal(5, 7), np.array([1, 6, 3, 2, 5]), np.array([1, 1, 0, 1, 1], np.float32)),
        "adamw": (normal(3, 4), normal(3, 4), normal(3, 4), np.abs(normal(3, 4))),
        "clipped": (normal(3, 4), normal(5)),
        "lora": (normal(3, 4), normal(4, 5), normal(4, 2), normal(2, 5)),
        "quantised": (normal(3, 4), normal(4, 4)),
        "layers": (normal(3, 4), normal(3, 4, 4), normal(3, 4)),
        "accumulated": (normal(4, 3), normal(6, 4), normal(6, 3)),
        "swiglu": (normal(3, 4), normal(4, 5), normal(4, 5)),
        "mlp": (normal(4, 4), normal(4, 6), normal(6, 4)),
        "prefix": (normal(4, 3), normal(3)),
        "distill": (normal(3, 5), normal(3, 5)),
    }


def functions() -> list[str]:
    """The names of the functions."""
    return [*_random()]


def aligned(name: str, direction: str, file: Path) -> Alignment:
    """The reference and what a file has in its place, aligned."""
    forward = question(name, file)
    if direction == "forward":
        return align(forward)
    return align(question(name, file, gradient=True), forward=(forward.reference, forward.variant))


def question(name: str, file: Path, *, gradient: bool = False) -> Question:
    """The question whether the reference and what a file has in its place are the same."""
    first, args, cotangents = _reference(name, gradient)
    side = _loaded(str(file), file.read_text())[name]
    side = _pulled_back(side, len(args)) if gradient else side
    inputs = [Input(f"argument {number}", value) for number, value in enumerate(args)]
    inputs += [Input(f"cotangent {number}", value) for number, value in enumerate(cotangents)]
    second = jax.make_jaxpr(side)(*args, *cotangents)
    return Question(first, second, inputs, [f"out{number}" for number in range(len(first.out_avals))])


@functools.cache
def _reference(name: str, gradient: bool) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """The program of the reference, its arguments, and the cotangents of a gradient: the same for each slip."""
    args = _random()[name]
    cotangents: tuple[Any, ...] = ()
    path = TRAINER / "reference.py"
    side = _loaded(str(path), path.read_text())[name]
    if gradient:
        draw = np.random.default_rng(8)
        outputs = jax.tree.leaves(jax.eval_shape(side, *args))
        cotangents = tuple(draw.normal(size=output.shape).astype(output.dtype) for output in outputs)
        side = _pulled_back(side, len(args))
    return jax.make_jaxpr(side)(*args, *cotangents), args, cotangents


def _pulled_back(side: Callable[..., Any], count: int) -> Callable[..., Any]:
    def gradient(*values: Any) -> Any:
        args, cotangents = values[:count], values[count:]
        floats = [number for number, arg in enumerate(args) if np.dtype(arg.dtype).kind == "f"]

        def of_floats(*chosen: Any) -> Any:
            given = list(args)
            for number, value in zip(floats, chosen, strict=True):
                given[number] = value
            return side(*given)

        outputs, pull = jax.vjp(of_floats, *(args[number] for number in floats))
        return pull(jax.tree.unflatten(jax.tree.structure(outputs), cotangents))

    return gradient


@functools.lru_cache(maxsize=4)
def _loaded(path: str, text: str) -> Mapping[str, Any]:
    return runpy.run_path(path, run_name="planted")


def planted(slip: Slip, folder: Path) -> tuple[Path, int]:
    """A file with a slip, and the line of it."""
    text = (TRAINER / "rewritten.py").read_text()
    assert text.count(slip.old) == 1, f"'{slip.old}' does not stand once in rewritten.py"
    folder = folder / str(SLIPS.index(slip))  # expressions are read from the file as it was when they were traced
    folder.mkdir()
    file = folder / "rewritten.py"
    file.write_text(text.replace(slip.old, slip.new))
    return file, text[: text.index(slip.old)].count("\n") + 1
