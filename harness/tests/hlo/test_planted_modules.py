"""Modules with a planted fault: their translation computes something else, or says which instruction is the matter."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from samebits.hlo.as_jax import FILLERS, PartitionProgram
from samebits.hlo.module import HloModule, copy_of, parse_module
from samebits.hlo.steps import Untranslated
from tests.hlo.execution import Compiled, compiled
from tests.hlo.test_collectives import mesh

AB = P("a", "b")
X = np.arange(32 * 16, dtype=np.int32).reshape(32, 16) ** 2 % 101 - 50
Edit = Callable[[Any], None]


def every(module: Any, opcode: str) -> Iterator[Any]:
    """All instructions of an opcode, in whichever computation."""
    for computation in module.computations:
        yield from (inst for inst in computation.instructions if inst.opcode == opcode)


def first(module: Any, opcode: str) -> Any:
    return next(every(module, opcode))


def changed(opcode: str, change: Callable[[Any], None]) -> Edit:
    """Change the first instruction of an opcode."""
    return lambda module: change(first(module, opcode))


def fields(**values: Any) -> Callable[[Any], None]:
    def change(inst: Any) -> None:
        for name, value in values.items():
            setattr(inst, name, value)

    return change


def listed(name: str, *values: Any) -> Callable[[Any], None]:
    def change(inst: Any) -> None:
        inst.ClearField(name)
        getattr(inst, name).extend(values)

    return change


def swapped(*order: int) -> Callable[[Any], None]:
    return lambda inst: listed("operand_ids", *(inst.operand_ids[at] for at in order))(inst)


def dropped(inst: Any) -> None:
    """Return the operand as it is."""
    inst.opcode = "copy"


def regrouped(inst: Any) -> None:
    """Make groups of neighbours, whatever the groups were."""
    for name in ("replica_groups", "devices", "iota_groups", "mesh_groups"):
        inst.ClearField(name)
    for start in range(0, 8, 2):
        inst.replica_groups.add(replica_ids=[start, start + 1])


def other_pair(inst: Any) -> None:
    inst.source_target_pairs[0].target, inst.source_target_pairs[1].target = (
        inst.source_target_pairs[1].target,
        inst.source_target_pairs[0].target,
    )


def negated(module: Any) -> None:
    """Turn the comparison around that a select takes."""
    for inst in every(module, "compare"):
        inst.comparison_direction = "LE" if inst.comparison_direction == "GT" else inst.comparison_direction


def narrower(module: Any) -> None:
    """Have a convert return a type that is too narrow, and convert back."""
    for computation in module.computations:
        for place, inst in enumerate(computation.instructions):
            if inst.opcode == "convert" and inst.shape.element_type == 11:
                wide, narrow = copy_of(inst), 16
                inst.shape.element_type = narrow
                wide.id, wide.name = max(i.id for c in module.computations for i in c.instructions) + 1, "planted"
                listed("operand_ids", inst.id)(wide)
                for other in computation.instructions:
                    listed("operand_ids", *(wide.id if o == inst.id else o for o in other.operand_ids))(other)
                computation.root_id = wide.id if computation.root_id == inst.id else computation.root_id
                computation.instructions.insert(place + 1, wide)
                return
    raise AssertionError


def on_partitions(body: Callable[..., Any]) -> Compiled:
    on = mesh("in order")
    function = jax.shard_map(body, mesh=on, in_specs=AB, out_specs=AB, check_vma=False)
    return compiled(function, X, specs=[AB], mesh=on)


def _shift(part: Any) -> None:
    part.start, part.limit = part.start + 1, part.limit + 1


def _constant(inst: Any, value: int) -> None:
    listed("s32s", *(value for _ in inst.literal.s32s))(inst.literal)


def _turn(padding: Any) -> None:
    part = padding.dimensions[0]
    part.low, part.high = part.high, part.low


def _shorter(module: Any) -> None:
    for inst in every(module, "constant"):
        if list(inst.literal.s32s) == [5]:
            _constant(inst, 4)


def _looks_back(inst: Any) -> None:
    for part in inst.window.dimensions:
        part.low, part.high = part.high, part.low


class Fault(NamedTuple):
    """A fault that is planted in the module of a function, on one device or on each of eight."""

    function: Callable[..., Any]
    edit: Edit
    partitions: bool = False


def swap_permuted(x: Any) -> Any:
    return lax.ppermute(x, "b", [(i, (i + 1) % 4) for i in range(4)])


def updated(x: Any) -> Any:
    i = x[0, 0] & 3
    return lax.dynamic_update_slice(lax.dynamic_update_slice(x, x[:2, :2] * 2, (i, i)), x[4:6, 4:6], (i + 1, i))


def scatter_rows(x: Any) -> Any:
    return x.at[x[:, 0] & 7].set(x)


FAULTS: dict[str, Fault] = {
    "a dropped all-reduce": Fault(lambda x: lax.psum(x, "b"), changed("all-reduce", dropped), True),
    "wrong groups": Fault(lambda x: lax.psum(x, "a"), changed("all-reduce", regrouped), True),
    "a wrong pair": Fault(swap_permuted, changed("collective-permute", other_pair), True),
    "the other side of an all-gather": Fault(
        lambda x: lax.all_gather(x, "a", tiled=True), changed("all-gather", listed("dimensions", 1)), True
    ),
    "a maximum for a sum": Fault(lambda x: lax.psum(x, "a"), changed("add", fields(opcode="maximum")), True),
    "another partition": Fault(
        lambda x: x * (lax.axis_index("a") + 1), changed("partition-id", fields(opcode="replica-id")), True
    ),
    "a shifted start": Fault(lambda x: x[3:20], changed("slice", lambda inst: _shift(inst.slices[0]))),
    "starts that are swapped": Fault(
        lambda x: lax.dynamic_slice(x, (x[1, 1] & 7, x[2, 2] & 3), (4, 5)), changed("dynamic-slice", swapped(0, 2, 1))
    ),
    "swapped operands of a difference": Fault(lambda x: x - x[::-1], changed("subtract", swapped(1, 0))),
    "a negated predicate": Fault(lambda x: jnp.where(x > 3, x, x * 2), negated),
    "the other case of a select": Fault(lambda x: jnp.where(x > 3, x, x * 2), changed("select", swapped(0, 2, 1))),
    "another dimension of a reduction": Fault(lambda x: jnp.max(x[:16], 0), changed("reduce", listed("dimensions", 1))),
    "another direction": Fault(lambda x: x < x.T[:1, :1], changed("compare", fields(comparison_direction="GE"))),
    "another constant": Fault(lambda x: x * 7, changed("constant", lambda inst: _constant(inst, 9))),
    "another dimension of a gather": Fault(
        lambda x: x[:16][x[:, 0] & 7, x[:, 1] & 7],
        changed("gather", lambda inst: listed("start_index_map", 1, 0)(inst.gather)),
    ),
    "what a pad writes": Fault(lambda x: jnp.pad(x, 1), changed("constant", lambda inst: _constant(inst, 9))),
    "how far a pad reaches": Fault(lambda x: jnp.pad(x, ((2, 1), (0, 0))), changed("pad", lambda i: _turn(i.padding))),
    "another dimension of an iota": Fault(
        lambda x: x[:16] * lax.broadcasted_iota(np.int32, (16, 16), 0), changed("iota", listed("dimensions", 1))
    ),
    "an update that overwrites another": Fault(updated, changed("dynamic-update-slice", swapped(0, 1, 2, 2))),
    "a narrower type": Fault(lambda x: (x * 1001).astype(jnp.float32), narrower),
    "a sum of scattered rows": Fault(lambda x: x.at[x[:, 0] & 7].add(x), changed("add", fields(opcode="maximum"))),
    "a loop that ends early": Fault(lambda x: lax.fori_loop(0, 5, lambda i, c: c * 2 + i, x), _shorter),
    "branches that are swapped": Fault(
        lambda x: lax.cond(x[0, 0] > 0, lambda x: x.sum(0), lambda x: x.max(0), x),
        changed("conditional", lambda i: listed("called_computation_ids", *reversed(i.called_computation_ids))(i)),
    ),
    "another axis of a sort": Fault(lambda x: jnp.sort(x[:16], 0), changed("sort", listed("dimensions", 1))),
    "an order that is turned": Fault(lambda x: jnp.sort(x, 0), changed("compare", fields(comparison_direction="GT"))),
    "a product of other sides": Fault(
        lambda x: x[:16] @ x[16:], changed("dot", lambda inst: listed("lhs_contracting", 0)(inst.dot))
    ),
    "a transposition that is left out": Fault(
        lambda x: jnp.transpose(x[:16]) * 3 + x[:16], changed("transpose", listed("dimensions", 0, 1))
    ),
    "a window that looks the other way": Fault(
        lambda x: lax.cumsum(x, 0)[:, :3], changed("reduce-window", _looks_back)
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_changes_what_is_computed(name: str) -> None:
    function, edit, partitions = FAULTS[name]
    program = on_partitions(function) if partitions else compiled(function, X)
    assert program.differences(program.translated()) == []
    module = parse_module(program.serialised)
    edit(module)
    assert program.differences(program.translated(module.SerializeToString())) != []


def outputs(program: Compiled, module: Any, filler: float) -> tuple[Any, set[str]]:
    """What an edited module of one device returns, and which of its instructions read what nothing wrote."""
    run = PartitionProgram(HloModule(module.SerializeToString()), [1], filler)
    (result,) = run.on_all(*program.arguments)
    return np.asarray(result), run.unwritten


def _allocated(module: Any) -> Any:
    inst = first(module, "iota")
    inst.opcode, inst.custom_call_target = "custom-call", "AllocateBuffer"
    return inst


def _tiled(module: Any) -> Any:
    """Have the parameter lie in tiles, which its cast does not know."""
    for inst in every(module, "parameter"):
        inst.shape.layout.tiles.add(dimensions=[8, 128])
    return first(module, "bitcast")


UNWRITTEN: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "a buffer": (lambda x: x + lax.broadcasted_iota(np.int32, (32, 16), 0), _allocated),
    "the padding of a tile": (lambda x: x.reshape(-1), _tiled),
}


@pytest.mark.parametrize("name", UNWRITTEN)
def test_memory_that_nothing_wrote_is_named(name: str) -> None:
    function, edit = UNWRITTEN[name]
    program = compiled(function, X)
    module = parse_module(program.serialised)
    assert outputs(program, module, FILLERS[1])[1] == set()
    inst = edit(module)
    (low, named), (high, again) = (outputs(program, module, filler) for filler in FILLERS)
    assert named == again == {inst.name}
    assert not np.array_equal(low, high)


REFUSED: dict[str, tuple[Edit, str]] = {
    "an unknown opcode": (changed("sine", fields(opcode="sinus")), "opcode 'sinus' has no meaning here"),
    "another type": (changed("sine", lambda i: fields(element_type=8)(i.shape)), "it returns float32, and uint32 is"),
    "a type that jax has not": (changed("sine", lambda i: fields(element_type=30)(i.shape)), "element type 30 has no"),
    "sizes that do not fit": (changed("broadcast", listed("dimensions", 0)), "'broadcast' cannot be done"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_that_makes_no_sense_is_refused(name: str) -> None:
    edit, why = REFUSED[name]
    program = compiled(lambda x: jnp.sin(x * 3.5) + 1, X)
    module = parse_module(program.serialised)
    edit(module)
    with pytest.raises(Untranslated, match=rf"instruction '[\w.-]+': {why}"):
        program.translated(module.SerializeToString())


def test_what_a_later_xla_says_besides_is_refused() -> None:
    program = compiled(lambda x: jnp.sin(x), X)
    module = parse_module(program.serialised)
    first(module, "sine").MergeFromString(b"\xb2\x09\x04TURN")  # field 150
    with pytest.raises(Untranslated, match=r"instruction '[\w.-]+': this XLA says something of it in field 150"):
        program.translated(module.SerializeToString())


def test_groups_of_several_sizes_are_refused() -> None:
    program = on_partitions(lambda x: lax.psum(x, "a"))
    module = parse_module(program.serialised)
    inst = first(module, "all-reduce")
    regrouped(inst)
    inst.replica_groups.add(replica_ids=[0])
    with pytest.raises(Untranslated, match="are not groups of one size of 8 partitions"):
        program.translated(module.SerializeToString())
