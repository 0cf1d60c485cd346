"""What cannot be decided is `error` with exit code 3; `different` has a witness that rounding cannot explain."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from samebits.schema.contract import Contract, Exemption
from samebits.schema.finding import Finding, exit_code
from tests.support.toys import alone, run, toy

ROUNDING = (Contract(lowest="rounding", reason="for the sake of the test"),)


def _on_host(x: Any) -> Any:
    if x.dtype != np.float32:
        raise TypeError("expected float32")
    return np.sqrt(np.asarray(x) ** 2 + 1)


def _narrow(x: Any) -> Any:
    """A function of the host: no domain interprets it, and it does not run in float64."""
    return jax.pure_callback(_on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def reference(x: Any, *, factor: float = 2.0) -> Any:
    return _narrow(x) * 3


def in_parts(x: Any, *, factor: float = 2.0) -> Any:
    return _narrow(x) * 1.1 + _narrow(x) * 1.9


def infinite(x: Any, *, factor: float = 2.0) -> Any:
    return _narrow(x) * 3 / (x * 0)


def result(variant: Callable[..., Any], **changes: Any) -> Finding:
    (found,) = run(toy(reference, other=variant), alone("other"), contracts=ROUNDING, **changes)
    return found


def test_rounding_that_nothing_can_measure_is_an_error() -> None:
    found = result(in_parts)
    assert (found.ruling.verdict, found.ruling.ok, found.ruling.evidence) == ("error", False, None), found
    assert found.ruling.reason is not None and found.ruling.reason.startswith(
        "could not tell whether this is rounding: "
    )
    assert "expected float32" in found.ruling.reason
    assert exit_code([found]) == 3


def test_what_no_rounding_explains_is_different_all_the_same() -> None:
    found = result(infinite)
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False), found
    assert found.comparison.witness is not None and exit_code([found]) == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [None, "rounding", "other"])
def test_an_exemption_does_not_cover_what_could_not_be_told(kind: str | None) -> None:
    known = Exemption(variant="other", kind=kind, reason="FINDING: for the sake of the test")
    found = result(in_parts, exemptions=(known,))
    assert (found.ruling.verdict, found.ruling.ok) == ("error", False), found
