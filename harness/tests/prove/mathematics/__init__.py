"""Specimens: the mathematics of training as pairs of plain functions, with honest rewrites and planted faults.

Every rewrite is the same mathematics as its reference, every fault is not; a bfloat16 tolerance sees few of the faults.
"""

from tests.prove.mathematics import attention, decoder, experts, loss, normalisation, optimiser, rotary
from tests.prove.mathematics.specimen import Specimen

ALL: tuple[Specimen, ...] = (
    *normalisation.SPECIMENS,
    *rotary.SPECIMENS,
    *attention.SPECIMENS,
    *experts.SPECIMENS,
    *loss.SPECIMENS,
    *optimiser.SPECIMENS,
    *decoder.SPECIMENS,
)
"""Every specimen, the smallest first."""
