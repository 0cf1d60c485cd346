"""Copies, scopes, views and prefetched operands of kernels: what no time of a copy changes is proved, and only that."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import samebits
from samebits.errors import NotCovered
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.kernels import folded, without_references
from samebits.interpret.oracle import Oracle

Array = Any
X = np.random.default_rng(0).standard_normal((4, 8, 16)).astype(np.float32)
ANY = pl.BlockSpec(memory_space=pl.ANY)
FLOATS = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)


def buffered(x: Array, fault: str = "") -> Array:
    """Twice each block, which is copied while the one before is read."""

    def kernel(x_ref: Any, out_ref: Any, buffers: Any, semaphores: Any) -> None:
        def copy(number: Any, ahead: int = 0) -> Any:
            slot = 0 if fault == "one buffer" else number % 2
            block = number + (ahead if fault == "another block" else 0)
            return pltpu.make_async_copy(x_ref.at[block % 4], buffers.at[slot], semaphores.at[slot])

        copy(0).start()

        def step(number: Any, carry: None) -> None:
            @pl.when(number < 3)
            def _() -> None:
                copy(number + 1, ahead=1).start()

            slot = 0 if fault == "one buffer" else number % 2
            if fault == "read early":
                out_ref[number] = 2 * buffers[slot]
            if fault != "no wait":
                copy(number).wait()
            if fault != "read early":
                out_ref[number] = 2 * buffers[slot]

        jax.lax.fori_loop(0, 4, step, None)

    scratch = [pltpu.VMEM((2, 8, 16), jnp.float32), pltpu.SemaphoreType.DMA((2,))]
    return pl.pallas_call(kernel, out_shape=FLOATS(x.shape), in_specs=[ANY], scratch_shapes=scratch)(x)


def written_while_copied(x: Array) -> Array:
    def kernel(x_ref: Any, out_ref: Any, buffer: Any, semaphore: Any) -> None:
        buffer[...] = x_ref[...]
        copy = pltpu.make_async_copy(buffer, out_ref, semaphore)
        copy.start()
        buffer[...] = 0 * x_ref[...]
        copy.wait()

    scratch = [pltpu.VMEM(x.shape, jnp.float32), pltpu.SemaphoreType.DMA]
    return pl.pallas_call(kernel, out_shape=FLOATS(x.shape), scratch_shapes=scratch)(x)


def waited_elsewhere(x: Array) -> Array:
    def kernel(x_ref: Any, out_ref: Any, semaphores: Any) -> None:
        pltpu.make_async_copy(x_ref, out_ref, semaphores.at[0]).start()
        pltpu.make_async_copy(x_ref, out_ref, semaphores.at[1]).wait()

    return pl.pallas_call(kernel, out_shape=FLOATS(x.shape), scratch_shapes=[pltpu.SemaphoreType.DMA((2,))])(x)


def scoped(x: Array, written: bool = True) -> Array:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        def body(total: Any) -> None:
            if written:
                total[...] = jnp.zeros((8, 16))
            for number in range(4):
                total[...] += x_ref[number]
            out_ref[...] = total[...]

        pl.run_scoped(body, pltpu.VMEM((8, 16), jnp.float32))

    return pl.pallas_call(kernel, out_shape=FLOATS((8, 16)))(x)


def views(x: Array, rows: int = 5) -> Array:
    """The first rows of each block, by stores with a mask into a view of a view."""

    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = jnp.zeros_like(out_ref)
        mask = jax.lax.broadcasted_iota(jnp.int32, (8, 8), 0) < rows
        for number in range(4):
            part = out_ref.at[number].at[:, 8:]
            pltpu.store(part, pltpu.load(x_ref.at[number].at[:, 8:]), mask=mask)

    return pl.pallas_call(kernel, out_shape=FLOATS(x.shape))(x)


def counted(x: Array, kept: bool = True, by_operand: bool = False) -> Array:
    """The blocks one after the other, by a count that the steps of the grid keep in an operand."""

    def kernel(count_ref: Any, x_ref: Any, out_ref: Any) -> None:
        out_ref[0] = x_ref[count_ref[0]]
        if kept:
            count_ref[0] = count_ref[0] + 1

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((4, 8, 16), lambda i, count: (count[0] if by_operand else 0, 0, 0))],
        out_specs=pl.BlockSpec((1, 8, 16), lambda i, count: (i, 0, 0)),
    )
    return pl.pallas_call(kernel, out_shape=FLOATS(x.shape), grid_spec=grid)(jnp.zeros(1, jnp.int32), x)


def numbered(x: Array, where: str, ahead: int = 0) -> Array:
    """Each block times its number, for which the kernel asks within something."""

    def kernel(x_ref: Any, out_ref: Any) -> None:
        def times(rows: Array) -> Array:
            return rows * (pl.program_id(0) + ahead * pl.num_programs(0)).astype(jnp.float32)

        if where == "a condition":
            pl.when(pl.program_id(0) >= 0)(lambda: out_ref.__setitem__(..., times(x_ref[...])))
        elif where == "a loop":
            pl.loop(0, 8)(lambda row: out_ref.__setitem__((0, row), times(x_ref[0, row])))
        elif where == "a loop without an end":
            out_ref[...] = jax.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, times(c[1])), (0, x_ref[...]))[1]
        else:
            out_ref[...] = jax.jit(times)(x_ref[...])

    block = pl.BlockSpec((1, 8, 16), lambda i: (i, 0, 0))
    return pl.pallas_call(kernel, out_shape=FLOATS(x.shape), grid=(4,), in_specs=[block], out_specs=block)(x)


PLACES = ("a condition", "a loop", "a loop without an end", "a call")


def halves(x: Array) -> Array:
    return jnp.where((np.arange(8) < 5)[:, None] & (np.arange(16) >= 8), x, 0)


HONEST: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "buffered": (lambda x: 2 * x, buffered),
    "scoped": (lambda x: x.sum(0), scoped),
    "views": (halves, views),
    "counted": (lambda x: x, counted),
    **{
        where: (lambda x: x * np.arange(4, dtype=np.float32)[:, None, None], functools.partial(numbered, where=where))
        for where in PLACES
    },
}
FAULTS: dict[str, tuple[str, Callable[..., Array], str]] = {
    **{
        name: ("buffered", functools.partial(buffered, fault=name), "when a copy is done")
        for name in ("read early", "no wait", "one buffer", "another block")
    },
    **{
        f"another number in {where}": (where, functools.partial(numbered, where=where, ahead=1), "") for where in PLACES
    },
    "a source that is written": ("counted", written_while_copied, "when a copy is done"),
    "another semaphore": ("counted", waited_elsewhere, "when a copy is done"),
    "a scope that holds something": ("scoped", functools.partial(scoped, written=False), "before anything is written"),
    "a row more": ("views", functools.partial(views, rows=6), ""),
    "a count that is lost": ("counted", functools.partial(counted, kept=False), ""),
    "a count that places blocks": (
        "counted",
        functools.partial(counted, by_operand=True),
        "a prefetched operand is written",
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_no_time_of_a_copy_changes_is_proved(name: str) -> None:
    plain, kernel = HONEST[name]
    shown = samebits.prove(plain, kernel, X, gradients=False)
    assert shown.ok, shown
    (value,) = Interpreter(Oracle(), "cpu")(jax.make_jaxpr(kernel)(X), X)
    assert np.allclose(value, plain(X), rtol=1e-5)


@pytest.mark.parametrize("name", FAULTS)
def test_what_may_come_out_otherwise_is_not_proved(name: str) -> None:
    case, kernel, reason = FAULTS[name]
    shown = samebits.prove(HONEST[case][0], kernel, X, gradients=False)
    assert not shown.ok and shown.verdict in ("different", "error"), shown
    assert reason in str(shown)


def test_a_count_that_is_written_is_not_its_first_value() -> None:
    """The second step is the first to read outside, if the count were still zero there."""

    def kernel(count_ref: Any, x_ref: Any, out_ref: Any) -> None:
        out_ref[0] = x_ref[jnp.where(count_ref[0] == pl.program_id(0), count_ref[0], 9)]
        count_ref[0] = count_ref[0] + 1

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((4, 8, 16), lambda i, count: (0, 0, 0))],
        out_specs=pl.BlockSpec((1, 8, 16), lambda i, count: (i, 0, 0)),
    )
    call = pl.pallas_call(kernel, out_shape=FLOATS(X.shape), grid_spec=grid)
    assert samebits.prove(lambda x: x, lambda x: call(jnp.zeros(1, jnp.int32), x), X, gradients=False).ok


def test_indices_are_evaluated_once() -> None:
    eqn = jax.make_jaxpr(views)(X).eqns[0]
    (body,) = [each.params["body_jaxpr"] for each in without_references(eqn).eqns if each.primitive.name == "while"]
    seen = [
        (each.primitive.name, *map(str, each.invars))
        for each in body.eqns
        if each.primitive.name in ("add", "lt", "mul", "select_n", "sub") and not each.outvars[0].aval.shape
    ]
    assert len(seen) == len(set(seen)) and not [each for each in seen if not any("Var" in text for text in each[1:])]


@pytest.mark.parametrize("place", [-2, 3])
def test_literals_give_what_jax_computes(place: int) -> None:
    def program() -> list[Array]:
        at, size = jnp.int32(place), jnp.int32(8)
        return [at + size, at - size, at * size, at < 0, jax.lax.select_n(at < 0, at, at + size)]

    out = folded(jax.make_jaxpr(program)().jaxpr).outvars
    assert [getattr(var, "val", None) for var in out] == [int(each) for each in program()]


def test_the_rules_of_jax_are_put_back() -> None:
    from jax._src.pallas import hlo_interpreter, primitives
    from jax._src.state import discharge

    theirs = discharge._discharge_rules[primitives.swap_p], hlo_interpreter.kernel_to_hlo_jaxpr
    with pytest.raises(NotCovered):
        without_references(jax.make_jaxpr(lambda x: counted(x, by_operand=True))(X).eqns[-1])
    assert theirs == (discharge._discharge_rules[primitives.swap_p], hlo_interpreter.kernel_to_hlo_jaxpr)
