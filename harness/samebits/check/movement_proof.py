"""What labels prove of a whole point, at all of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from samebits.schema.domain import RequiredFact


@dataclass(frozen=True, slots=True)
class MovementProof:
    """What labels prove of a point.

    Args:
        holds: every leaf has the same elements in the same places, at every input.
        promises: by leaf, the facts required of the inputs.
        routing: the arguments for whose values alone the proof holds.
        assumed: the kinds of what it assumes beyond shapes and its domain, in words.
        only_moved: neither side does more to an element than to move it and to add an exact zero.
        denied: the leaves that have another element in some place.
    """

    holds: bool = False
    promises: Mapping[str, tuple[RequiredFact, ...]] = field(default_factory=dict)
    routing: tuple[str, ...] = ()
    assumed: str = ""
    only_moved: bool = False
    denied: tuple[str, ...] = ()
