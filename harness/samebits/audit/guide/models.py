"""The dimensions of known models, with their source, or those given on the command line."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace
from typing import Any

from samebits.errors import RequestError

MOST = 10**12


def flag(name: str) -> str:
    """Return the command-line option of a dimension."""
    return "--" + name.replace("_", "-")


def require_size(option: str, value: int) -> None:
    """Check that a value is a plausible size.

    Raises:
        RequestError: it is below 1 or above `MOST`.
    """
    if value < 1:
        raise RequestError(f"{option} {value}: expected at least 1")
    if value > MOST:
        raise RequestError(f"{option} {value}: expected at most {MOST}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Dimensions:
    """The dimensions of a model that determine computation and communication volume of its layers.

    Args:
        name: the model.
        embed: width of the activations between layers (E).
        mlp: width inside the MLP, or of one expert (M).
        heads, kv_heads, head_dim: of attention.
        layers: number of decoder layers.
        experts, experts_per_token: of a mixture of experts; 1 and 1 for a dense model.
        source: where the numbers are published.
    """

    name: str
    embed: int
    mlp: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    experts: int = 1
    experts_per_token: int = 1
    source: str = "given on the command line"

    def __post_init__(self) -> None:
        for dimension in fields(self):
            value = getattr(self, dimension.name)
            if isinstance(value, int):
                require_size(flag(dimension.name), value)
        if self.experts_per_token > self.experts:
            raise RequestError(
                f"--experts-per-token {self.experts_per_token}: there are {self.experts} experts; a token takes fewer"
            )
        if self.heads % self.kv_heads:
            raise RequestError(f"--kv-heads {self.kv_heads}: {self.heads} heads cannot share them evenly")


_PUBLISHED = (
    Dimensions(name="llama2-7b", embed=4096, mlp=11008, heads=32, kv_heads=32, head_dim=128, layers=32),
    Dimensions(name="llama3-8b", embed=4096, mlp=14336, heads=32, kv_heads=8, head_dim=128, layers=32),
    Dimensions(name="llama3-70b", embed=8192, mlp=28672, heads=64, kv_heads=8, head_dim=128, layers=80),
    Dimensions(name="llama3.1-405b", embed=16384, mlp=53248, heads=128, kv_heads=8, head_dim=128, layers=126),
    Dimensions(name="qwen2.5-7b", embed=3584, mlp=18944, heads=28, kv_heads=4, head_dim=128, layers=28),
    Dimensions(
        name="mixtral-8x7b",
        embed=4096,
        mlp=14336,
        heads=32,
        kv_heads=8,
        head_dim=128,
        layers=32,
        experts=8,
        experts_per_token=2,
    ),
)


MODELS = {
    model.name: replace(model, source=f"MaxText, src/maxtext/configs/models/{model.name}.yml") for model in _PUBLISHED
}

_NOTHING = Dimensions(name="", embed=1, mlp=1, heads=1, kv_heads=1, head_dim=1, layers=1)

NEEDED = ("embed", "mlp", "heads")
"""The dimensions that are required if no model is named."""


def dimensions(model: str | None, sizes: dict[str, int | None]) -> Dimensions:
    """Return a known model, with given sizes in place of its own; or a model made of the given sizes.

    Args:
        model: a name from `MODELS`.
        sizes: fields of `Dimensions`; None if not given.

    Raises:
        RequestError: the model is unknown, or a required size is missing.
    """
    stated = {name: value for name, value in sizes.items() if value is not None}
    if model is not None:
        if model not in MODELS:
            near = difflib.get_close_matches(model, MODELS, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise RequestError(
                f"model '{model}' is unknown; expected one of {', '.join(MODELS)}, or --embed, --mlp and --heads{hint}"
            )
        known = MODELS[model]
        if not stated:
            return known
        words = ", ".join(f"{name} {value}" for name, value in stated.items())
        return _with_sizes(known, f"{model} with {words}", f"{known.source}; {words} given", stated)
    missing = [flag(name) for name in NEEDED if name not in stated]
    if missing:
        raise RequestError(f"no --model, and {', '.join(missing)} not given; give a model or its sizes")
    heads = stated["heads"]
    if heads >= 1 and "head_dim" not in stated and stated["embed"] % heads:
        raise RequestError(f"--embed {stated['embed']} over {heads} heads leaves a rest; give --head-dim")
    usual = {"kv_heads": heads, "head_dim": stated["embed"] // max(heads, 1), "layers": 1}
    return _with_sizes(_NOTHING, "given sizes", _NOTHING.source, {**usual, **stated})


def _with_sizes(known: Dimensions, name: str, source: str, sizes: dict[str, int]) -> Dimensions:
    changed: dict[str, Any] = {"name": name, "source": source, **sizes}
    return replace(known, **changed)
