"""Calls for their side effects alone are not compared; where a variant has fewer or more of them, that is said."""

from typing import Any

from jax.experimental import io_callback

from tests.support.toys import of, run, toy

SAYS = "calls `io_callback` at 0 places, '_logged' at 1: side effects are not compared"


def _logged(x: Any, *, factor: float = 2.0) -> Any:
    io_callback(lambda value: None, None, x.sum())
    return x * factor


def _silent(x: Any, *, factor: float = 2.0) -> Any:
    return x * factor


def _logged_too(x: Any, *, factor: float = 2.0) -> Any:
    return _logged(x, factor=factor)


def test_a_side_effect_that_is_gone_is_said() -> None:
    results = run(toy(_logged, silent=_silent, logged=_logged_too), gradients=False)
    (silent,), (logged,) = of(results, variant="silent"), of(results, variant="logged")
    assert SAYS in str(silent.ruling.evidence)
    assert "side effects" not in str(logged.ruling.evidence)
