"""Leaks and their honest twins: plain jax functions on which the properties are tested."""

from tests.properties.specimens.attention import ATTENTION
from tests.properties.specimens.decoder import DECODER
from tests.properties.specimens.mesh import MESH
from tests.properties.specimens.packed import PACKED
from tests.properties.specimens.reach import GRADIENTS, WINDOW
from tests.properties.specimens.rows import PADDING, ROWS
from tests.properties.specimens.sequence import SEQUENCE

SPECIMENS = (*ATTENTION, *SEQUENCE, *PACKED, *ROWS, *PADDING, *WINDOW, *GRADIENTS, *DECODER, *MESH)
