"""Known faults of compilers: a function that shows each, what it leaves in a compiled module, and what heals it.

Which version was seen wrong or right, and when, is in `known_faults.json`, which `docs/make_known_faults.py` writes: it
compiles and runs each function with the compilers that are installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samebits.compile.devices import compiler_version
from samebits.hlo.module import HloModule
from samebits.schema.target import Target
from samebits.schema.values import Integers

SEEN = Path(__file__).with_suffix(".json")
"""By fault and compiler, such as `libtpu 0.0.42.1`: the verdict without and with what heals it, and the day."""

TARGETS = ("v5p:2x2x1", "cpu:4")
"""Where the functions are compiled for."""

LAYOUT = "d*"
"""Their mesh."""

MOTION = "while-loop-all-reduce-code-motion"


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFault:
    """A fault of a compiler.

    Args:
        issue: where it is reported.
        effect: what is wrong.
        marks: patterns; a module that it may concern has an instruction for each, as `OPCODE OPERATION`.
        cure: what heals it, in words.
        function: shows it.
        shapes: dimensions and dtype of what that takes.
        specs: of these on the mesh.
        values: by name, the integers that show it.
        options: of the compiler, which heal it.
        instead: the same function, written so that it is right.
    """

    issue: str
    effect: str
    marks: tuple[str, ...]
    cure: str
    function: Callable[..., Any]
    shapes: tuple[tuple[tuple[int, ...], str], ...]
    specs: tuple[tuple[str | None, ...], ...]
    values: Mapping[str, Integers]
    options: Mapping[str, str] = field(default_factory=dict)
    instead: Callable[..., Any] | None = None

    @property
    def link(self) -> str:
        """Return the address of the report."""
        repository, _, number = self.issue.partition("#")
        return f"https://github.com/{repository}/issues/{number}"

    def call(self, *, healed: bool) -> tuple[list[Any], dict[str, Any]]:
        """Return what `samebits.run_compiled` takes to show the fault, or what heals it, but for the target."""
        import jax
        from jax.sharding import PartitionSpec as P

        function = self.instead if healed and self.instead else self.function
        return [function, *(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in self.shapes)], {
            "mesh": LAYOUT,
            "specs": tuple(P(*spec) for spec in self.specs),
            "values": dict(self.values),
            "compiler_options": self.options if healed else None,
            "gradients": False,
        }

    def concerns(self, module: HloModule) -> bool:
        """Tell whether a compiled module has what the fault leaves behind."""
        said = [f"{inst.opcode} {module.origin(inst).operation}" for _, inst in module.instructions()]
        return all(any(re.fullmatch(mark, text) for text in said) for mark in self.marks)


def _accumulate(ids: Any, updates: Any) -> Any:
    """Add up updates of a table in two microbatches, each device some of them."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec as P

    def body(table: Any, batch: Any) -> tuple[Any, None]:
        return jax.lax.with_sharding_constraint(table.at[batch[0]].add(batch[1]), P()), None

    return jax.lax.scan(body, jnp.zeros((8, 2, 3)), (ids, updates))[0]


def _sliced(x: Any, start: Any) -> Any:
    import jax
    from jax.sharding import PartitionSpec as P

    return jax.lax.with_sharding_constraint(jax.lax.dynamic_slice(x, (start, 0), (24, 2)), P("d"))


def _updated(x: Any, update: Any, start: Any) -> Any:
    import jax
    from jax.sharding import PartitionSpec as P

    return jax.lax.with_sharding_constraint(jax.lax.dynamic_update_slice(x, update, (start, 0)), P("d"))


_CLIP = "right where the start is clipped first: jnp.clip(start, 0, size - length)"

KNOWN = (
    KnownFault(
        issue="openxla/xla#49143",
        effect="a loop that scatters into an accumulator loses all but one of its turns on some partitions",
        marks=(r"all-reduce(-start)? .*/while", r"\S+ .*/while/body/.*scatter-add"),
        cure=f"right with --option xla_disable_hlo_passes={MOTION}",
        function=_accumulate,
        shapes=(((2, 4, 2), "int32"), ((2, 4, 2, 2, 3), "float32")),
        specs=((None, "d"), (None, "d")),
        values={"ids": Integers(high=8)},
        options={"xla_disable_hlo_passes": MOTION},
    ),
    KnownFault(
        issue="openxla/xla#49122",
        effect="a dynamic_slice along a sharded dimension reads other elements where its start is out of range",
        marks=(r"add .*/dynamic_slice", "partition-id .*"),
        cure=_CLIP,
        function=_sliced,
        shapes=(((32, 2), "float32"), ((), "int32")),
        specs=(("d",), ()),
        values={"start": Integers(low=9, high=32)},
        instead=lambda x, start: _sliced(x, start.clip(0, 8)),
    ),
    KnownFault(
        issue="openxla/xla#49118",
        effect="a dynamic_update_slice along a sharded dimension is dropped where its start is out of range",
        marks=(r"compare .*/dynamic_update_slice", "partition-id .*"),
        cure=_CLIP,
        function=_updated,
        shapes=(((32, 2), "float32"), ((1, 2), "float32"), ((), "int32")),
        specs=(("d",), (), ()),
        values={"start": Integers(low=32, high=40)},
        instead=lambda x, update, start: _updated(x, update, start.clip(0, 31)),
    ),
)


def compiler_of(target: Target) -> str:
    """Return the compiler of a target with its version, as `known_faults.json` has it."""
    return f"{'libtpu' if target.platform == 'tpu' else 'jaxlib'} {compiler_version(target)}"


def seen() -> dict[str, dict[str, dict[str, str]]]:
    """Return what was seen of each fault, by issue and compiler."""
    table: dict[str, dict[str, dict[str, str]]] = json.loads(SEEN.read_text(encoding="utf-8"))
    return table


def known_faults(module: HloModule, target: Target, faults: Sequence[KnownFault] = KNOWN) -> Iterator[str]:
    """Yield a warning for each known fault that a compiled module may have.

    None where this version of the compiler was seen to be right, or no version of it wrong.
    """
    compiler = compiler_of(target)
    for fault in faults:
        rows = seen().get(fault.issue, {})
        wrong = {name: row for name, row in rows.items() if row["verdict"] == "different"}
        same = {name: row for name, row in wrong.items() if name.split()[0] == compiler.split()[0]}
        if not same or (compiler in rows and compiler not in wrong) or not fault.concerns(module):
            continue
        name, row = (compiler, wrong[compiler]) if compiler in wrong else list(same.items())[-1]
        yield f"{fault.issue} may concern it: {fault.effect}; seen with {name} ({row['date']}); {fault.cure}"
