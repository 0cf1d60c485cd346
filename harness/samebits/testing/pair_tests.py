"""The test functions that a suite makes of its pair; the pytest plugin makes their cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from samebits.schema.pair import Pair
    from samebits.schema.point import Point

PAIR = "_samebits_pair"
COMPILED = "_samebits_compiled"
"""The attributes of test functions that have the pair whose points they check."""


def pair_test(pair: Pair) -> Callable[..., None]:
    """Return a pytest function that checks a pair; pytest makes one case of each point of its sweep.

    Equivalent to a test parametrised over `samebits check`'s points that fails where the command would.

    Args:
        pair: the declaration.

    Returns:
        A function to bind to a name that begins with `test_`.
    """

    # In a class it is a method; of positional-only parameters pytest leaves the first one to the instance.
    def test_pair(instance: object = None, /, *, samebits_point: Point, request: pytest.FixtureRequest) -> None:
        from samebits.testing.session import check_point

        check_point(pair, samebits_point, request)

    setattr(test_pair, PAIR, pair)
    test_pair.__doc__ = f"Every point of the pair '{pair.name}' holds its contract."
    return test_pair


def compile_test(pair: Pair) -> Callable[..., None]:
    """Return a pytest function that compiles a pair's production shapes and checks its claims; skipped without libtpu.

    Equivalent to a test parametrised over the production shapes, targets and directions of `samebits compile`.

    Args:
        pair: a declaration with `compiled=(RealSize(...),)`.

    Returns:
        A function to bind to a name that begins with `test_`; mark it `slow` where its programs are large.

    Raises:
        DeclarationError: it declares no production shapes; the test would check nothing.
    """
    if not pair.compiled:
        from samebits.errors import DeclarationError

        raise DeclarationError(f"pair '{pair.name}' declares no production shapes; write compiled=(RealSize(...),)")

    def test_compiled(instance: object = None, /, *, samebits_compiled: tuple[str, str, str]) -> None:
        __tracebackhide__ = True
        from samebits.testing.compile_claims import check_compiled_claims

        check_compiled_claims(pair, *samebits_compiled)

    setattr(test_compiled, COMPILED, pair)
    test_compiled.__doc__ = f"Every claim on the compiled programs of the pair '{pair.name}' is as declared."
    return test_compiled
