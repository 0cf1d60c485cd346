"""Which tests passed, from the file that pytest writes."""

from __future__ import annotations

import xml.etree.ElementTree as tree
from pathlib import Path

from samebits.errors import CouldNotRun


def passed_tests(file: Path) -> dict[str, bool]:
    """Test functions by name: whether every case of each ran and passed; one that was skipped did not.

    Raises:
        CouldNotRun: the file cannot be read.
    """
    try:
        root = tree.parse(file).getroot()
    except (OSError, tree.ParseError) as error:
        raise CouldNotRun(f"what pytest wrote cannot be read: {error}") from None
    found: dict[str, bool] = {}
    for case in root.iter("testcase"):
        name = str(case.get("name")).partition("[")[0]
        found[name] = found.get(name, True) and not any(one.tag in ("failure", "error", "skipped") for one in case)
    return found
