"""The published figures of each TPU generation, each with its source; None if a figure is not published."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from samebits.errors import RequestError
from samebits.schema.target import Target

GB = 1e9
TERA = 1e12


@dataclass(frozen=True, kw_only=True, slots=True)
class ChipFigure:
    """One published number, in FLOP/s, bytes/s, or as a count.

    Args:
        value: in base units.
        source: the document and its section.
    """

    value: float
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """One TPU chip; all figures are those of the chip, not of one of its devices.

    Args:
        name: the generation, as targets write it.
        devices: how many devices jax sees in one chip.
        torus: how many ICI axes there are; each has two links.
        peak: FLOP/s by dtype; None where nothing is published.
        hbm: bytes/s between the memory and the cores.
        ici: bytes/s over all links, both directions counted.
        d2d_links: the die-to-die interface, in links of ICI; None where a chip is one die.
    """

    name: str
    devices: ChipFigure
    torus: ChipFigure
    peak: Mapping[str, ChipFigure | None]
    hbm: ChipFigure | None
    ici: ChipFigure | None
    d2d_links: ChipFigure | None = None

    @property
    def link(self) -> float | None:
        """Bytes/s that one ICI link carries one way: the chip's figure over both directions of two links per axis.

        Agrees within a tenth with the table "ICI BW/link (one-way)" of the JAX scaling book, part 2, TPU Specs.
        """
        return None if self.ici is None else self.ici.value / (2 * 2 * self.torus.value)

    @property
    def d2d(self) -> float | None:
        """Bytes/s one way between the two dies of a chip."""
        return None if self.d2d_links is None or self.link is None else self.d2d_links.value * self.link

    def device_peak(self, dtype: str) -> float | None:
        """Return the FLOP/s of one device, as jax counts devices."""
        peak = self.peak[dtype]
        return None if peak is None else peak.value / self.devices.value

    def device_hbm(self) -> float | None:
        """Return the bytes/s of memory of one device."""
        return None if self.hbm is None else self.hbm.value / self.devices.value

    def device_link(self) -> float | None:
        """Return the bytes/s of one link, one way, for one device: the devices of a chip share its links."""
        return None if self.link is None else self.link / self.devices.value

    def device_ring(self, *, axes: int = 1, wraparound: bool = True) -> float | None:
        """Return the bytes/s that one device sends in a ring collective over some ICI axes.

        A ring sends both ways at once: two links per axis. Without the link that closes the ring, half of that
        (JAX scaling book, part 2, TPU Networking: smaller topologies have no wraparounds, "which typically doubles the
        time of most throughput-bound comms").
        """
        link = self.device_link()
        return None if link is None else link * axes * (2 if wraparound else 1)


_TPU7X = "Google Cloud documentation, TPU7x (Ironwood), System architecture"
_DIES = "Google Cloud documentation, TPU7x (Ironwood), Dual-chiplet architecture"
_V5P = "Google Cloud documentation, TPU v5p, System architecture"
_V5E = "Google Cloud documentation, TPU v5e, System architecture"
_V6E = "Google Cloud documentation, TPU v6e, System architecture"
_MEGACORE = f"{_DIES}: the two cores of v4 and v5p are a single logical core (MegaCore)"

CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            name="tpu7x",
            devices=ChipFigure(value=2, source=f"{_DIES}: two devices per chip, one for each chiplet"),
            torus=ChipFigure(
                value=3,
                source="Google Cloud documentation, TPU7x (Ironwood), Supported configurations: 3D torus, 200 GBps per "
                "axis, which is what 1200 GBps per chip give over 3 axes and 2 directions",
            ),
            peak={
                "bfloat16": ChipFigure(value=2307 * TERA, source=f"{_TPU7X}: peak compute per chip (BF16)"),
                "float8": ChipFigure(value=4614 * TERA, source=f"{_TPU7X}: peak compute per chip (FP8)"),
            },
            hbm=ChipFigure(value=7380 * GB, source=f"{_TPU7X}: HBM bandwidth per chip"),
            ici=ChipFigure(value=1200 * GB, source=f"{_TPU7X}: bidirectional ICI bandwidth per chip"),
            d2d_links=ChipFigure(
                value=6,
                source=f"{_DIES}: six times faster than a 1D ICI link; read as six links one way, the lower reading",
            ),
        ),
        Chip(
            name="v5p",
            devices=ChipFigure(value=1, source=_MEGACORE),
            torus=ChipFigure(value=3, source=f"{_V5P}: interconnect topology 3D torus"),
            peak={
                "bfloat16": ChipFigure(value=459 * TERA, source=f"{_V5P}: peak compute per chip (BF16)"),
                "float8": ChipFigure(value=459 * TERA, source=f"{_V5P}: peak compute per chip (FP8)"),
            },
            hbm=ChipFigure(value=2765 * GB, source=f"{_V5P}: HBM bandwidth per chip"),
            ici=ChipFigure(value=1200 * GB, source=f"{_V5P}: bidirectional ICI bandwidth per chip"),
        ),
        Chip(
            name="v6e",
            devices=ChipFigure(value=1, source=f"{_V6E}: one TensorCore per chip"),
            torus=ChipFigure(value=2, source=f"{_V6E}: 4 ICI ports per chip, interconnect topology 2D torus"),
            peak={
                "bfloat16": ChipFigure(value=918 * TERA, source=f"{_V6E}: peak compute per chip (bf16)"),
                "float8": ChipFigure(
                    value=918 * TERA,
                    source="Google Cloud documentation, TPU7x (Ironwood), System architecture: the column of v6e, FP8",
                ),
            },
            hbm=ChipFigure(value=1638 * GB, source=f"{_V6E}: HBM bandwidth per chip"),
            ici=ChipFigure(value=800 * GB, source=f"{_V6E}: bidirectional ICI bandwidth per chip"),
        ),
        Chip(
            name="v5e",
            devices=ChipFigure(value=1, source=f"{_V5E}: one TensorCore per chip"),
            torus=ChipFigure(value=2, source=f"{_V5E}: 4 ICI ports per chip, interconnect topology 2D torus"),
            peak={
                "bfloat16": ChipFigure(value=197 * TERA, source=f"{_V5E}: peak compute per chip (bf16)"),
                "float8": None,
            },
            hbm=ChipFigure(value=819 * GB, source=f"{_V5E}: HBM2 capacity and bandwidth (a later edition: 800 GiBps)"),
            ici=ChipFigure(value=400 * GB, source=f"{_V5E}: bidirectional ICI bandwidth per chip"),
        ),
    )
}
"""The generations with published figures. The scaling book gives links of v5p, v5e and v6e that are a tenth slower in
its later edition, and the same in its first."""

WIDTHS = {"bfloat16": 2, "float8": 1}
"""Bytes per element."""


def chip_of(target: str) -> Chip:
    """Return the chip of a target: a generation such as `tpu7x`, or a slice of it such as `tpu7x:4x4x4`."""
    name = target.partition(":")[0]
    if name not in CHIPS:
        near = ["tpu7x"] if name in ("v7x", "v7", "tpu7") else difflib.get_close_matches(name, CHIPS, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise RequestError(f"target '{target}': no figures of chip '{name}'; expected one of {', '.join(CHIPS)}{hint}")
    if ":" in target:
        slice_devices(target)
    return CHIPS[name]


def slice_devices(target: str) -> int:
    """Return how many devices a slice has."""
    Target(name=target)
    name, _, sizes = target.partition(":")
    count = int(CHIPS[name].devices.value)
    for size in sizes.split("x"):
        count *= int(size)
    return count
