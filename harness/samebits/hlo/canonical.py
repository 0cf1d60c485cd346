"""Digests of compiled programs that do not depend on names and order: are two programs the same?

Every instruction is hashed together with the hashes of what it takes, from the parameters up, so that names, numbers
and the order in which independent instructions are written down have no part in it. Left out are source locations, and
where in memory values lie. Everything else counts: opcodes, shapes, layouts, constants, every attribute that XLA
writes, those that this code does not know too, fusions, and how often a value is computed.

There are two digests. In the *ordered* one the operands of an addition keep their order; in the *unordered* one the
operands of commutative operations are sorted. Only the ordered one means the same bits: XLA:CPU compiles `a*b + c*d`
and `c*d + a*b` to different fused multiply-adds, and a third of their results differ in the last bit (jax 0.10.2); and
of two NaNs the first one's payload is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from samebits.hlo.module import HloModule, Instruction, config
from samebits.hlo.proto import copy_of

COMMUTATIVE = ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
"""Operations whose operands are sorted in the unordered digest."""

_INLINE = ("fusion", "call", "async-start", "call-start")
"""Operations that hand their operands on to the parameters of one computation: the order of those is a naming too."""

_NAMES = (
    "name",
    "metadata",
    "id",
    "operand_ids",
    "control_predecessor_ids",
    "called_computation_ids",
    "channel_id",
    "backend_config",
    "statistics",
    "original_value",
    "frontend_attributes",
)
"""Fields that name, number or place an instruction, or that are hashed apart."""

_ADDRESSES = ("scoped_memory_configs", "used_scoped_memory_configs", "aliasing_operands")
"""Parts of a TPU's configuration that say where values lie in memory: two equal programs may differ in them."""

_SHARDING_ATTRIBUTE = "xla.sdy.sharding"
"""How an argument is split over a mesh, as Shardy leaves it on parameters."""

_Digest = bytes


@dataclass(frozen=True, slots=True)
class ProgramDigests:
    """The two digests of a compiled program.

    Args:
        ordered: equal digests are the same bits, on the target that both were compiled for.
        unordered: the same up to the order of operands of commutative operations.
    """

    ordered: str
    unordered: str


def identity(module: HloModule, taken: tuple[int, ...] = (), *, one_device: bool = False) -> ProgramDigests:
    """The digests of a module.

    Args:
        module: compiled.
        taken: which arguments of a function its parameters are, where two functions are told apart.
        one_device: it runs on one device, where how arrays are split says nothing.
    """
    digests = [_Hasher(module, sort, one_device).whole(taken) for sort in (False, True)]
    return ProgramDigests(ordered=digests[0], unordered=digests[1])


def ordered_identity(module: HloModule, *, one_device: bool = False) -> str:
    """The ordered digest of `identity` alone, in half of the time."""
    return _Hasher(module, False, one_device).whole(())


def instruction_digests(
    module: HloModule, number: int, arguments: Mapping[int, bytes] | None = None
) -> dict[int, bytes]:
    """The ordered digest of each instruction of a computation, with all that its value is computed from.

    Args:
        module: compiled.
        number: of the computation.
        arguments: digests that the parameters stand for, by their numbers; without them each parameter is its own.
    """
    return _Hasher(module, sort=False, one_device=False).instructions(number, arguments)


def entry_arguments(module: HloModule, taken: tuple[int, ...]) -> dict[int, bytes]:
    """Digests of the entry's parameters as arguments of the function, for `instruction_digests`.

    Args:
        module: compiled.
        taken: which arguments of the function the parameters are; jit drops unused arguments and renumbers the others.
    """
    digests = {}
    for inst in module.computations[module.entry].instructions.values():
        if inst.opcode == "parameter":
            bare, place = copy_of(inst), inst.parameter_number
            bare.ClearField("parameter_number")
            argument = taken[place] if place < len(taken) else place
            digests[place] = _hash(_attributes(bare, one_device=False), repr(argument).encode())
    return digests


def is_inline(module: HloModule, instruction: Instruction) -> bool:
    """Whether an instruction hands its operands on to the parameters of the one computation that it calls."""
    called = instruction.called_computation_ids
    # Some compilers start an asynchronous call without operands, and hand them to its update.
    return (
        instruction.opcode in _INLINE
        and len(called) == 1
        and len(instruction.operand_ids) == _parameters(module, called[0])
    )


def _parameters(module: HloModule, number: int) -> int:
    return sum(inst.opcode == "parameter" for inst in module.computations[number].instructions.values())


class _Hasher:
    """One way of hashing one module."""

    def __init__(self, module: HloModule, sort: bool, one_device: bool) -> None:
        self.module = module
        self.sort = sort
        self.one_device = one_device
        self.alone: dict[int, _Digest] = {}

    def whole(self, taken: tuple[int, ...]) -> str:
        return _hash(self.computation(self.module.entry), self.module.alias, repr(taken).encode()).hex()

    def computation(self, number: int, arguments: Mapping[int, _Digest] | None = None) -> _Digest:
        """A computation: its root, and all that it computes, with its parameters numbered or standing for values."""
        if arguments is None and number in self.alone:
            return self.alone[number]
        computation = self.module.computations[number]
        digests = self.instructions(number, arguments)
        # The list of all, not only the root: a value that is computed twice is another program, with the same bits.
        whole = _hash(digests[computation.root], *sorted(digests.values()))
        if arguments is None:
            self.alone[number] = whole
        return whole

    def instructions(self, number: int, arguments: Mapping[int, _Digest] | None = None) -> dict[int, _Digest]:
        """Every instruction of a computation, by its id."""
        digests: dict[int, _Digest] = {}
        for inst in self.module.computations[number].instructions.values():
            digests[inst.id] = self.instruction(inst, [digests[operand] for operand in inst.operand_ids], arguments)
        return digests

    def instruction(
        self, inst: Instruction, operands: list[_Digest], arguments: Mapping[int, _Digest] | None
    ) -> _Digest:
        if inst.opcode == "parameter" and arguments is not None:
            return arguments[inst.parameter_number]
        called = inst.called_computation_ids
        if is_inline(self.module, inst):
            inner = [self.computation(called[0], dict(enumerate(operands)))]
            operands = sorted(operands)
        else:
            inner = [self.computation(number) for number in called]
            operands = sorted(operands) if self.sort and inst.opcode in COMMUTATIVE else operands
        return _hash(_attributes(inst, self.one_device), *inner, b"operands", *operands)


def _attributes(inst: Instruction, one_device: bool) -> bytes:
    """Everything that an instruction says of itself but names, numbers and addresses."""
    bare = copy_of(inst)
    for field in (*_NAMES, "sharding") if one_device else _NAMES:
        bare.ClearField(field)
    attributes = sorted(
        (entry.key, entry.value)
        for entry in inst.frontend_attributes.map
        if not (one_device and entry.key == _SHARDING_ATTRIBUTE)
    )
    said = {key: value for key, value in config(inst).items() if key not in _ADDRESSES}
    # A configuration that is not JSON, such as a kernel, counts byte for byte.
    opaque = b"" if said or config(inst) else inst.backend_config
    parts = (
        bare.SerializeToString(deterministic=True),
        json.dumps([attributes, inst.channel_id > 0, said], sort_keys=True).encode(),
        opaque,
    )
    return _hash(*parts)


def _hash(*parts: bytes) -> _Digest:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "little") + part)
    return state.digest()
