"""Leaks and their honest twins: plain jax functions on which the properties are tested."""

from tests.properties.specimens.attention import ATTENTION
from tests.properties.specimens.packed import PACKED
from tests.properties.specimens.sequence import SEQUENCE

SPECIMENS = (*ATTENTION, *SEQUENCE, *PACKED)
