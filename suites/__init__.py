"""The declarations: `test_NAME.py` holds `PAIR = Pair(...)` and properties that need no reference."""
