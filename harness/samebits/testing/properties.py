"""The names and keys that the pytest plugin, its tests and the running of their cases share."""

from __future__ import annotations

import pytest

OWN = "PAIR"
"""The name under which a suite declares its pair; others, under other names, are run by pytest alone."""

PAGE_OPTION = "--report-html"

NOTE = "samebits_note"
"""The property of a test that records what the user's code changed for other tests."""

VERDICT = "samebits_verdict"
"""The property of a test that has the verdict of one leaf."""

EARLY = pytest.StashKey[int]()
"""How many CPU devices samebits would have asked for, where jax had started before it could."""

NEXT = pytest.StashKey[pytest.Item | None]()
"""Of a test: the one that runs after it."""
