"""What the pytest plugin and the running of its cases tell each other: keys and properties of tests."""

from __future__ import annotations

import pytest

NOTE = "samebits_note"
"""The property of a test that tells what the user's code changed for others."""

NEXT = pytest.StashKey[pytest.Item | None]()
"""Of a test: the one that runs after it."""
