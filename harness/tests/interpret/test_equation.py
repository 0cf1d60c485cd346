"""Which stack frames are passed over: those of jax and of libraries, and not of users' folders with such a name."""

import flax
import jax
import pytest

from samebits.interpret.equation import JAX, is_machinery


@pytest.mark.parametrize(
    ("file", "libraries", "expected"),
    [
        (jax.__file__, None, True),
        (jax.__file__, JAX, True),
        (flax.__file__, None, True),
        (flax.__file__, JAX, False),
        ("venv/lib/python3.12/site-packages/haiku/base.py", None, True),
        ("C:\\Python\\Lib\\site-packages\\jaxlib\\mlir\\ir.py", JAX, True),
        ("<frozen importlib._bootstrap>", None, True),
        ("work/jax/attention.py", None, False),
        ("work/flax/examples/train.py", None, False),
        ("work/site-packages/mine/jax/kernel.py", None, False),
    ],
)
def test_frames_of_libraries_are_known_by_their_package(
    file: str, libraries: frozenset[str] | None, expected: bool
) -> None:
    assert (is_machinery(file) if libraries is None else is_machinery(file, libraries)) is expected
