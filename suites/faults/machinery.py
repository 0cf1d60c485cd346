"""Faults of samebits itself, planted where `sequence_reorder` shows them."""

from __future__ import annotations

from samebits import machinery_faults

FAULTS = machinery_faults(pair="sequence_reorder", side="structured", mesh="context4")
