"""Arrays that span processes: placed piece by piece, and fetched whole where the pieces differ from what is expected.

Each process compares the pieces that it holds with the same part of an expected array, which it computed itself. Where
all processes have those bits, the whole array is known without being sent. Where one has not, the pieces are exchanged,
so that every process judges the same whole array and comes to the same witness.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import numpy as np

from samebits.check.execution import Fetched, run_program
from samebits.cluster.process_group import ProcessGroup
from samebits.errors import CouldNotRun
from samebits.numerics.bits import Comparison, Leaf, compare_leaf, same_bits
from samebits.programs.host_trees import HostTree, named_leaves, to_host
from samebits.programs.placement import Index, device_number, on_host
from samebits.programs.program_cache import Program
from samebits.schema.contract import Direction
from samebits.user_errors import one_line

Array = Any
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """What one device holds of an array.

    Args:
        index: which part.
        device: its id.
        digest: of the bytes.
        expected: it has the bits of the same part of what is expected; False where nothing is.
    """

    index: Index
    device: int
    digest: str
    expected: bool


@dataclass(slots=True)
class _Own:
    """The pieces of one array that this process holds, and their arrays by device."""

    pieces: list[Piece] = field(default_factory=list)
    arrays: dict[int, Array] = field(default_factory=dict)


def spans(mesh: Any) -> bool:
    """Return whether a mesh has devices of other processes."""
    if not isinstance(mesh, jax.sharding.Mesh):
        return False
    return any(device.process_index != jax.process_index() for device in mesh.devices.flat)


def fetch(
    group: ProcessGroup, label: str, outputs: Mapping[str, Any], expected: Mapping[str, Array]
) -> tuple[dict[str, Array], list[Comparison]]:
    """Return arrays as a whole, in every process, and the copies of a piece that differ between devices.

    Args:
        group: the processes that hold them.
        label: of the program, in messages.
        outputs: by path; they span the processes.
        expected: by path, what each process has itself; may lack some.

    Raises:
        CouldNotRun: the processes have outputs of other names, shapes or dtypes.
        FailedElsewhere: another process left the point.
        RunEnded: a process does not come.
    """
    own = {path: _own(value, expected.get(path)) for path, value in outputs.items()}
    kinds = {path: _kind(value, own[path]) for path, value in outputs.items()}
    everywhere = group.agree(f"{label} compared", {path: (kinds[path], parts.pieces) for path, parts in own.items()})
    _require_one_kind(label, [{path: kind for path, (kind, _) in there.items()} for there in everywhere])
    by_path = {path: [piece for there in everywhere for piece in there[path][1]] for path in outputs}
    wanted = {path: _wanted(pieces) for path, pieces in by_path.items()}
    sent: dict[tuple[str, int], Array] = {}
    if any(wanted.values()):
        mine = {
            (path, device): own[path].arrays[device]
            for path, devices in wanted.items()
            for device in devices
            if device in own[path].arrays
        }
        for arrays in group.share(f"{label} gathered", mine):
            sent |= arrays
    whole = {}
    for path, value in outputs.items():
        if _as_expected(by_path[path]):
            whole[path] = expected[path]
        else:
            whole[path] = _assembled(value, by_path[path], {d: a for (p, d), a in sent.items() if p == path})
    replicas = [comparison for path, pieces in by_path.items() for comparison in _diverging(path, pieces, sent)]
    return whole, replicas


def called_together(
    group: ProcessGroup, program: Program, call: tuple[Any, ...], direction: Direction, like: HostTree | None
) -> Fetched:
    """Run a program; where its mesh spans processes, only if all have it compiled, and up to a time limit.

    Args:
        group: the processes.
        program: what runs.
        call: its arguments; of arrays that span processes, each has its part.
        direction: of the point.
        like: what to expect; None where nothing is known.

    Raises:
        CouldNotRun: it does not compile, here or in another process.
        RunEnded: a process does not come, or does not come out of it.
    """
    mesh = program.setup.mesh
    if spans(mesh):
        agreed(group, f"{program.label} compiled", program.result)
    outputs = in_step(group, mesh, program.label, lambda: run_program(program, call))
    if not spans(mesh):
        return Fetched(outputs, to_host(outputs, program, direction))
    leaves = {
        path: value
        for path, value in named_leaves(outputs, direction).items()
        if not getattr(value, "is_fully_addressable", True)
    }
    expected = {} if like is None else {path: leaf.array for path, leaf in like.leaves.items()}
    fetched, replicas = fetch(group, program.label, leaves, expected)
    return Fetched(outputs, to_host(outputs, program, direction, fetched), replicas)


def fetched_tree(group: ProcessGroup, label: str, tree: Any) -> Any:
    """Return a tree of arrays on the host, whole, also where they span processes."""
    leaves = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    spanning = {path: leaf for path, leaf in leaves.items() if not getattr(leaf, "is_fully_addressable", True)}
    whole: dict[str, Array] = {}
    if spanning:
        whole, replicas = fetch(group, label, spanning, {})
        if replicas:
            raise CouldNotRun(f"{label}: copies of one array differ between devices: {replicas[0].path}")
    arrays = [whole[path] if path in whole else on_host(leaf) for path, leaf in leaves.items()]
    return jax.tree.unflatten(jax.tree.structure(tree), arrays)


def in_step(group: ProcessGroup, mesh: Any, label: str, call: Callable[[], Value]) -> Value:
    """Run a program; where its mesh spans processes, all run it, each up to a time limit.

    Raises:
        FailedElsewhere: it failed in another process.
        RunEnded: a process does not come, or does not come out of it.
    """
    if not spans(mesh):
        return group.watched(label, call)
    return agreed(group, f"{label} ran", lambda: group.watched(f"{label} running", call))


def agreed(group: ProcessGroup, name: str, call: Callable[[], Value]) -> Value:
    """Do something that all processes do, and go on only where all could; its own error is raised here.

    Raises:
        FailedElsewhere: another process could not.
        RunEnded: a process does not come.
    """
    try:
        value = call()
    except Exception as error:
        group.agree(name, failed=one_line(error))
        raise
    group.agree(name)
    return value


def _own(value: Any, expected: Array | None) -> _Own:
    own = _Own()
    for shard in value.addressable_shards:
        array = on_host(shard.data)
        like = expected is not None and (expected.shape, expected.dtype) == (value.shape, array.dtype)
        own.arrays[shard.device.id] = array
        own.pieces.append(
            Piece(
                index=tuple(part.indices(size)[:2] for part, size in zip(shard.index, value.shape, strict=True)),
                device=shard.device.id,
                digest=hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
                expected=like and same_bits(array, expected[shard.index]),  # type: ignore[index]
            )
        )
    return own


def _kind(value: Any, own: _Own) -> str:
    """Dtype and shape as they are here, such as `bfloat16[8,16]`; what the pieces really have, not what is traced."""
    dtypes = sorted({array.dtype.name for array in own.arrays.values()} or {value.dtype.name})
    return f"{' and '.join(dtypes)}[{','.join(map(str, value.shape))}]"


def _require_one_kind(label: str, everywhere: Sequence[Mapping[str, str]]) -> None:
    """Reject programs whose outputs are other arrays in another process: their pieces make up no array."""
    first = everywhere[0]
    for number, there in enumerate(everywhere):
        for path in sorted({*first, *there}):
            if first.get(path) != there.get(path):
                raise CouldNotRun(
                    f"{label}: '{path}' is {there.get(path, 'missing')} in process {number} and "
                    f"{first.get(path, 'missing')} in process 0"
                )


def _as_expected(pieces: list[Piece]) -> bool:
    """Return whether the first copy of every part has the expected bits; other copies are compared as replicas."""
    return all(piece.expected for piece in _first(pieces).values())


def _first(pieces: list[Piece]) -> dict[Index, Piece]:
    first: dict[Index, Piece] = {}
    for piece in pieces:
        first.setdefault(piece.index, piece)
    return first


def _wanted(pieces: list[Piece]) -> set[int]:
    """Return the devices whose pieces all processes need: all parts where one is unexpected, and copies that differ."""
    first = _first(pieces)
    wanted = set() if _as_expected(pieces) else {piece.device for piece in first.values()}
    for piece in pieces:
        if piece.digest != first[piece.index].digest:
            wanted |= {piece.device, first[piece.index].device}
    return wanted


def _assembled(value: Any, pieces: list[Piece], sent: Mapping[int, Array]) -> Array:
    first = _first(pieces)
    whole = np.empty(value.shape, next(iter(sent.values())).dtype)
    there = np.zeros(value.shape, bool)
    for index, piece in first.items():
        part = tuple(slice(start, stop) for start, stop in index)
        whole[part], there[part] = sent[piece.device], True
    if not there.all():
        raise CouldNotRun(f"no device holds {there.size - int(there.sum())} of {there.size} elements of an output")
    return whole


def _diverging(path: str, pieces: list[Piece], sent: Mapping[tuple[str, int], Array]) -> list[Comparison]:
    first = _first(pieces)
    numbers = {device.id: device_number(device) for device in jax.devices()}
    comparisons = [
        compare_leaf(
            f"{path} (replica on device {numbers[piece.device]})",
            Leaf.of(sent[path, first[piece.index].device]),
            Leaf.of(sent[path, piece.device]),
        )
        for piece in pieces
        if piece.digest != first[piece.index].digest
    ]
    return [comparison for comparison in comparisons if not comparison.equal]
