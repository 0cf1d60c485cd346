"""Digests of compiled programs that do not depend on names and order: are two programs the same?

Every instruction is hashed together with the hashes of what it takes, from the parameters up, so that names, numbers
and the order in which independent instructions are written down have no part in it. Left out are source locations, and
where in memory values lie. Everything else counts: opcodes, shapes, layouts, constants, every attribute that XLA
writes, those that this code does not name too, fusions, and how often a value is computed.

There are two digests. In the *ordered* one the operands of an addition keep their order; in the *unordered* one the
operands of commutative operations are sorted. Only the ordered one means the same bits: XLA:CPU compiles `a*b + c*d`
and `c*d + a*b` to different fused multiply-adds, and a third of their results differ in the last bit (jax 0.10.2); and
of two NaNs the first one's payload is kept. A GPU of NVIDIA makes one NaN of all (measured on an H100), so that there a
product has no order, and a sum has one only where both terms may be products, one of which is contracted with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from samebits.hlo.module import HloComputation, HloModule, Instruction, config, copy_of

COMMUTATIVE = ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
"""Operations whose operands are sorted in the unordered digest."""

_FLOATS = (10, 11, 16)
"""XLA's numbers of float16, float32 and bfloat16. Complex products are sums, and a float64 may be one of many NaNs."""

_MOVING = ("bitcast", "broadcast", "copy", "reshape", "slice", "transpose")
"""Operations that a product may go through before it is added."""

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
    """Return the digests of a module.

    Args:
        taken: which arguments of a function its parameters are, where two functions are distinguished.
        one_device: it runs on one device, where how arrays are split says nothing.
    """
    digests = [_Hasher(module, sort, one_device).whole(taken) for sort in (False, True)]
    return ProgramDigests(ordered=digests[0], unordered=digests[1])


def ordered_identity(module: HloModule, *, one_device: bool = False, cuda: bool = False) -> str:
    """Return the ordered digest of `identity` alone, in half of the time.

    With `cuda` it runs on a GPU of NVIDIA, where the order of some operands says nothing: XLA chooses it by the numbers
    that instructions happen to have.
    """
    return _Hasher(module, False, one_device, cuda).whole(())


def instruction_digests(
    module: HloModule, number: int, arguments: Mapping[int, bytes] | None = None
) -> dict[int, bytes]:
    """Return the ordered digest of each instruction of a computation, with all that its value is computed from.

    Without digests of `arguments`, by their numbers, each parameter is its own.
    """
    return _Hasher(module, sort=False, one_device=False).instructions(number, arguments)


def entry_arguments(module: HloModule, taken: tuple[int, ...]) -> dict[int, bytes]:
    """Digest the entry's parameters as arguments of the function, for `instruction_digests`.

    `taken` are the arguments that the parameters are; jit drops unused arguments and renumbers the others.
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
    """Return whether an instruction hands its operands on to the parameters of the one computation that it calls."""
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

    def __init__(self, module: HloModule, sort: bool, one_device: bool, cuda: bool = False) -> None:
        self.module = module
        self.sort = sort
        self.one_device = one_device
        self.cuda = cuda
        self.alone: dict[int, _Digest] = {}

    def whole(self, taken: tuple[int, ...]) -> str:
        return _hash(self.computation(self.module.entry, loaded=True), self.module.alias, repr(taken).encode()).hex()

    def computation(self, number: int, arguments: Mapping[int, _Digest] | None = None, loaded: bool = False) -> _Digest:
        """Digest a computation: its root and all that it computes, with its parameters numbered or standing for values.

        Parameters that are `loaded` are read from memory, so that an addition is contracted with none of them.
        """
        if arguments is None and number in self.alone:
            return self.alone[number]
        computation = self.module.computations[number]
        digests = self.instructions(number, arguments, loaded)
        # The list of all, not only the root: a value that is computed twice is another program, with the same bits.
        whole = _hash(digests[computation.root], *sorted(digests.values()))
        if arguments is None:
            self.alone[number] = whole
        return whole

    def instructions(
        self, number: int, arguments: Mapping[int, _Digest] | None = None, loaded: bool = False
    ) -> dict[int, _Digest]:
        """Return every instruction of a computation, by its id."""
        digests: dict[int, _Digest] = {}
        computation = self.module.computations[number]
        for inst in computation.instructions.values():
            if inst.opcode == "parameter" and arguments is not None:
                digests[inst.id] = arguments[inst.parameter_number]
                continue
            operands = [digests[operand] for operand in inst.operand_ids]
            if self.cuda and _has_no_order_on_cuda(inst, computation, loaded):
                operands = sorted(operands)
            kernel = inst.opcode == "fusion" and number == self.module.entry
            digests[inst.id] = self.instruction(inst, operands, kernel)
        return digests

    def instruction(self, inst: Instruction, operands: list[_Digest], kernel: bool) -> _Digest:
        called = inst.called_computation_ids
        if is_inline(self.module, inst):
            inner = [self.computation(called[0], dict(enumerate(operands)), loaded=kernel)]
            operands = sorted(operands)
        else:
            inner = [self.computation(number) for number in called]
            operands = sorted(operands) if self.sort and inst.opcode in COMMUTATIVE else operands
        return _hash(_attributes(inst, self.one_device), *inner, b"operands", *operands)


def _has_no_order_on_cuda(inst: Instruction, computation: HloComputation, loaded: bool) -> bool:
    """Return whether both orders of the operands have the same bits on a GPU of NVIDIA."""
    if inst.shape.element_type not in _FLOATS:
        return False
    if inst.opcode == "add":
        return sum(_may_be_product(operand, computation, loaded) for operand in computation.operands(inst)) < 2
    return bool(inst.opcode == "multiply")


def _may_be_product(inst: Instruction, computation: HloComputation, loaded: bool) -> bool:
    """Return whether a value may come out of a multiplication that an addition is contracted with."""
    while inst.opcode in _MOVING:
        (inst,) = computation.operands(inst)
    constant = inst.opcode in ("constant", "iota")
    return not constant and not (loaded and inst.opcode == "parameter")


def _attributes(inst: Instruction, one_device: bool) -> bytes:
    """Return everything that an instruction says of itself but names, numbers and addresses."""
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
