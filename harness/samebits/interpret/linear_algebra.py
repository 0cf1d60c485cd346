"""Triangular solves and factorisations without iteration, written out in sums, products, quotients and roots.

So a solve by LU and a product with the inverse are one formula. Each sum is one product of vectors, whose bound holds
in any order of adding: LAPACK's blocks add in another one. Pivots are chosen by the numbers of the case, as every
comparison is. Source: Golub and Van Loan, Matrix Computations, 4th ed., algorithms 3.1.3, 3.4.1 and 4.2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Step
from samebits.interpret.rewritten import rewritten


def triangular_solve(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """By substitution; only the triangle is read."""
    flags = tuple(bool(step.params[name]) for name in ("left_side", "lower", "transpose_a", "unit_diagonal"))
    if step.params.get("conjugate_a"):
        return rewritten(interpreter, step, values, substitution_conjugated, *flags)
    return rewritten(interpreter, step, values, substitution, *flags)


def substitution_conjugated(left: bool, lower: bool, transposed: bool, unit: bool, a: Any, b: Any) -> Any:
    """`substitution` with the conjugate of the matrix."""
    return substitution(left, lower, transposed, unit, jnp.conj(a), b)


def substitution(left: bool, lower: bool, transposed: bool, unit: bool, a: Any, b: Any) -> Any:
    """Solve op(A) X = B, or X op(A) = B.

    Args:
        left, lower, transposed, unit: as `jax.lax.linalg.triangular_solve`.
        a: `[..., n, n]`.
        b: `[..., n, m]`, or `[..., m, n]` for the right side.
    """
    if transposed != (not left):  # X op(A) = B is op(A)^T X^T = B^T
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    b = b if left else jnp.swapaxes(b, -1, -2)
    size = a.shape[-1]
    rows: dict[int, Any] = {}
    for number in range(size) if lower else reversed(range(size)):
        known = sorted(rows)
        row = b[..., number, :]
        if known:
            factors = a[..., number, known[0] : known[-1] + 1]
            row = _less(row, factors, jnp.stack([rows[other] for other in known], -2))
        rows[number] = row if unit else row / a[..., number, number, None]
    solution = jnp.stack([rows[number] for number in range(size)], -2)
    return solution if left else jnp.swapaxes(solution, -1, -2)


def _less(start: Any, factors: Any, rows: Any) -> Any:
    """`start [..., m] - factors [..., k] @ rows [..., k, m]`, added up in one product."""
    unit = jnp.ones((*factors.shape[:-1], 1), factors.dtype)
    left = jnp.concatenate([unit, -factors], -1)
    right = jnp.concatenate([start[..., None, :], rows], -2)
    return jnp.einsum("...k,...km->...m", left, right, precision=lax.Precision.HIGHEST)


def cholesky(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """Column by column; only the lower triangle is read, and the upper one is zero."""
    return rewritten(interpreter, step, values, cholesky_by_columns)


def cholesky_by_columns(x: Any) -> Any:
    """The lower factor L of L L^T, of `[..., n, n]`."""
    size = x.shape[-1]
    columns: list[Any] = []
    for number in range(size):
        column = x[..., number:, number]
        if columns:
            before = jnp.stack(columns, -2)  # [..., columns, n]
            column = _less(column, before[..., :, number], before[..., :, number:])
        root = jnp.sqrt(column[..., :1])
        below = jnp.concatenate([root, column[..., 1:] / root], -1)
        columns.append(jnp.concatenate([jnp.zeros((*x.shape[:-2], number), x.dtype), below], -1))
    return jnp.stack(columns, -1)


def lu(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """With partial pivoting; the factors in one matrix, the pivots and the permutation."""
    return rewritten(interpreter, step, values, lu_by_columns)


def lu_by_columns(a: Any) -> Any:
    """LU of `[..., m, n]`, as `jax.lax.linalg.lu`."""
    if a.ndim > 2:
        return jax.vmap(lu_by_columns)(a)
    rows, columns = a.shape
    order = jnp.arange(rows, dtype=jnp.int32)
    below, above, pivots = jnp.zeros((rows, 0), a.dtype), jnp.zeros((0, columns), a.dtype), []
    for number in range(min(rows, columns)):
        column = a[number:, number]
        if number:
            column = _less(column, above[:, number], jnp.swapaxes(below[number:], 0, 1))
        best = (jnp.argmax(jnp.abs(column)) + number).astype(jnp.int32)
        pivots.append(best)
        swap = _swap(rows, number, best)
        a, below, order = a[swap], below[swap], order[swap]
        column = column[swap[number:] - number]
        row = a[number, number:]
        if number:
            row = _less(row, below[number], above[:, number:])
        above = jnp.concatenate([above, jnp.concatenate([jnp.zeros(number, a.dtype), row])[None]])
        quotients = jnp.concatenate([jnp.zeros(number + 1, a.dtype), column[1:] / column[:1]])
        below = jnp.concatenate([below, quotients[:, None]], 1)
    return _joined(below, above, a.dtype), jnp.stack(pivots), order


def _swap(rows: int, number: int, best: Any) -> Any:
    places = jnp.arange(rows, dtype=jnp.int32)
    return jnp.where(places == number, best, jnp.where(places == best, number, places))


def _joined(below: Any, above: Any, dtype: Any) -> Any:
    """Both factors in one matrix, without the ones on the diagonal of the lower one."""
    (rows, steps), columns = below.shape, above.shape[1]
    lower = jnp.concatenate([below, jnp.zeros((rows, columns - steps), dtype)], 1)
    upper = jnp.concatenate([above, jnp.zeros((rows - steps, columns), dtype)])
    return jnp.where(jnp.arange(rows)[:, None] > jnp.arange(columns)[None], lower, upper)


def symmetric_product(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
    """`alpha a a^T + beta c`."""
    return rewritten(interpreter, step, values, product_and_sum, *(float(step.params[n]) for n in ("alpha", "beta")))


def product_and_sum(alpha: float, beta: float, a: Any, c: Any) -> Any:
    """A matrix times its own transpose, added to another."""
    return alpha * jnp.einsum("...ik,...jk->...ij", a, a, precision=lax.Precision.HIGHEST) + beta * c
