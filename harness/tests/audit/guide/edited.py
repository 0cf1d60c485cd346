"""A module whose text is another one for a while, as a planted fault."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def edited(module: ModuleType, old: str, new: str) -> Iterator[None]:
    """Run the edited text in place of the module; whoever looks names up in it sees the fault."""
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    assert old in text, f"nothing to edit: {old}"
    before = dict(vars(module))
    try:
        exec(compile(text.replace(old, new), str(module.__file__), "exec"), vars(module))
        yield
    finally:
        vars(module).clear()
        vars(module).update(before)
