"""A setting of real size, as data: compiled from shapes alone, never run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.case import Arg, Case
from harness.checks import check_tuple
from harness.claim import Claim
from harness.errors import DeclarationError, SamebitsError
from harness.meshes import MODES, MeshSpec, Mode
from harness.target import Target, fixed_part


@dataclass(frozen=True, kw_only=True, slots=True)
class RealSize:
    """What `samebits compile` compiles of a pair: real sizes, a layout, targets, and what the program must show.

    Args:
        case: id, sizes and static arguments as in the sweep; `variants` restricts the sides. Its arguments are those of
            `Pair.args`; values are never drawn.
        layout: the mesh, with one size left open for the target's devices: `context*`, `fsdp*_tensor2`.
        dtype: the dtype of the sweep.
        targets: what is compiled for when nobody says otherwise.
        args: the arguments, where they are not those of `Pair.args`: a mapping, or a function of (case, mesh).
        within: gives the function to compile for a side, where a claim is about the component in its setting (a scan,
            a remat): `within(component)` takes `args` and the case's static arguments. Both sides get the same one.
        mode: sharding mode.
        options: compiler options by side, always given to that side; the program without them stands beside it. A side
            whose options the compiler must refuse says so in `case.refuses`.
        claims: what the variants must show.

    Raises:
        DeclarationError: a list is empty or malformed.
    """

    case: Case
    layout: str
    dtype: str
    targets: tuple[str, ...]
    args: Mapping[str, Arg] | Callable[[Case, MeshSpec], Mapping[str, Arg]] | None = None
    within: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    mode: Mode = "auto"
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    claims: tuple[Claim, ...] = field(default=())

    def __post_init__(self) -> None:
        where = f"real size '{self.case.id}'"
        check_tuple(where, "targets", self.targets)
        check_tuple(where, "claims", self.claims)
        if not self.targets:
            raise DeclarationError(f"{where} names no targets; write targets=('tpu7x:2x2x1',)")
        for side, options in self.options.items():
            if not options or not all(isinstance(one, str) for pair in options.items() for one in pair):
                raise DeclarationError(
                    f"{where}: options of '{side}' are {options!r}; expected {{'name': 'value'}}, both in quotes"
                )
        if self.mode not in MODES:
            raise DeclarationError(f"{where}: mode '{self.mode}' is unknown; expected some of {', '.join(MODES)}")
        try:
            for target in self.targets:
                Target(name=target)
            fixed_part(self.layout)
        except SamebitsError as error:
            raise DeclarationError(f"{where}: {error}") from None
