"""One model on one mesh with one batch: the sizes on each device, or the error if it cannot be split evenly."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.audit.guide.models import Dimensions, require_size
from samebits.errors import RequestError
from samebits.schema.meshes import MeshSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSetup:
    """A model, a mesh and a batch.

    Args:
        model: the dimensions of the model.
        mesh: how it is split: `data`, `fsdp` and `expert` split the sequences, `context` their length, `tensor` the
            MLP and the heads, `expert` the experts, `stage` the layers.
        batch: sequences in all.
        seq: tokens of a sequence.
        width: bytes per element of what is sent.
        layers_per_stage: layers between two sends of a pipeline.

    Raises:
        RequestError: something cannot be split evenly.
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
