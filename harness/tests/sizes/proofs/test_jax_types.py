"""Arguments with symbols for sizes: their types, their static arguments, and what jax may conclude of their sizes."""

from jax import export

from samebits.sizes.proofs.family import Family, Shaped, SizeOf
from samebits.sizes.proofs.tracing import jax_types

FAMILY = Family(
    symbols={"cp": 2, "part": 1},
    args={"x": Shaped(("2*cp*part", 3)), "ids": Shaped(("part",), "int32")},
    statics={"cp": SizeOf("cp"), "window": 4},
)


def test_sizes_are_symbols_of_one_scope() -> None:
    (x, ids), statics = jax_types(FAMILY)
    assert [str(kind.dtype) for kind in (x, ids)] == ["float32", "int32"]
    assert str(x.shape[0]) == "2*cp*part" and x.shape[1] == 3
    assert statics["window"] == 4 and export.is_symbolic_dim(statics["cp"])
    assert x.shape[0] == 2 * statics["cp"] * ids.shape[0]


def test_what_sizes_are_at_least_is_known() -> None:
    (x, ids), statics = jax_types(FAMILY)
    assert statics["cp"] >= 2 and x.shape[0] >= ids.shape[0] and x.shape[0] >= 2 * statics["cp"]


def test_at_numbers_there_are_no_symbols() -> None:
    (x, ids), statics = jax_types(FAMILY.at({"cp": 4, "part": 5}))
    assert (x.shape, ids.shape, statics["cp"]) == ((40, 3), (5,), 4)
