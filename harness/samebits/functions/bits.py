"""`samebits.compare` and its `Comparison`, which shows itself in a notebook."""

from __future__ import annotations

from samebits.numerics.bits import Comparison as Comparison
from samebits.numerics.bits import compare as compare
from samebits.report.html import notebook as notebook
