"""Faults in grouped matrix products: rows of other groups, rows that belong to none, gradients of empty groups."""

from __future__ import annotations

from samebits import Direction, Fault, Request


def _fault(
    name: str,
    old: str,
    new: str,
    direction: Direction = "forward",
    side: str = "ragged_dot",
    slow: bool = True,
    verdict: str = "different",
) -> Fault:
    cases = {
        "ragged_dot": ("uneven", "float32"),
        "short_tiling": ("nine", "float32"),
        "megablox": ("tiles", "bfloat16"),
    }
    where = cases[side]
    request = Request(cases=where[:1], dtypes=where[1:], modes=("auto",), directions=(direction,))
    # The kernels are a declaration of their own, which the default check leaves out.
    pair = "suites.test_grouped_matmul:TILES" if side == "megablox" else "grouped_matmul"
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request, slow=slow, verdict=verdict)


FAULTS = (
    _fault(
        "groups one row late",
        "lax.ragged_dot(_counted(rows, sizes), kernels, sizes,",
        "lax.ragged_dot(jnp.roll(_counted(rows, sizes), 1, 0), kernels, sizes,",
        slow=False,
    ),
    _fault(
        "kernels of the next expert",
        "lax.ragged_dot(_counted(rows, sizes), kernels,",
        "lax.ragged_dot(_counted(rows, sizes), jnp.roll(kernels, 1, 0),",
        slow=False,
    ),
    _fault(
        "rows beyond the groups given to the last",
        "out = lax.ragged_dot(_counted(rows, sizes), kernels, sizes, preferred_element_type=wide)\n"
        "        return _counted(out, sizes).astype(rows.dtype)",
        "sizes = sizes.at[-1].add(rows.shape[0] - sizes.sum())\n"
        "        out = lax.ragged_dot(rows, kernels, sizes, preferred_element_type=wide)\n"
        "        return out.astype(rows.dtype)",
        slow=False,
    ),
    _fault(
        "added up in bfloat16",
        "return _counted(out, sizes).astype(rows.dtype)",
        "return lax.reduce_precision(_counted(out, sizes), 8, 7).astype(rows.dtype)",
        slow=False,
    ),
    _fault(
        "every shard takes the sizes of all",
        "ends = jnp.clip(jnp.cumsum(sizes) - first, 0, rows)",
        "ends = jnp.clip(jnp.cumsum(sizes), 0, rows)",
        side="megablox",
    ),
    _fault(
        "unwritten rows returned",
        "return _counted(_gmm(_counted(rows, sizes), kernels, sizes, tiles[:3], rows.dtype), sizes)",
        "return _gmm(_counted(rows, sizes), kernels, sizes, tiles[:3], rows.dtype)",
        side="megablox",
    ),
    _fault(
        "gradient of kernels not added up over shards",
        "lax.psum(to_kernels, _known(ROWS))",
        "to_kernels",
        direction="gradient",
        side="megablox",
    ),
    _fault(
        "gradient of rows from some columns",
        "to_rows = lax.psum(_counted(to_rows, sizes), _known(COLUMNS))",
        "to_rows = _counted(to_rows, sizes)",
        direction="gradient",
        side="megablox",
    ),
    _fault(
        "an empty group's gradient is not 0",
        "        return to_rows.astype(rows.dtype), lax.psum(to_kernels",
        "        to_kernels = to_kernels + jnp.where(sizes == 0, 1e-3, 0)[:, None, None]\n"
        "        return to_rows.astype(rows.dtype), lax.psum(to_kernels",
        direction="gradient",
        side="megablox",
    ),
    _fault(
        # What is left of nine numbers when a caller gives three and the way back slices nine: see the suite.
        "three tiles where the way back takes nine",
        "_tiled(tiling if len(tiling) == 9 else tiling * 3, ",
        "_tiled(tiling, ",
        direction="gradient",
        side="megablox",
        verdict="error",
    ),
    _fault(
        "three experts for three tiles",
        "return ragged_dot(rows, kernels, sizes, tiling=tiling[:3])",
        "return ragged_dot(rows, kernels, sizes.at[3:].set(0), tiling=tiling[:3])",
        side="short_tiling",
    ),
    _fault(
        "groups rounded down to whole tiles",
        "return ragged_dot(rows, kernels, sizes, tiling=tiling[:3])",
        "return ragged_dot(rows, kernels, sizes // tiling[-1] * tiling[-1], tiling=tiling[:3])",
        side="short_tiling",
    ),
    _fault(
        "rows multiplied in bfloat16",
        "lax.ragged_dot(_counted(rows, sizes), kernels, sizes,",
        "lax.ragged_dot(lax.reduce_precision(_counted(rows, sizes), 8, 7), kernels, sizes,",
        direction="gradient",
    ),
    _fault(
        "sizes of the previous expert",
        "lax.ragged_dot(_counted(rows, sizes), kernels, sizes,",
        "lax.ragged_dot(_counted(rows, sizes), kernels, jnp.roll(sizes, 1),",
        direction="gradient",
    ),
    _fault(
        "a row of the last group left out",
        "out = lax.ragged_dot(_counted(rows, sizes)",
        "out = lax.ragged_dot(_counted(rows, sizes.at[-1].add(-1))",
        direction="gradient",
    ),
)
