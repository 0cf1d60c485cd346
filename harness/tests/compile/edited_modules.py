"""Edits of one instruction of a compiled module, such as no compiler makes, and the names that are right for each."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from samebits.hlo.module import parse_module


def listed(inst: Any, name: str, *values: Any) -> None:
    inst.ClearField(name)
    getattr(inst, name).extend(values)


def swapped(inst: Any, first: int, second: int) -> None:
    order = [*inst.operand_ids]
    order[first], order[second] = order[second], order[first]
    listed(inst, "operand_ids", *order)


def renamed(opcode: str) -> Callable[[Any, Any], None]:
    def change(inst: Any, _: Any) -> None:
        inst.opcode = opcode

    return change


def dropped(inst: Any, _: Any) -> None:
    inst.opcode = "copy"
    listed(inst, "operand_ids", inst.operand_ids[0])
    inst.ClearField("called_computation_ids")


def regrouped(inst: Any, _: Any) -> None:
    """Make groups of neighbours of the first and the last half, whatever the groups were."""
    size = len(inst.replica_groups[0].replica_ids) if inst.replica_groups else 0
    for name in ("replica_groups", "devices", "iota_groups", "mesh_groups"):
        inst.ClearField(name)
    rows = ((0, 1, 2, 3), (4, 5, 6, 7)) if size != 4 else ((0, 2, 4, 6), (1, 3, 5, 7))
    for row in rows:
        inst.replica_groups.add(replica_ids=row)


def other_targets(inst: Any, _: Any) -> None:
    first, second = inst.source_target_pairs[:2]
    first.target, second.target = second.target, first.target


def shifted(inst: Any, _: Any) -> None:
    part = next((part for part in inst.slices if part.start > 0), None)
    if part is not None:
        part.start, part.limit = part.start - 1, part.limit - 1


def turned(inst: Any, _: Any) -> None:
    inst.comparison_direction = {"GE": "LE", "LE": "GE", "GT": "LT", "LT": "GT", "EQ": "NE", "NE": "EQ"}[
        inst.comparison_direction
    ]


def other_constant(inst: Any, _: Any) -> None:
    for name in ("f32s", "s32s"):
        values = [*getattr(inst.literal, name)]
        if values:
            listed(inst.literal, name, *(value + 1 for value in values))


def other_dimension(inst: Any, _: Any) -> None:
    sizes, dims = [*inst.shape.dimensions], [*inst.dimensions]
    same = [dim for dim in range(len(sizes)) if dims and sizes[dim] == sizes[dims[0]] and dim not in dims]
    if same:
        listed(inst, "dimensions", same[0], *dims[1:])


def same_shapes(inst: Any, operands: Any) -> tuple[int, int] | None:
    """Two operands of one shape that are not the same."""
    for second in range(len(operands)):
        for first in range(second):
            alike = operands[first].shape == operands[second].shape
            if alike and operands[first].id != operands[second].id:
                return first, second
    return None


def other_operands(inst: Any, operands: Any) -> None:
    places = same_shapes(inst, operands)
    if places is not None:
        swapped(inst, *places)


def other_cases(inst: Any, _: Any) -> None:
    swapped(inst, 1, 2)


EDITS: dict[str, dict[str, Callable[[Any, Any], None]]] = {
    "dropped": {"all-reduce": dropped, "dynamic-update-slice": dropped, "all-to-all": dropped, "negate": dropped},
    "regrouped": {"all-reduce": regrouped, "all-gather": regrouped},
    "other targets": {"collective-permute-start": other_targets, "collective-permute": other_targets},
    "shifted": {"slice": shifted},
    "other operands": dict.fromkeys(
        ("subtract", "divide", "fusion", "dynamic-slice", "convolution", "clamp", "concatenate"), other_operands
    ),
    "other cases": {"select": other_cases},
    "turned": {"compare": turned},
    "other constant": {"constant": other_constant},
    "other dimension": {"iota": other_dimension, "broadcast": other_dimension},
    "other operation": {
        "add": renamed("subtract"), "multiply": renamed("add"), "maximum": renamed("minimum"),
        "exponential": renamed("tanh"), "sine": renamed("cosine"), "tanh": renamed("sine"),
        "rsqrt": renamed("tanh"), "partition-id": renamed("replica-id"), "subtract": renamed("add"),
    },
}  # fmt: skip
"""By kind of edit, what it does to an instruction of an opcode with its operands."""


class EditedModule(NamedTuple):
    """A module with one instruction changed, and the names of instructions that are right to name for it."""

    kind: str
    instruction: str
    serialised: bytes
    right: frozenset[str]


def edited(serialised: bytes) -> Iterator[EditedModule]:
    """Every edit of a module that there is, one instruction at a time."""
    for kind, by_opcode in EDITS.items():
        for place in range(len(parse_module(serialised).computations)):
            count = len(parse_module(serialised).computations[place].instructions)
            for number in range(count):
                module = parse_module(serialised)
                computation = module.computations[place]
                inst = computation.instructions[number]
                if inst.opcode in by_opcode:
                    before, known = inst.SerializeToString(), {each.id: each for each in computation.instructions}
                    by_opcode[inst.opcode](inst, [known[operand] for operand in inst.operand_ids])
                    if inst.SerializeToString() != before:
                        yield EditedModule(kind, inst.name, module.SerializeToString(), frozenset(right(module, inst)))


def right(module: Any, inst: Any) -> set[str]:
    """The instruction; of a constant also who takes it, of a combiner who reduces by it, of a fusion what is in it."""
    by_id = {computation.id: computation for computation in module.computations}
    home = next(c for c in module.computations if any(each.id == inst.id for each in c.instructions))
    names = {inst.name}
    if inst.opcode == "constant":
        names |= {user.name for user in _users(module, home, inst)}
    if inst.opcode == "fusion":
        names |= _inside(by_id, inst)
    for computation in module.computations:
        for caller in computation.instructions:
            if home.id in caller.called_computation_ids and caller.opcode not in ("fusion", "call", "while"):
                names.add(caller.name)
    return names


def _inside(by_id: Any, inst: Any) -> set[str]:
    called = [each for number in inst.called_computation_ids for each in by_id[number].instructions]
    return {each.name for each in called}.union(*(_inside(by_id, each) for each in called))


def _users(module: Any, home: Any, inst: Any) -> Iterator[Any]:
    """Who takes an instruction, in what it calls too."""
    by_id = {computation.id: computation for computation in module.computations}
    for user in home.instructions:
        if inst.id in user.operand_ids:
            yield user
            if user.opcode == "fusion":
                place = [*user.operand_ids].index(inst.id)
                for number in user.called_computation_ids:
                    inner = by_id[number]
                    parameter = next(
                        each
                        for each in inner.instructions
                        if each.opcode == "parameter" and each.parameter_number == place
                    )
                    yield from _users(module, inner, parameter)
