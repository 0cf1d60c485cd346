"""The keys and properties of tests that the pytest plugin and the running of its cases share."""

from __future__ import annotations

import pytest

NOTE = "samebits_note"
"""The property of a test that records what the user's code changed for other tests."""

NEXT = pytest.StashKey[pytest.Item | None]()
"""Of a test: the one that runs after it."""
