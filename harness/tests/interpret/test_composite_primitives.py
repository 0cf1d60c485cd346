"""Windows, matrices and scatters: what jax computes, identities of formulas, and twins that differ."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular

from samebits.errors import BrokenPromise, NotCovered
from samebits.interpret import composite_primitives, windows
from samebits.interpret.equation import Type
from samebits.interpret.field import domain
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import LabelDomain
from tests.interpret.executed import answers, check, compared

Function = Callable[..., Any]
Arguments = tuple[Any, ...]

RNG = np.random.default_rng(22)
IMAGE = RNG.normal(size=(2, 4, 4, 2)).astype(np.float32)
KERNEL = RNG.normal(size=(2, 3, 2, 4)).astype(np.float32)
LAYOUT = ("NHWC", "HWIO", "NHWC")


def conv(strides: tuple[int, int] = (1, 1), padding: Any = "SAME", **more: Any) -> Function:
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=LAYOUT, **more)


def pool(computation: Any, start: float, padding: str = "VALID", **more: Any) -> Function:
    return lambda x: lax.reduce_window(x, start, computation, (1, 2, 2, 1), (1, 2, 2, 1), padding, **more)


def loss(function: Function) -> Function:
    return lambda *args: jnp.sum(jnp.sin(function(*args)))


WINDOWS: dict[str, tuple[Function, Arguments]] = {
    "a convolution": (conv(), (IMAGE, KERNEL)),
    "strides and negative padding": (conv((2, 1), ((1, -1), (0, 2))), (IMAGE, KERNEL)),
    "dilated": (conv(padding=((0, 0), (1, 0)), lhs_dilation=(2, 1), rhs_dilation=(1, 2)), (IMAGE, KERNEL)),
    "groups": (conv(feature_group_count=2), (IMAGE, KERNEL[:, :, :1])),
    "batch groups": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", batch_group_count=2),
        (IMAGE.transpose(0, 3, 1, 2), KERNEL.transpose(3, 2, 0, 1)),
    ),
    "gradients": (jax.grad(loss(conv((2, 1))), (0, 1)), (IMAGE, KERNEL)),
    "integers": (conv(), (np.arange(64).reshape(2, 4, 4, 2), np.arange(48).reshape(2, 3, 2, 4))),
    "a maximum": (pool(lax.max, -np.inf), (IMAGE,)),
    "a padded minimum": (pool(lax.min, np.inf, "SAME", base_dilation=(1, 2, 1, 1)), (IMAGE,)),
    "a sum": (pool(lax.add, 0.0, window_dilation=(1, 1, 2, 1)), (IMAGE,)),
    "the gradient of a maximum": (jax.grad(loss(pool(lax.max, -np.inf, "SAME"))), (IMAGE,)),
    "the tangent of a maximum": (lambda x: jax.jvp(pool(lax.max, -np.inf), (x,), (x * x,))[1], (IMAGE,)),
}


OTHER = np.random.default_rng(21)
A = (OTHER.normal(size=(3, 3)) + 3 * np.eye(3)).astype(np.float32)
B = OTHER.normal(size=(3, 2)).astype(np.float32)
C = OTHER.normal(size=(3, 3)).astype(np.float32)
LOWER = np.array([0, 1, 1], np.float32)
S = (A @ A.T).astype(np.float32)


def solved(**flags: Any) -> Function:
    flags = {"left_side": True, "lower": True, **flags}
    return lambda a, b: lax.linalg.triangular_solve(a, b if flags["left_side"] else b.T, **flags)


MATRICES: dict[str, tuple[Function, Arguments]] = {
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

X, Y = (np.random.default_rng(23).normal(size=(4, 3)).astype(np.float32) for _ in range(2))
TWICE, ONCE = np.array([0, 2, 0, 0], np.int32), np.array([3, 1, 0, 2], np.int32)

SCATTERS: dict[str, Function] = {
    "scatter-mul": lambda x, y: x.at[TWICE].multiply(y),
    "scatter-max": lambda x, y: x.at[TWICE].max(y),
    "scatter-min": lambda x, y: x.at[TWICE, 1].min(y[:, 0]),
    "beyond the end": lambda x, y: x.at[np.array([0, 9, 1, 0], np.int32)].multiply(y, mode="drop"),
    "a gradient": jax.grad(lambda x, y: jnp.sum(jnp.sin(x.at[ONCE].multiply(y, unique_indices=True))), (0, 1)),
}

EXECUTED = {**WINDOWS, **MATRICES, **{name: (function, (X, Y)) for name, function in SCATTERS.items()}}


@pytest.mark.sampled(22)
@pytest.mark.parametrize("name", EXECUTED)
def test_the_interpreter_computes_what_jax_does(name: str) -> None:
    function, args = EXECUTED[name]
    check(function, *(arg.astype(np.float64) if arg.dtype.kind == "f" else arg for arg in args))


def by_shifts(x: Any, w: Any) -> Any:
    """A convolution without padding as a sum over the places of its kernel."""
    rows, columns = 4 - w.shape[0] + 1, 4 - w.shape[1] + 1
    return sum(x[:, r : r + rows, c : c + columns] @ w[r, c] for r in range(w.shape[0]) for c in range(w.shape[1]))


def in_tiles(reduce: Function) -> Function:
    return lambda x: reduce(x.reshape(2, 2, 2, 2, 2, 2), (2, 4))


EQUAL: dict[str, tuple[Any, ...]] = {
    "a convolution, a sum": (conv(padding="VALID"), by_shifts, (IMAGE, KERNEL)),
    "its gradients": (
        jax.grad(loss(conv(padding="VALID")), (0, 1)),
        jax.grad(loss(by_shifts), (0, 1)),
        (IMAGE, KERNEL),
    ),
    "a pointwise convolution": (conv(), lambda x, w: x @ w[0, 0], (IMAGE, KERNEL[:1, :1])),
    "a mean of windows": (lambda x: pool(lax.add, 0.0)(x) / 4, in_tiles(jnp.mean), (IMAGE,)),
    "a maximum of windows": (pool(lax.max, -np.inf), in_tiles(jnp.max), (IMAGE,)),
    "the gradient of a maximum": (jax.grad(loss(pool(lax.max, -np.inf))), jax.grad(loss(in_tiles(jnp.max))), (IMAGE,)),
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
    "products": (lambda x, y: x.at[ONCE].multiply(y), lambda x, y: x * y[np.argsort(ONCE)]),
    "several updates": (
        lambda x, y: x.at[TWICE].multiply(y),
        lambda x, y: jnp.stack([x[0] * y[3] * y[0] * y[2], x[1], y[1] * x[2], x[3]]),
    ),
    "the largest": (lambda x, y: x.at[ONCE].max(y), lambda x, y: jnp.maximum(y[np.argsort(ONCE)], x)),
}

DIFFERENT: dict[str, tuple[Any, ...]] = {
    "a flipped kernel": (conv(padding="VALID"), lambda x, w: by_shifts(x, w[::-1]), (IMAGE, KERNEL)),
    "padding on the other side": (conv(padding=((0, 1), (1, 1))), conv(padding=((1, 0), (1, 1))), (IMAGE, KERNEL)),
    "features exchanged": (conv(), lambda x, w: conv()(x, w[:, :, ::-1]), (IMAGE, KERNEL)),
    "the padding counts": (
        lambda x: pool(lax.add, 0.0, "SAME")(x[:, :3]) / 4,
        lambda x: pool(lax.add, 0.0, "SAME")(x[:, :3]) / np.array([4.0, 2.0], np.float32)[:, None, None],
        (IMAGE,),
    ),
    "windows one further": (pool(lax.max, -np.inf), lambda x: pool(lax.max, -np.inf)(jnp.roll(x, 1, 1)), (IMAGE,)),
    "a minimum": (pool(lax.max, -np.inf), in_tiles(jnp.min), (IMAGE,)),
    "of the transpose": (jnp.linalg.solve, lambda a, b: jnp.linalg.inv(a).T @ b, (A, B)),
    "the other triangle": (solved(), solved(lower=False), (A, B)),
    "without the diagonal": (solved(), solved(unit_diagonal=True), (A, B)),
    "transposed": (lambda a, b: solve_triangular(a, b, trans=1), solve_triangular, (A, B)),
    "one sign": (lambda a: jnp.linalg.det(a), lambda a: -jnp.linalg.det(a[:, ::-1]) * 1.001, (A,)),
    "a factor": (jnp.linalg.cholesky, lambda a: 1.0001 * jnp.linalg.cholesky(a), (S,)),
    "the other factor": (jnp.linalg.cholesky, lambda a: jnp.linalg.cholesky(a).T, (S,)),
    "an element of a factored matrix": (jnp.linalg.eigvalsh, lambda a: jnp.linalg.eigvalsh(a.at[2, 2].add(0.01)), (S,)),
    "an eigenvalue": (jnp.linalg.eigvalsh, lambda a: jnp.linalg.eigvalsh(a)[::-1], (S,)),
    "the columns of q": (lambda a: jnp.linalg.qr(a)[0], lambda a: jnp.linalg.qr(a)[0][:, ::-1], (A,)),
    "other places": (lambda x, y: x.at[ONCE].multiply(y), lambda x, y: x.at[ONCE[::-1]].multiply(y)),
    "one update less": (lambda x, y: x.at[TWICE].multiply(y), lambda x, y: x.at[TWICE[:3]].multiply(y[:3])),
    "the smallest": (lambda x, y: x.at[ONCE].max(y), lambda x, y: x.at[ONCE].min(y)),
}

test_equal_formulas_are_proved = pytest.mark.sampled(12)(answers("equal", EQUAL, X, Y))
test_their_unequal_twins_are_different = answers("different", DIFFERENT, X, Y)


def test_labels_take_no_convolution_for_a_matrix_product() -> None:
    """It may be computed by a transform, which does not preserve the elements that a one-hot product does."""
    labels, one = LabelDomain(), np.eye(2, dtype=np.float32)[None, None]
    program = jax.make_jaxpr(lambda x: conv()(x, one))(IMAGE)
    with pytest.raises(NotCovered, match="conv_general_dilated"):
        Interpreter(labels)(program, labels.input("x", Type(IMAGE.shape, IMAGE.dtype)))


@pytest.mark.parametrize("key", ["padding", "window_strides"])
def test_a_convolution_that_reads_its_parameters_wrong_is_caught(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = composite_primitives.convolution

    def wrong(interpreter: Any, step: Any, values: Any) -> Any:
        params = {**step.params, key: tuple(reversed(step.params[key]))}
        return right(interpreter, step.like(step.name, step.inputs, step.outputs, **params), values)

    monkeypatch.setitem(composite_primitives.AS_FORMULAS, "conv_general_dilated", wrong)
    function = conv((2, 1), ((1, 0), (0, 1)))
    with pytest.raises((AssertionError, IndexError, ValueError)):
        check(function, IMAGE.astype(np.float64), KERNEL[:, :2].astype(np.float64))


def test_only_the_triangle_that_is_read_counts() -> None:
    def below(a: Any, c: Any) -> Any:
        return lax.linalg.eigh(jnp.tril(a) + jnp.triu(c, 1), symmetrize_input=False)[1]

    assert compared(lambda a, c: lax.linalg.eigh(a, symmetrize_input=False)[1], below, S, C) == "equal"
    assert compared(below, lambda a, c: below(a, c.T) + below(a, 2 * a) * 1e-3, S, C) == "different"


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


def test_a_scatter_that_forgets_equal_places_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = windows.of_scatter

    def first_only(step: Any, indices: Any) -> Any:
        targets, inside = right(step, indices)
        seen = np.unique(targets, return_index=True)[1]
        return targets, inside & np.isin(np.arange(targets.size).reshape(targets.shape), seen)

    assert "scatter-mul" in composite_primitives.AS_FORMULAS
    monkeypatch.setattr(windows, "of_scatter", first_only)
    with pytest.raises(AssertionError, match="output 0"):
        check(SCATTERS["scatter-mul"], X.astype(np.float64), Y.astype(np.float64))


def _dispatched(x: Any, at: Any, **options: Any) -> Any:
    """Rows in buffers of three, without those beyond, as at the capacity of an expert."""
    return jnp.sum(jnp.sin(jnp.zeros((3, x.shape[1]), x.dtype).at[at].set(x, **options) * 2))


@pytest.mark.parametrize("mode", ["drop", None])
def test_rows_that_a_scatter_drops_have_a_gradient(mode: str | None) -> None:
    """A rule of jax reads at the indices of what is dropped, and promises that they are in range."""
    x, at = np.arange(10.0).reshape(5, 2), np.array([0, 4, 2, 3, 1])
    check(jax.grad(lambda x: _dispatched(x, at, mode=mode)), x)


def test_a_promise_of_the_user_that_is_broken_is_undefined_still() -> None:
    x, at = np.arange(10.0).reshape(5, 2), np.array([0, 4, 2, 3, 1])
    with pytest.raises(BrokenPromise, match="although it is promised to be in range"):
        check(jax.grad(lambda x: _dispatched(x, at, mode="promise_in_bounds")), x)


def test_a_user_function_of_that_name_is_held_to_its_promise() -> None:
    def _scatter_jvp(x: Any) -> Any:
        return x.at[np.array([0, 9])].get(mode="promise_in_bounds")

    with pytest.raises(BrokenPromise, match="although it is promised to be in range"):
        check(_scatter_jvp, np.arange(4.0))
