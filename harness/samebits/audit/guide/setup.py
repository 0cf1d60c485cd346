"""One model on one mesh with one batch: the sizes on each device, or the error if it cannot be split evenly."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from samebits.errors import MeshError, RequestError
from samebits.schema.meshes import AXES, MeshSpec
from samebits.schema.validate import expected


# The axes of a user's mesh by the names that the parallelism guide has for them.
def guide_mesh(mesh: MeshSpec, roles: Iterable[str]) -> MeshSpec:
    """Return a mesh with the axis names of the guide; axes of one role are one axis of their product.

    Args:
        roles: `OWN=GUIDE`, such as `tp=tensor`; axes that are named as in the guide need none.
    """
    named: dict[str, str] = {}
    for text in roles:
        own, _, role = text.partition("=")
        if not own or not role:
            raise RequestError(f"--axis {text}: expected OWN=GUIDE, such as tp=tensor")
        if own in named:
            raise RequestError(f"--axis: '{own}' given twice")
        if role not in AXES:
            raise RequestError(f"--axis {text}: {expected(role, AXES)}")
        if own not in mesh.names:
            raise RequestError(f"--axis {text}: mesh '{mesh.id}' has no axis '{own}'")
        named[own] = role
    sizes: dict[str, int] = {}
    for name, size in mesh.axes:
        role = named.get(name, name)
        if role not in AXES:
            raise MeshError(
                f"mesh axis '{name}' is not one of the guide's; {expected(name, AXES)}; "
                f"or say which one it is, as in --axis {name}=tensor"
            )
        sizes[role] = sizes.get(role, 1) * size
    return MeshSpec(axes=tuple(sizes.items()))


# The dimensions of known models, with their source, or those given on the command line.
MOST = 10**12


def flag(name: str) -> str:
    """Return the command-line option of a dimension."""
    return "--" + name.replace("_", "-")


def require_size(option: str, value: int) -> None:
    """Check that a value is a plausible size."""
    if value < 1:
        raise RequestError(f"{option} {value}: expected at least 1")
    if value > MOST:
        raise RequestError(f"{option} {value}: expected at most {MOST}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Dimensions:
    """The dimensions of a model that determine computation and communication volume of its layers.

    Args:
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
    """Return a known model, with given sizes in place of its own; or a model made of the given sizes."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSetup:
    """A model, a mesh and a batch.

    Args:
        mesh: how it is split: `data`, `fsdp` and `expert` split the sequences, `context` their length, `tensor` the
            MLP and the heads, `expert` the experts, `stage` the layers.
        seq: tokens of a sequence.
        width: bytes per element of what is sent.
        layers_per_stage: layers between two sends of a pipeline.
    """

    model: Dimensions
    mesh: MeshSpec
    batch: int
    seq: int
    width: int
    layers_per_stage: int = 1

    def __post_init__(self) -> None:
        for name, value in (("batch", self.batch), ("seq", self.seq), ("layers-per-stage", self.layers_per_stage)):
            require_size(f"--{name}", value)
        model = self.model
        experts, stages = self.axis_size("expert"), self.axis_size("stage")
        if experts > 1 and model.experts == 1:
            raise RequestError(
                f"mesh axis 'expert' has size {experts} and model '{model.name}' has no experts to split"
            )
        for axis, what, count in (
            ("tensor", "heads", model.heads),
            ("tensor", "mlp", model.mlp),
            ("tensor", "embed", model.embed),
            ("fsdp", "embed", model.embed),
            ("context", "seq", self.seq),
            ("expert", "experts", model.experts),
        ):
            size = self.axis_size(axis)
            if size > count:
                raise RequestError(f"mesh axis '{axis}' has size {size}, more than {what} {count}")
            if count % size:
                raise RequestError(f"mesh axis '{axis}' has size {size}, which does not divide {what} {count}")
        if model.layers % (stages * self.layers_per_stage):
            raise RequestError(f"{stages} stages of {self.layers_per_stage} layers do not divide layers {model.layers}")
        if self.batch % self.replicas:
            raise RequestError(
                f"--batch {self.batch} does not divide over data x fsdp x expert = {self.replicas} of mesh "
                f"'{self.mesh.id}'; a fractional batch per device needs context or tensor"
            )

    def axis_size(self, axis: str) -> int:
        """Return the size of a mesh axis."""
        return self.mesh.size(axis)

    @property
    def replicas(self) -> int:
        """The number of devices with different sequences."""
        return self.axis_size("data") * self.axis_size("fsdp") * self.axis_size("expert")

    @property
    def sequences(self) -> int:
        """Sequences per device."""
        return self.batch // self.replicas

    @property
    def tokens(self) -> int:
        """Tokens per device (B of the formulas): the batch in tokens over every axis that splits it."""
        return self.sequences * (self.seq // self.axis_size("context"))

    @property
    def routed(self) -> int:
        """Tokens that a device's experts process with balanced routing, counted once per chosen expert."""
        return self.tokens * self.model.experts_per_token

    @property
    def mlp(self) -> int:
        """Width of the MLP on a device."""
        return self.model.mlp // self.axis_size("tensor")

    @property
    def experts(self) -> int:
        """Experts of a device."""
        return self.model.experts // self.axis_size("expert")

    @property
    def heads(self) -> int:
        """Query heads of a device."""
        return self.model.heads // self.axis_size("tensor")

    @property
    def kv_heads(self) -> int:
        """Key and value heads per device; at least one, even if there are fewer heads than devices."""
        return max(1, self.model.kv_heads // self.axis_size("tensor"))
