"""Arguments with symbols for sizes, and what traced code sees of the mesh that they lie on."""

from collections.abc import Callable

import jax
import pytest
from jax import export
from jax.sharding import PartitionSpec

from samebits import Arg, Case, MeshSpec, Pair
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.family import Family, Shaped, SizeOf
from samebits.sizes.proofs.family_proof import PairProof
from samebits.sizes.proofs.pair_sizes import PairSizes
from samebits.sizes.proofs.tracing import OnMesh, jax_types, traced
from tests.sizes.proofs.size_faults import ON_LINE


def _flipped(x: jax.Array, right_up_to: int) -> jax.Array:
    """Flips each part and sends it across the mesh that the array lies on; a plain flip where there is none."""
    mesh = jax.typeof(x).sharding.mesh
    if mesh.empty or mesh.shape["ring"] == 1:
        return x[::-1]
    devices = mesh.shape["ring"]
    turned = min(devices, right_up_to)
    table = [(rank, turned - 1 - rank if rank < turned else rank) for rank in range(devices)]
    split = PartitionSpec("ring")

    def body(part: jax.Array) -> jax.Array:
        turned_round: jax.Array = jax.lax.ppermute(part[::-1], "ring", table)
        return turned_round

    result: jax.Array = jax.shard_map(body, mesh=mesh, in_specs=split, out_specs=split)(x)
    return result


SIDES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "right": lambda x: _flipped(x, 64),
    "wrong from five on": lambda x: _flipped(x, 4),
    "by size": lambda x: x[::-1] if jax.typeof(x).sharding.mesh.size <= 4 else x,
}


def _proof(name: str) -> PairProof:
    pair = Pair(
        name="flipped",
        reference=lambda x: x[::-1],
        variants={"side": SIDES[name]},
        args={"x": Arg(shape=("length",), spec=("ring",))},
        cases=(Case(id="small", sizes={"length": 8}, symbols={"length": "ring*part"}),),
        dtypes=("float32",),
        meshes=("ring2",),
        gradients=False,
    )
    point = PairPoint(pair, "side", pair.cases[0], "float32", "forward", platform="cpu")
    return PairSizes(most_devices=6).prove(point, MeshSpec.parse("ring2"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["wrong from five on", "by size"])
def test_a_fault_by_the_mesh_of_a_type_is_refuted(name: str) -> None:
    """It was proved for every number of devices: arguments lay on no mesh where sizes were symbols."""
    proof = _proof(name)
    (leaf,) = proof.leaves
    assert leaf.verdict == "different"
    assert proof.family(leaf).mesh in ("ring5", "ring6")


def test_an_exchange_on_the_mesh_of_a_type_is_proved() -> None:
    proof = _proof("right")
    (leaf,) = proof.leaves
    assert leaf.verdict == "proved"
    assert [shown.numbers for shown in proof.family(leaf).devices] == [(1, 2, 3, 4, 5, 6)]


def test_types_have_the_mesh_that_the_function_is_on() -> None:
    mesh = MeshSpec.parse("ring4").abstract("auto")
    sizes: list[int] = []

    def noting(x: jax.Array) -> jax.Array:
        sizes.append(jax.typeof(x).sharding.mesh.size)
        return x[::-1]

    for direction in ("forward", "gradient"):
        traced(OnMesh(noting, mesh), ON_LINE, direction)
    assert set(sizes) == {4}


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
