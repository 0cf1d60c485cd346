"""The branch of `lax.platform_dependent` that a platform takes."""

import pytest

from samebits.errors import NotCovered
from samebits.interpret.control_flow import branch_of


def test_a_platform_takes_its_own_branch_or_the_default() -> None:
    platforms = (("cpu",), ("cuda", "rocm"), None)
    assert [branch_of(name, platforms) for name in ("cpu", "gpu", "cuda", "tpu", None)] == [0, 1, 1, 2, 2]


def test_a_platform_without_a_branch_is_not_covered() -> None:
    with pytest.raises(NotCovered, match=r"no branch of lax\.platform_dependent is for tpu"):
        branch_of("tpu", (("cpu",),))
