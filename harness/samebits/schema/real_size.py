"""A setting of real size, as data: compiled from shapes alone, never run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from samebits.errors import DeclarationError, SamebitsError
from samebits.schema.case import Arg, Case
from samebits.schema.compile_statement import Claim
from samebits.schema.meshes import MODES, MeshSpec, Mode
from samebits.schema.target import Target, fixed_part
from samebits.schema.validate import check_known, check_tuple

_EXAMPLES = {"tune": "{'tiling': ((128, 128), (256, 256))}", "tune_sizes": "{'rows': 512}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class RealSize:
    """What `samebits compile` compiles of a pair: production shapes, a layout, targets, and what the program must show.

    Args:
        case: id, sizes and static arguments as in the sweep; `variants` restricts the sides. Its arguments are those
            of `Pair.args`; values are never drawn.
        layout: the mesh, with one size left open for the target's devices: `context*`, `fsdp*_tensor2`.
        dtype: the dtype of the sweep.
        targets: what is compiled for unless the command names others, such as `("tpu7x:2x2x1",)`.
        args: the arguments, where they are not those of `Pair.args`: a mapping, or a function of (case, mesh).
        within: returns the function to compile for a side, where a claim is about the component in its setting (a
            scan, a remat): `within(component)` takes `args` and the case's static arguments. It is the same for every
            side.
        mode: the sharding mode; `auto` by default.
        options: compiler options by side, always given to that side; the program without them is compiled beside it.
            A side whose options the compiler must reject says so in `case.refuses`.
        claims: what the variants must show.
        tune: one static argument and the values of it that `samebits compile --tune` tries: `{"tiling": ((128, 128,
            128), (256, 256, 256))}`.
        tune_sizes: `Case.sizes` at which those values are run on one CPU device and compared with the reference: so
            small that this is quick, and so large that the values still make a difference. Inputs are drawn as `args`
            says for this case; the pair's contracts hold.

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
    tune: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    tune_sizes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"real size '{self.case.id}'"
        check_tuple(where, "targets", self.targets)
        check_tuple(where, "claims", self.claims)
        if not self.targets:
            raise DeclarationError(f"{where} names no targets; write targets=('tpu7x:2x2x1',)")
        for side, options in self.options.items():
            if not options or not all(isinstance(text, str) for pair in options.items() for text in pair):
                raise DeclarationError(
                    f"{where}: options of '{side}' are {options!r}; expected {{'name': 'value'}}, both in quotes"
                )
        check_known(where, "mode", (self.mode,), MODES)
        try:
            for target in self.targets:
                Target(name=target)
            fixed_part(self.layout)
        except SamebitsError as error:
            raise DeclarationError(f"{where}: {error}") from None
        self._check_tune(where)

    def _check_tune(self, where: str) -> None:
        for name in ("tune", "tune_sizes"):
            declared = getattr(self, name)
            if not isinstance(declared, Mapping):
                kind = type(declared).__name__
                raise DeclarationError(
                    f"{where}: {name} is of type {kind}; expected a mapping, as in {_EXAMPLES[name]}"
                )
            object.__setattr__(self, name, MappingProxyType(dict(declared)))
        if bool(self.tune) != bool(self.tune_sizes):
            lacks = "tune_sizes" if self.tune else "tune"
            raise DeclarationError(f"{where}: {lacks} is missing; write {lacks}={_EXAMPLES[lacks]} beside it")
        if len(self.tune) > 1:
            raise DeclarationError(f"{where}: tune names {', '.join(self.tune)}; expected one static argument")
        if set(self.tune_sizes) != set(self.case.sizes) and self.tune:
            raise DeclarationError(
                f"{where}: tune_sizes names {', '.join(self.tune_sizes)}; expected the names of the case's sizes, "
                f"{', '.join(self.case.sizes)}"
            )
        for argument, values in self.tune.items():
            check_tuple(where, f"tune of '{argument}'", values)
            for value in values:
                try:
                    hash(value)
                except TypeError:
                    raise DeclarationError(
                        f"{where}: tune of '{argument}' has the value {value!r}, which can change; write it as a tuple"
                    ) from None
            if len(values) < 2:
                plural = "value" if len(values) == 1 else "values"
                raise DeclarationError(
                    f"{where}: tune of '{argument}' has {len(values)} {plural}; expected at least 2 to choose from"
                )
            double = next((value for value in values if values.count(value) > 1), None)
            if double is not None:
                raise DeclarationError(f"{where}: tune of '{argument}' has the value {double!r} twice")
