"""Kernels that use their memory wrongly, each with an honest twin: faults are named by kind, parameter and line."""

import functools
import inspect
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plgpu

from samebits.interpret.interpreter import Interpreter
from samebits.interpret.kernel_memory import FOLLOWED, kernel_memory, program_memory
from samebits.interpret.kernel_steps import EVALUATIONS, ITERATIONS, box_of
from samebits.interpret.oracle import Oracle

Array = Any
Program = Callable[..., Array]
X = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
ROWS = np.array([3, 0, 2, 1], np.int32)
BOTH = np.array([3, 0, 2, 4], np.int32)
OUT = jax.ShapeDtypeStruct((16, 16), jnp.float32)


def tpu(*semantics: Any) -> Any:
    return pltpu.CompilerParams(dimension_semantics=semantics)


def rows(size: int, place: Callable[..., Any]) -> pl.BlockSpec:
    return pl.BlockSpec((size, 16), place)


def by_step(size: int) -> pl.BlockSpec:
    return rows(size, lambda i: (i, 0))


def copy(x_ref: Any, out_ref: Any) -> None:
    out_ref[...] = x_ref[...]


def rowwise(kernel: Any, **options: Any) -> Program:
    """A kernel over blocks of four rows, but for what `options` say."""
    usual: dict[str, Any] = {"grid": (4,), "in_specs": [by_step(4)], "out_specs": by_step(4), "out_shape": OUT}
    return pl.pallas_call(kernel, **usual | options)


def prefetching(kernel: Any, taken: pl.BlockSpec, out: pl.BlockSpec | None = None, shape: Any = OUT) -> Program:
    """The same of a kernel with a prefetched operand."""
    out = out or rows(4, lambda i, _: (i, 0))
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(4,), in_specs=[taken], out_specs=out)
    return pl.pallas_call(kernel, grid_spec=grid, out_shape=shape)


# Blocks outside of their array.
def shifted(wrong: bool) -> Program:
    place = (lambda i: (i + 1, 0)) if wrong else (lambda i: (i, 0))  # here
    return rowwise(copy, in_specs=[rows(4, place)])


def too_many_steps(wrong: bool) -> Program:
    out = rows(4, lambda i: (i, 0))  # here
    return rowwise(copy, grid=(5 if wrong else 4,), in_specs=[rows(4, lambda i: (i % 4, 0))], out_specs=out)


def rows_prefetched(wrong: bool) -> Program:
    def kernel(rows_ref: Any, x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...]

    def place(i: Any, rows_ref: Any) -> tuple[Any, int]:  # here
        return rows_ref[i], 0

    return functools.partial(prefetching(kernel, rows(4, place)), BOTH if wrong else ROWS)


def element_windows(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[0:4, :]

    rows = pl.Element(8) if wrong else pl.Element(8, (8, 0))
    window = pl.BlockSpec((rows, pl.Element(16)), lambda i: (i * 4 + 8, 0))  # here
    return rowwise(kernel, in_specs=[window])


def beyond_its_block(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        def body(i: Any, total: Array) -> Array:
            return total + x_ref[pl.ds(i * 2, 2), :]  # here

        out_ref[...] = jax.lax.fori_loop(0, 3 if wrong else 2, body, jnp.zeros((2, 16)))

    return rowwise(kernel, out_specs=by_step(2), out_shape=jax.ShapeDtypeStruct((8, 16), jnp.float32))


# Places that no step writes.
def a_step_too_few(wrong: bool) -> Program:
    out = rows(4, lambda i: (i, 0))  # here
    return rowwise(copy, grid=(3 if wrong else 4,), out_specs=out)


def every_other_block(wrong: bool) -> Program:
    out = pl.BlockSpec((4, 8), (lambda i, j: (i, 0)) if wrong else (lambda i, j: (i, j)))  # here
    spec = pl.BlockSpec((4, 8), lambda i, j: (i, j))
    return pl.pallas_call(copy, grid=(4, 2), in_specs=[spec], out_specs=out, out_shape=OUT)


def second_output_forgotten(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any, sums_ref: Any) -> None:  # here
        out_ref[...] = x_ref[...]
        if not wrong:
            sums_ref[...] = x_ref[...].sum(-1, keepdims=True)

    sums = pl.BlockSpec((4, 1), lambda i: (i, 0)), jax.ShapeDtypeStruct((16, 1), jnp.float32)
    return rowwise(kernel, out_specs=[by_step(4), sums[0]], out_shape=[OUT, sums[1]])


def half_of_the_rows(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any) -> None:  # here
        for row in range(1 if wrong else 2):
            out_ref[row * 4 : row * 4 + 4, :] = x_ref[row * 4 : row * 4 + 4, :]

    return rowwise(kernel, grid=(2,), in_specs=[by_step(8)], out_specs=by_step(8))


def stored_in_no_last_step(wrong: bool) -> Program:
    """The steps of the second dimension add; the result is stored at the last, which is never reached."""

    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:  # here
        k = pl.program_id(1)

        @pl.when(k == 0)
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...]

        @pl.when(k == pl.num_programs(1) - (0 if wrong else 1))
        def _() -> None:
            out_ref[...] = sum_ref[...]

    return summing(kernel, (2, 4), None)


def summing(kernel: Any, grid: tuple[int, ...], params: Any) -> Program:
    """A kernel that adds blocks of four rows, with an accumulator; its last dimension is that of the sum."""
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=0,
        grid=grid,
        in_specs=[pl.BlockSpec((4, 8), lambda i, k: (k, i))],
        out_specs=pl.BlockSpec((4, 8), lambda i, k: (0, i)),
        scratch_shapes=[pltpu.VMEM((4, 8), jnp.float32)],
    )
    out = jax.ShapeDtypeStruct((4, 16), jnp.float32)
    return pl.pallas_call(kernel, grid_spec=spec, out_shape=out, compiler_params=params)


# Reads of what was never written.
def sum_without_a_start(wrong: bool, first: int = 0) -> Program:
    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        @pl.when(pl.program_id(1) == (1 if wrong else first))
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...]  # here
        out_ref[...] = sum_ref[...]

    return summing(kernel, (2, 4), None)


def output_as_accumulator(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        if not wrong:

            @pl.when(pl.program_id(0) == 0)
            def _() -> None:
                out_ref[...] = jnp.zeros_like(out_ref)

        out_ref[...] += x_ref[...]  # here

    out = jax.ShapeDtypeStruct((4, 16), jnp.float32)
    return rowwise(kernel, out_specs=rows(4, lambda i: (0, 0)), out_shape=out)


def start_within_another_start(wrong: bool) -> Program:
    """The accumulator starts where the row is even and the step the first: nested conditions."""

    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        i, k = pl.program_id(0), pl.program_id(1)

        @pl.when(k == 0)
        def _() -> None:
            @pl.when(i % 2 == 1 if wrong else i < 2)
            def _() -> None:
                sum_ref[...] = jnp.zeros_like(sum_ref)

        total = sum_ref[...] + x_ref[...]  # here
        sum_ref[...] = total
        out_ref[...] = total

    return summing(kernel, (2, 4), None)


def loop_reads_ahead(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        def scoped(rows_ref: Any) -> None:
            rows_ref[0:1, :] = x_ref[0:1, :]

            def body(row: Any, carry: None) -> None:
                after = row + 1
                before = rows_ref[pl.ds(after if wrong else row, 1), :]  # here
                rows_ref[pl.ds(after, 1), :] = before + x_ref[pl.ds(after, 1), :]

            jax.lax.fori_loop(0, 3, body, None)
            out_ref[...] = rows_ref[...]

        pl.run_scoped(scoped, pltpu.VMEM((4, 16), jnp.float32))

    return rowwise(kernel)


def a_part_is_started(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            sum_ref[0 : 2 if wrong else 4, :] = jnp.zeros((2 if wrong else 4, 8))

        pltpu.store(sum_ref, sum_ref[...] + x_ref[...])  # here
        out_ref[...] = sum_ref[...]

    return summing(kernel, (2, 4), None)


# Steps that may run at the same time.
def parallel_sum(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...]  # here
        out_ref[...] = sum_ref[...]

    return summing(kernel, (2, 4), tpu("parallel", "parallel" if wrong else "arbitrary"))


def one_block_for_all(wrong: bool) -> Program:
    out = rows(4, (lambda i: (i // 2, 0)) if wrong else (lambda i: (i, 0)))  # here
    shape = jax.ShapeDtypeStruct((8 if wrong else 16, 16), jnp.float32)
    return rowwise(copy, out_specs=out, out_shape=shape, compiler_params=tpu("parallel"))


def started_once_for_all(wrong: bool) -> Program:
    """The accumulator starts at the very first step, which another core may run."""

    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        i, k = pl.program_id(0), pl.program_id(1)

        @pl.when((k == 0) & (i == 0) if wrong else k == 0)
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        out_ref[...] = sum_ref[...] + x_ref[...]  # here

    return summing(kernel, (2, 4), tpu("parallel", "arbitrary"))


def gpu_rows(wrong: bool) -> Program:
    """Each program of a GPU writes five or four rows of an output that is one block."""

    def kernel(x_ref: Any, out_ref: Any) -> None:
        begin = jnp.minimum(pl.program_id(0) * 4, 12 - wrong)
        out_ref[pl.ds(begin, 4 + wrong), :] = x_ref[pl.ds(begin, 4 + wrong), :]

    def place(i: Any) -> tuple[int, int]:  # here
        return 0, 0

    whole = pl.BlockSpec((16, 16), place)
    return rowwise(kernel, in_specs=[whole], out_specs=whole, compiler_params=plgpu.CompilerParams(num_warps=4))


def gpu_block(wrong: bool) -> Program:
    out = rows(4, (lambda i: (0, 0)) if wrong else (lambda i: (i, 0)))  # here
    shape = jax.ShapeDtypeStruct((4 if wrong else 16, 16), jnp.float32)
    return rowwise(copy, out_specs=out, out_shape=shape, compiler_params=plgpu.CompilerParams())


def mosaic_block(wrong: bool) -> Program:
    """Mosaic GPU runs all dimensions at once that are not said to be sequential; a TPU those that are said to be."""
    params = mosaic_gpu.CompilerParams() if wrong else mosaic_gpu.CompilerParams(dimension_semantics=("sequential",))
    out, shape = rows(4, lambda i: (0, 0)), jax.ShapeDtypeStruct((4, 16), jnp.float32)  # here
    return pl.pallas_call(
        copy, grid=(4,), in_specs=[by_step(4)], out_specs=out, out_shape=shape, compiler_params=params
    )


def tpu_block(wrong: bool) -> Program:
    params = {"compiler_params": tpu("parallel")} if wrong else {}
    out, shape = rows(4, lambda i: (0, 0)), jax.ShapeDtypeStruct((4, 16), jnp.float32)  # here
    return pl.pallas_call(copy, grid=(4,), in_specs=[by_step(4)], out_specs=out, out_shape=shape, **params)


def in_place(wrong: bool) -> Program:
    """The memory of the argument is that of the output, and steps read the block of the next one, or their own."""
    taken = rows(4, (lambda i: (3 - i, 0)) if wrong else (lambda i: (i, 0)))
    out = rows(4, lambda i: (i, 0))  # here
    aliases = {0: 0}
    return rowwise(copy, in_specs=[taken], out_specs=out, compiler_params=tpu("parallel"), input_output_aliases=aliases)


# Writes into arguments.
def scaled_in_place(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        (x_ref if wrong else out_ref)[...] = x_ref[...] * 2.0  # here
        if wrong:
            out_ref[...] = x_ref[...]

    return rowwise(kernel)


def added_to_an_argument(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...]
        into = x_ref if wrong else out_ref

        def body(row: Any, carry: None) -> None:
            into[pl.ds(row, 1), :] += 1.0  # here

        jax.lax.fori_loop(0, 4, body, None)

    return rowwise(kernel)


def masked_store(wrong: bool) -> Program:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...]
        mask = x_ref[...] > 0
        plgpu.store(x_ref if wrong else out_ref, jnp.zeros((4, 16)), mask=mask)  # here

    return rowwise(kernel, compiler_params=plgpu.CompilerParams(num_warps=4))


def second_argument(wrong: bool) -> Program:
    """The first of two arguments is also the output; the second one is not."""

    def kernel(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
        @pl.when(x_ref[0, 0] > 0)
        def _() -> None:
            (y_ref if wrong else x_ref)[...] = jnp.zeros((4, 16))  # here

        out_ref[...] = x_ref[...] + y_ref[...]

    call = rowwise(kernel, in_specs=[by_step(4)] * 2, input_output_aliases={0: 0})
    return lambda x: call(x, x)


FAULTS: dict[str, tuple[tuple[Callable[[bool], Program], str], ...]] = {
    "outside": (
        (shifted, "the block of 'x_ref' at step (3,) begins at [16, 0], outside of [16, 16]"),
        (too_many_steps, "the block of 'out_ref' at step (4,) begins at [16, 0], outside of [16, 16]"),
        (rows_prefetched, "the block of 'x_ref' at step (3,) begins at [16, 0], outside of [16, 16]"),
        (element_windows, "the block of 'x_ref' at step (2,) begins at [16, 0], outside of [16, 16]"),
        (beyond_its_block, "at step (0,), 'x_ref'[4:6, 0:16] lies outside of its block of [4, 16]"),
    ),
    "never written": (
        (a_step_too_few, "no step of the grid writes 'out_ref'[12:16, 0:16], whose shape is [16, 16]"),
        (every_other_block, "no step of the grid writes 'out_ref'[0:4, 8:16], whose shape is [16, 16]"),
        (second_output_forgotten, "nothing is ever stored to 'sums_ref'"),
        (half_of_the_rows, "no step writes [4:8, 0:16] of the block of 'out_ref' at step (0,)"),
        (stored_in_no_last_step, "nothing is ever stored to 'out_ref'"),
    ),
    "unwritten read": (
        (sum_without_a_start, "'sum_ref' is read at step (0, 0), before anything is written there"),
        (output_as_accumulator, "'out_ref' is read at step (0,), before anything is written there"),
        (start_within_another_start, "'sum_ref' is read at step (0, 0), before anything is written there"),
        (loop_reads_ahead, "'rows_ref' is read at step (0,), before anything is written there"),
        (a_part_is_started, "'sum_ref' is read at step (0, 0), before all of it is written there"),
    ),
    "race": (
        (parallel_sum, "'sum_ref' is read at step (0, 1), where only steps that may run at the same time wrote to it"),
        (
            one_block_for_all,
            "step (0,) and step (1,), which may run at the same time, write the same place of 'out_ref'",
        ),
        (started_once_for_all, "'sum_ref' is read at step (1, 0), where only steps that may run at the same time"),
        (gpu_rows, "step (0,) and step (1,), which may run at the same time, write the same place"),
        (gpu_block, "step (0,) and step (1,), which may run at the same time, write the same place"),
        (mosaic_block, "step (0,) and step (1,), which may run at the same time, write the same place"),
        (tpu_block, "step (0,) and step (1,), which may run at the same time, write the same place"),
        (in_place, "step (0,) reads a place of 'x_ref', which is the memory of 'out_ref', that step (3,) writes"),
    ),
    "writes into an argument": (
        (scaled_in_place, "the kernel writes into its argument 'x_ref'"),
        (added_to_an_argument, "the kernel writes into its argument 'x_ref'"),
        (masked_store, "the kernel writes into its argument 'x_ref'"),
        (second_argument, "the kernel writes into its argument 'y_ref'"),
    ),
}
"""By kind: kernels that do it or do not, and the words for it."""

EACH = [(kind, *fault) for kind, faults in FAULTS.items() for fault in faults]


def seen(program: Program) -> Any:
    return program_memory(jax.make_jaxpr(program)(X))


@pytest.mark.parametrize(("kind", "build", "text"), EACH, ids=[build.__name__ for _, build, _ in EACH])
def test_a_fault_is_named_and_its_twin_has_none(kind: str, build: Callable[[bool], Program], text: str) -> None:
    faults = [fault for fault in seen(build(True)).faults if fault.kind == kind]
    fault = next((fault for fault in faults if fault.text.startswith(text)), None)
    assert fault is not None, faults
    name, _, line = fault.place.rpartition(":")
    assert name == f"interpret/{Path(__file__).name}"
    assert "# here" in linecache.getline(__file__, int(line)), fault.place
    honest = seen(build(False))
    assert honest.faults == ()
    assert honest.unseen == ()


# What is honest, in other ways.
def conditional_start(x: Array) -> Array:
    """The accumulator starts where a value says so, which may be at the first step."""

    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        @pl.when(x_ref[0, 0] > 0)
        def _() -> None:
            sum_ref[...] = jnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...]
        out_ref[...] = sum_ref[...]

    return summing(kernel, (2, 4), None)(x)


def chosen_start(x: Array) -> Array:
    """What was never written is read at the first step, and not taken."""

    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        before = jnp.where(pl.program_id(1) == 0, 0.0, sum_ref[...])
        sum_ref[...] = before + x_ref[...]
        out_ref[...] = sum_ref[...]

    return summing(kernel, (2, 4), None)(x)


def read_at_a_value(x: Array) -> Array:
    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        out_ref[...] = x_ref[...]

        @pl.when(x_ref[0, 0] > 0)
        def _() -> None:
            out_ref[...] = sum_ref[...]

    return summing(kernel, (2, 4), None)(x)


def taken_at_a_value(x: Array) -> Array:
    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        out_ref[...] = jnp.where(x_ref[...] > 0, sum_ref[...], x_ref[...])

    return summing(kernel, (2, 4), None)(x)


def first_column(x: Array) -> Array:
    """Of a scratch only the first column is used."""

    def kernel(x_ref: Any, out_ref: Any, sum_ref: Any) -> None:
        sum_ref[:, 0:1] = x_ref[...].sum(-1, keepdims=True)
        out_ref[...] = x_ref[...] / sum_ref[...][:, :1]

    return summing(kernel, (2, 1), None)(x[:4])


def rows_that_a_value_chooses(x: Array) -> Array:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = jnp.zeros_like(out_ref)
        row = (x_ref[0, 0] > 0).astype(jnp.int32)
        out_ref[pl.ds(row, 1), :] = x_ref[pl.ds(row, 1), :]

    return rowwise(kernel)(x)


def a_block_that_sticks_out(x: Array) -> Array:
    return rowwise(copy, out_shape=jax.ShapeDtypeStruct((14, 16), jnp.float32))(x[:14])


def partly_stored_at_the_end(x: Array) -> Array:
    """Of the last block only the rows that the array has are stored."""

    def kernel(x_ref: Any, out_ref: Any) -> None:
        @pl.when(pl.program_id(0) < 3)
        def _() -> None:
            out_ref[...] = x_ref[...]

        @pl.when(pl.program_id(0) == 3)
        def _() -> None:
            out_ref[0:2, :] = x_ref[0:2, :]

    return rowwise(kernel, out_shape=jax.ShapeDtypeStruct((14, 16), jnp.float32))(x[:14])


def long_loop(x: Array) -> Array:
    """More iterations than are evaluated one by one."""

    def kernel(x_ref: Any, out_ref: Any) -> None:
        def body(row: Any, carry: None) -> None:
            out_ref[pl.ds(row, 1), :] = x_ref[pl.ds(row % 16, 1), :]

        jax.lax.fori_loop(0, 100, body, None)

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((100, 16), jnp.float32))(x)


def output_as_scratch(x: Array) -> Array:
    """Of two outputs one is a scratch of every core, and dropped."""

    def kernel(x_ref: Any, out_ref: Any, scratch_ref: Any) -> None:
        scratch_ref[...] = x_ref[...]
        out_ref[...] = scratch_ref[...]

    shapes, specs = [OUT, jax.ShapeDtypeStruct((4, 16), jnp.float32)], [by_step(4), rows(4, lambda i: (0, 0))]
    return rowwise(kernel, out_specs=specs, out_shape=shapes, compiler_params=tpu("parallel"))(x)[0]


def state_in_scalars(x: Array) -> Array:
    def kernel(state_ref: Any, x_ref: Any, out_ref: Any) -> None:
        state_ref[0] += 1
        out_ref[...] = x_ref[...] * state_ref[0]

    return prefetching(kernel, rows(4, lambda i, _: (i, 0)))(jnp.zeros(1, jnp.int32), x)


def batched(x: Array) -> Array:
    """A dimension of the grid is that of a `vmap`, and has no number in the kernel."""
    return jax.vmap(stored_in_no_last_step(False))(jnp.stack([x, 2 * x]))


HONEST = (
    *(conditional_start, chosen_start, read_at_a_value, taken_at_a_value, first_column, rows_that_a_value_chooses),
    *(a_block_that_sticks_out, partly_stored_at_the_end, long_loop, output_as_scratch, state_in_scalars),
    batched,
)


@pytest.mark.parametrize("program", HONEST, ids=[program.__name__ for program in HONEST])
def test_what_some_values_make_right_has_no_fault(program: Program) -> None:
    memory = seen(program)
    assert memory.faults == ()
    assert memory.unseen == () == memory.unknown


def kernels_of_jax() -> dict[str, tuple[Program, tuple[Any, ...]]]:
    """By name, a program with kernels, and what it is called with: gradients, but of `paged` and `grouped`.

    Masks and pages that are prefetched, state in scalars, outputs as scratch, a grid of a size that is computed.
    """
    from jax.experimental.pallas.ops.gpu import layer_norm, rms_norm
    from jax.experimental.pallas.ops.gpu.attention import mha
    from jax.experimental.pallas.ops.tpu import flash_attention
    from jax.experimental.pallas.ops.tpu.megablox import gmm
    from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel, splash_attention_mask

    def gradient(function: Program, *arrays: Any) -> tuple[Program, tuple[Any, ...]]:
        return jax.grad(lambda *args: function(*args).sum(), argnums=range(len(arrays))), arrays

    sizes = dict.fromkeys(inspect.signature(flash_attention.BlockSizes).parameters, 128) | {"block_b": 1}
    flash = functools.partial(flash_attention.flash_attention, block_sizes=flash_attention.BlockSizes(**sizes))
    heads, rows, scale, queries = map(jnp.zeros, ((1, 1, 256, 128), (2, 4, 16), 16, (2, 512, 128)))
    causal = splash_attention_mask.MultiHeadMask([splash_attention_mask.CausalMask((512, 512))] * 2)
    splash = splash_attention_kernel.make_splash_mha(mask=causal, head_shards=1, q_seq_shards=1)
    table = jnp.full(4, 64, jnp.int32), jnp.arange(64, dtype=jnp.int32).reshape(4, 16)
    pages, groups = jnp.zeros((8, 64, 16, 128)), jnp.array([100, 156, 0, 256], jnp.int32)
    paged = functools.partial(paged_attention, pages_per_compute_block=4)
    return {
        "flash": gradient(flash, heads, heads, heads),
        "causal flash": gradient(functools.partial(flash, causal=True), heads, heads, heads),
        "rms_norm": gradient(lambda x, w: rms_norm.rms_norm(x, w, jnp.zeros_like(w)), rows, scale),
        "layer_norm": gradient(layer_norm.layer_norm, rows, scale, scale),
        "splash": gradient(lambda q: splash(q, q, q), queries),
        "paged": (paged, (jnp.zeros((4, 8, 128)), pages, pages, *table)),
        "grouped": (gmm, (jnp.zeros((512, 256)), jnp.zeros((4, 256, 256)), groups)),
        "attention": gradient(
            lambda q: mha(q, q, q, segment_ids=None, causal=True), jnp.zeros((2, 256, 4, 64), jnp.float16)
        ),
    }


@pytest.mark.filterwarnings("ignore:.*tokamax:DeprecationWarning")
@pytest.mark.parametrize(
    "name", ["flash", "causal flash", "rms_norm", "layer_norm", "splash", "paged", "grouped", "attention"]
)
def test_kernels_of_jax_have_no_fault(name: str) -> None:
    function, arrays = kernels_of_jax()[name]
    program = jax.make_jaxpr(function)(*arrays)
    assert str(program).count("pallas_call") >= (1 if name in ("paged", "grouped") else 2)
    memory = program_memory(program)
    assert memory.faults == () == memory.unseen
    if name == "grouped":
        assert memory.unknown == ("kernel: the size of the grid is not known",)
        (value,) = Interpreter(Oracle(), "tpu")(program, *map(np.asarray, arrays))
        assert value.shape == (512, 256)
    elif name not in ("splash", "paged", "attention"):
        assert memory.unknown == ()


# Where kernels are, and what is known of them.
def test_kernels_are_looked_at_wherever_they_are() -> None:
    kernel = scaled_in_place(True)

    @jax.custom_vjp
    def rule(x: Array) -> Array:
        return kernel(x)

    rule.defvjp(lambda x: (kernel(x), None), lambda _, g: (kernel(g),))
    places: dict[str, Program] = {
        "jit": jax.jit(kernel),
        "scan": lambda x: jax.lax.scan(lambda carry, _: (kernel(carry), None), x, length=2)[0],
        "cond": lambda x: jax.lax.cond(x[0, 0] > 0, kernel, lambda x: x, x),
        "custom_vjp": rule,
        "its gradient": jax.grad(lambda x: rule(x).sum()),
        "remat": jax.checkpoint(lambda x: kernel(x)),
        "shard_map": lambda x: jax.shard_map(
            kernel, mesh=jax.make_mesh((1,), ("a",)), in_specs=jax.P(), out_specs=jax.P(), check_vma=False
        )(x),
    }
    for name, program in places.items():
        assert {fault.kind for fault in seen(program).faults} == {"writes into an argument"}, name


def test_prefetched_scalars_count_where_they_are_known() -> None:
    call = rows_prefetched(True).func  # type: ignore[attr-defined]
    program = jax.make_jaxpr(call)(BOTH, X)
    (eqn,) = [eqn for eqn in jax.make_jaxpr(call.__wrapped__)(BOTH, X).eqns if eqn.primitive.name == "pallas_call"]
    assert kernel_memory(eqn).faults == ()
    assert kernel_memory(eqn).unknown == ("kernel: which blocks of 'x_ref' are taken depends on what is not known",)
    assert program_memory(program).faults == ()
    (fault,) = kernel_memory(eqn, [BOTH, None]).faults
    assert (fault.kind, fault.ref, fault.steps) == ("outside", "x_ref", ((3,),))
    assert kernel_memory(eqn, [ROWS, None]).faults == ()


def test_scalars_of_eight_bits_are_widened() -> None:
    """Splash attention prefetches its tables so; 2 * 100 is beyond them."""

    def kernel(table_ref: Any, x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[table_ref[pl.program_id(0)].astype(jnp.int32) * 100 // 100]

    out = pl.BlockSpec((None, 16), lambda i, table: (i, 0)), jax.ShapeDtypeStruct((4, 16), jnp.float32)
    call = prefetching(kernel, rows(4, lambda i, table: (0, 0)), *out)
    (eqn,) = jax.make_jaxpr(call)(ROWS.astype(np.int8), X[:4]).eqns
    assert kernel_memory(eqn, [ROWS.astype(np.int8), None]).faults == ()
    (fault,) = kernel_memory(eqn, [BOTH.astype(np.int8), None]).faults
    assert (fault.kind, fault.steps) == ("outside", ((3,),))


def test_a_large_grid_is_bounded_and_says_so() -> None:
    def program(x: Array) -> Array:
        out = jax.ShapeDtypeStruct((16, 1 << 20), jnp.float32)
        spec = pl.BlockSpec((16, 16), lambda i: (0, 0))
        return pl.pallas_call(
            copy, grid=(1 << 16,), in_specs=[spec], out_specs=pl.BlockSpec((16, 16), lambda i: (0, i)), out_shape=out
        )(x)

    memory = seen(program)
    assert memory.faults == ()
    assert memory.unseen == (f"copy: only {FOLLOWED} of 65536 steps were evaluated",)


def test_a_long_body_is_bounded_and_says_so() -> None:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        def body(row: Any, number: Array) -> Array:
            out_ref[pl.ds(row, 1), :] = x_ref[pl.ds(row, 1), :]
            return number + pl.program_id(0)

        jax.lax.fori_loop(0, ITERATIONS, body, jnp.int32(0))

    block, steps = rows(ITERATIONS, lambda i: (i, 0)), EVALUATIONS // ITERATIONS // 2
    shape = jax.ShapeDtypeStruct((ITERATIONS * steps, 16), jnp.float32)
    call = pl.pallas_call(kernel, grid=(steps,), in_specs=[block], out_specs=block, out_shape=shape)
    memory = program_memory(jax.make_jaxpr(call)(shape))
    assert memory.faults == ()
    assert "steps were evaluated" in memory.unseen[0]


def test_indices_after_each_other_are_one_part() -> None:
    def kernel(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref.at[pl.ds(4, 8)].at[2:4, 8:][...]

    shape = jax.ShapeDtypeStruct((2, 8), jnp.float32)
    eqn = jax.make_jaxpr(pl.pallas_call(kernel, out_shape=shape).__wrapped__)(X).eqns[0]  # type: ignore[attr-defined]
    get = next(each for each in eqn.params["jaxpr"].eqns if each.primitive.name == "get")
    assert box_of((16, 16), get.params["tree"].unflatten(get.invars[1:])) == ((6, 8), (8, 16))


def test_a_fault_of_a_gradient_is_at_a_line_of_the_kernel() -> None:
    def kernel(x_ref: Any, out_ref: Any) -> None:  # here
        x_ref[...] = 2 * x_ref[...]  # here
        out_ref[...] = x_ref[...]

    @jax.custom_vjp
    def rule(x: Array) -> Array:
        return pl.pallas_call(kernel, out_shape=OUT)(x)

    rule.defvjp(lambda x: (rule(x), None), lambda _, g: (pl.pallas_call(kernel, out_shape=OUT)(g),))
    (fault,) = seen(jax.grad(lambda x: rule(x).sum())).faults
    assert "# here" in linecache.getline(__file__, int(fault.place.rpartition(":")[2])), fault


def test_a_form_that_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    eqn = jax.make_jaxpr(shifted(True).__wrapped__)(X).eqns[0]  # type: ignore[attr-defined]
    other = eqn.replace(params={name: value for name, value in eqn.params.items() if name != "jaxpr"})
    (text,) = kernel_memory(other).unseen
    assert text.startswith("the memory of pallas_call(float32[16, 16])")
