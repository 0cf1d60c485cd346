"""Defects to plant into the assembled model: the ten behind the measurements of usual gates, and eight of its own code.

A fault is either wrapped around a part, or edited into the source of the file that the part comes from.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from samebits import DeclarationError, Defect, Parts

from .matrices import ASSEMBLED, MATRICES

_SPARSE = MATRICES[0].run("sparse_ep8")

Part = Callable[..., Any]


def wrapped(name: str, around: Callable[[Part], Part]) -> Callable[[Parts], Parts]:
    """A plant that replaces one part, or the part at one site (`moe@layer2`), by something around it."""
    return lambda parts: {**parts, name: around(_part(parts, name))}


def _part(parts: Parts, name: str) -> Part:
    return parts[name] if name in parts else parts[name.partition("@")[0]]


def edited(name: str, old: str, new: str) -> Callable[[Parts], Parts]:
    """A plant that replaces a piece of the source of one part's file.

    Raises:
        DeclarationError: the piece does not occur exactly once; the fault would not be what its name says.
    """

    def plant(parts: Parts) -> Parts:
        part = _part(parts, name)
        module = inspect.getmodule(part)
        assert module is not None
        source = inspect.getsource(module)
        if source.count(old) != 1:
            raise DeclarationError(
                f"a defect of '{name}' edits text that occurs {source.count(old)} times in {module.__file__}: {old!r}"
            )
        copy = types.ModuleType(f"{module.__name__}_defect")
        copy.__file__ = module.__file__
        exec(compile(source.replace(old, new), str(module.__file__), "exec"), copy.__dict__)
        return {**parts, name: getattr(copy, part.__name__)}

    return plant


def _output(change: Callable[[jax.Array], jax.Array]) -> Callable[[Part], Part]:
    """The routed output of the experts, changed."""

    def around(moe: Part) -> Part:
        def changed(*arrays: Any, **statics: Any) -> Any:
            found = moe(*arrays, **statics)
            return {**found, "out": change(found["out"])}

        return changed

    return around


def _weights(change: Callable[[jax.Array], jax.Array]) -> Callable[[Part], Part]:
    """The weights of the chosen experts' answers, changed."""
    return lambda part: lambda rows, weights: part(rows, change(weights))


def _logits_off(moe: Part) -> Part:
    return lambda x, router, *rest, **statics: moe(x, jnp.roll(router, 1, axis=1), *rest, **statics)


def _epsilon(part: Part) -> Part:
    return lambda x, scale, **statics: part(x, scale, **{**statics, "epsilon": 1e-2})


def _weights_are_segments(part: Part) -> Part:
    def changed(inputs: Any, targets: Any, weights: Any, kernel: Any, **statics: Any) -> Any:
        return part(inputs, targets, weights * inputs["segments"], kernel, **statics)

    return changed


def _dropped(part: Part) -> Part:
    """One expert takes two rows and drops the rest."""

    def product(rows: jax.Array, kernels: jax.Array, sizes: jax.Array) -> jax.Array:
        first = jax.lax.axis_index("expert") == 0
        kept = (jnp.arange(rows.shape[0]) < 2) | (jnp.arange(rows.shape[0]) >= sizes[0]) | ~first
        return part(jnp.where(kept[:, None], rows, 0), kernels, sizes)

    return product


def _usual(name: str, plant: Callable[[Parts], Parts]) -> Defect:
    return Defect(name=name, run=_SPARSE, plant=plant, usual=True)


def _machinery(name: str, plant: Callable[[Parts], Parts] = dict, **changes: Any) -> Defect:
    return Defect(name=name, run=ASSEMBLED, plant=plant, changes=changes, mathematics=not changes)


DEFECTS = (
    _usual("routed output zeroed", wrapped("moe", _output(lambda out: 0 * out))),
    _usual("routed output negated", wrapped("moe", _output(lambda out: -out))),
    _usual(
        "wrong inverse in the unsort",
        edited("moe", "_weighted(_restored(returned, order)", "_weighted(_restored(returned, _order(order))"),
    ),
    _usual("router weights all 1/k", wrapped("expert_weight_sum", _weights(lambda w: 0 * w + 1 / w.shape[1]))),
    _usual("router weights reversed", wrapped("expert_weight_sum", _weights(lambda w: w[:, ::-1]))),
    _usual(
        "expert rows rolled by one",
        edited("moe", "returned = _to_tokens(answers,", "returned = _to_tokens(jnp.roll(answers, 1, axis=0),"),
    ),
    _usual("an eighth of the rows zeroed", wrapped("moe", _output(lambda out: out.at[:, ::8].set(0)))),
    _usual("row 0 of each shard zeroed", wrapped("moe", _output(lambda out: out.at[:, 0].set(0)))),
    _usual("gate logits off by one expert", wrapped("moe", _logits_off)),
    _usual("RMSNorm epsilon 1e-2", wrapped("rms_norm", _epsilon)),
    _machinery("router gradient dropped", wrapped("expert_weight_sum", _weights(jax.lax.stop_gradient))),
    _machinery(
        "a microbatch repeated",
        edited("pipeline", "jnp.where(now < microbatches, _at(waiting, slot)", "jnp.where(now < microbatches, spare"),
    ),
    _machinery(
        "load-balance loss taken from one shard",
        edited(
            "moe",
            "total = _added(jnp.sum(asked * likely), BATCH)",
            "total = jnp.sum(asked * likely)\n    total = _added(jnp.where(_me() == 0, 2 * total, 0), BATCH)",
        ),
    ),
    _machinery("optimizer moments stored in bfloat16", mu_dtype="bfloat16"),
    _machinery(
        "positions of the wrong microbatch",
        edited(
            "pipeline",
            "_microbatch_of_each(place, microbatch) for place in places",
            "_microbatch_of_each(place, (microbatch + (i == 0)) % microbatches) for i, place in enumerate(places)",
        ),
    ),
    _machinery(
        "only the last microbatch's gradient kept",
        edited("gradient_accumulation", "kept + one.astype(kept.dtype)", "one.astype(kept.dtype)"),
    ),
    _machinery("segment ids used as weights", wrapped("gradient_accumulation", _weights_are_segments)),
    _machinery("tokens dropped at one expert", wrapped("grouped_matmul", _dropped)),
)
