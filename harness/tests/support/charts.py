"""The data of a chart, wherever its specification keeps it."""

from collections.abc import Mapping
from typing import Any


def layer_rows(chart: Mapping[str, Any], layer: int) -> list[dict[str, Any]]:
    """The rows that one layer of a chart draws."""
    data = chart["layer"][layer].get("data", chart.get("data"))
    rows = data["values"] if "values" in data else chart["datasets"][data["name"]]
    return rows  # type: ignore[no-any-return]
