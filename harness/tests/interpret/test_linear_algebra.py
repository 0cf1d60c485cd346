"""Solves and factorisations: what jax computes, identities of formulas, and twins that differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular

from samebits.interpret import composite_primitives
from samebits.interpret.field import domain
from tests.interpret.executed import check, compared

Function = Callable[..., Any]

RNG = np.random.default_rng(21)
A = (RNG.normal(size=(3, 3)) + 3 * np.eye(3)).astype(np.float32)
B = RNG.normal(size=(3, 2)).astype(np.float32)
C = RNG.normal(size=(3, 3)).astype(np.float32)
LOWER = np.array([0, 1, 1], np.float32)
S = (A @ A.T).astype(np.float32)


def solved(**flags: Any) -> Function:
    flags = {"left_side": True, "lower": True, **flags}
    return lambda a, b: lax.linalg.triangular_solve(a, b if flags["left_side"] else b.T, **flags)


EXECUTED: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "triangular_solve": (solved(), (A, B)),
    "upper, transposed": (solved(lower=False, transpose_a=True), (A, B)),
    "from the right": (solved(left_side=False), (A, B)),
    "from the right, transposed": (solved(left_side=False, transpose_a=True), (A, B)),
    "unit diagonal": (solved(unit_diagonal=True), (A, B)),
    "cholesky": (jnp.linalg.cholesky, (S,)),
    "the gradient of cholesky": (jax.grad(lambda a: jnp.linalg.cholesky(a).sum()), (S,)),
    "a tall lu": (lambda a: lax.linalg.lu(a[:, :2]), (A,)),
    "a wide lu": (lambda a: lax.linalg.lu(a[:2]), (A,)),
    "solve": (jnp.linalg.solve, (A, B)),
    "a batch of solves": (jax.vmap(jnp.linalg.solve), (np.stack([A, S]), np.stack([B, B + 1]))),
    "the gradient of det": (jax.grad(jnp.linalg.det), (A,)),
    "symmetric_product": (lambda a, c: lax.linalg.symmetric_product(a, c + c.T, alpha=2.0, beta=3.0), (A, C)),
    "eigh": (jnp.linalg.eigvalsh, (S,)),
    "eig": (lambda a: jnp.abs(jnp.linalg.eigvals(a)), (A,)),
    "qr": (lambda a: jnp.linalg.qr(a)[1], (A,)),
    "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), (A,)),
    "complex schur": (lambda a: jnp.abs(jax.scipy.linalg.schur(a + 1j * a.T)[0]), (A,)),
    "tridiagonal_solve": (lambda a, b: lax.linalg.tridiagonal_solve(a[0] * LOWER, a[1], a[2] * LOWER[::-1], b), (A, B)),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", EXECUTED)
def test_the_interpreter_computes_what_jax_does(name: str) -> None:
    function, args = EXECUTED[name]
    check(function, *(arg.astype(np.float64) for arg in args))


EQUAL: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "a solve, an inverse": (jnp.linalg.solve, lambda a, b: jnp.linalg.inv(a) @ b, (A, B)),
    "an inverse undoes": (lambda a: jnp.linalg.inv(a) @ a @ a, lambda a: a, (A,)),
    "det of a product": (
        lambda a, c: jnp.linalg.det(a @ c),
        lambda a, c: jnp.linalg.det(a) * jnp.linalg.det(c),
        (A, C),
    ),
    "det by hand": (lambda a: jnp.linalg.det(a[:2, :2]), lambda a: a[0, 0] * a[1, 1] - a[1, 0] * a[0, 1], (A,)),
    "the gradient of det": (jax.grad(jnp.linalg.det), lambda a: jnp.linalg.det(a) * jnp.linalg.inv(a).T, (A,)),
    "a triangular solve undoes": (lambda a, b: jnp.tril(a) @ solved()(a, b), lambda a, b: b, (A, B)),
    "left and right": (solved(left_side=False), lambda a, b: solved(transpose_a=True)(a, b).T, (A, B)),
    "L L^T": (lambda a: (lambda low: low @ low.T)(jnp.linalg.cholesky(a)), lambda a: (a + a.T) / 2, (S,)),
    "a solve by cholesky": (
        lambda a, b: cho_solve((jnp.linalg.cholesky(a), True), b),
        lambda a, b: jnp.linalg.solve((a + a.T) / 2, b),
        (S, B),
    ),
    "eigh of one formula": (
        lambda a, c: jnp.linalg.eigvalsh(a @ c + c.T @ a.T),
        lambda a, c: jnp.linalg.eigvalsh((c.T @ a.T) + a @ c),
        (A, C),
    ),
    "qr of one formula": (lambda a, c: jnp.linalg.qr(a @ c)[1], lambda a, c: jnp.linalg.qr((c.T @ a.T).T)[1], (A, C)),
}

DIFFERENT: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "of the transpose": (jnp.linalg.solve, lambda a, b: jnp.linalg.inv(a).T @ b, (A, B)),
    "the other triangle": (solved(), solved(lower=False), (A, B)),
    "without the diagonal": (solved(), solved(unit_diagonal=True), (A, B)),
    "transposed": (lambda a, b: solve_triangular(a, b, trans=1), solve_triangular, (A, B)),
    "one sign": (lambda a: jnp.linalg.det(a), lambda a: -jnp.linalg.det(a[:, ::-1]) * 1.001, (A,)),
    "a factor": (jnp.linalg.cholesky, lambda a: 1.0001 * jnp.linalg.cholesky(a), (S,)),
    "the other factor": (jnp.linalg.cholesky, lambda a: jnp.linalg.cholesky(a).T, (S,)),
    "an element of a factored matrix": (
        jnp.linalg.eigvalsh,
        lambda a: jnp.linalg.eigvalsh(a.at[2, 2].add(0.01)),
        (S,),
    ),
    "an eigenvalue": (jnp.linalg.eigvalsh, lambda a: jnp.linalg.eigvalsh(a)[::-1], (S,)),
    "the columns of q": (lambda a: jnp.linalg.qr(a)[0], lambda a: jnp.linalg.qr(a)[0][:, ::-1], (A,)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", EQUAL)
def test_equal_formulas_are_proved(name: str) -> None:
    first, second, args = EQUAL[name]
    assert compared(first, second, *args) == "equal"


@pytest.mark.parametrize("name", DIFFERENT)
def test_their_unequal_twins_are_different(name: str) -> None:
    first, second, args = DIFFERENT[name]
    assert compared(first, second, *args) == "different"


def test_only_the_triangle_that_is_read_counts() -> None:
    def below(a: Any, c: Any) -> Any:
        return lax.linalg.eigh(jnp.tril(a) + jnp.triu(c, 1), symmetrize_input=False)[1]

    assert compared(lambda a, c: lax.linalg.eigh(a, symmetrize_input=False)[1], below, S, C) == "equal"
    assert compared(below, lambda a, c: below(a, c.T) + below(a, 2 * a) * 1e-3, S, C) == "different"


# -- planted faults


def test_a_solve_that_reads_its_flags_wrong_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = composite_primitives.AS_FORMULAS["triangular_solve"]

    def wrong(interpreter: Any, step: Any, values: Any) -> Any:
        params = {**step.params, "transpose_a": not step.params["transpose_a"]}
        return right(interpreter, step.like(step.name, step.inputs, step.outputs, **params), values)

    monkeypatch.setitem(composite_primitives.AS_FORMULAS, "triangular_solve", wrong)
    with pytest.raises(AssertionError, match="output 0"):
        check(solved(), A.astype(np.float64), B.astype(np.float64))


def test_a_factorisation_that_reads_one_element_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, args = DIFFERENT["an element of a factored matrix"]
    monkeypatch.setattr(domain, "_folded", lambda field, rows: np.stack(rows[:1]))
    monkeypatch.setattr(domain, "evaluate", lambda step, values: [np.zeros(k.shape) for k in step.outputs])
    assert compared(first, second, *args) == "equal"  # so that the test above can fail
