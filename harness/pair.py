"""What a user declares: a pair of implementations, the cases to try and the verdicts promised.

Everything here is frozen, keyword-only data without jax: it can be listed, swept, shown and compared
before any backend starts. How it is *run* is in `runner`, how it is *judged* in `verdict`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from harness.checks import check_id, check_pattern, check_spec, check_tuple, check_unique
from harness.contract import DIRECTIONS, Contract, Exemption
from harness.errors import DeclarationError, MeshError
from harness.meshes import AXES, MODES, MeshSpec, Mode
from harness.values import Normal, Values

Spec = tuple[str | tuple[str, ...] | None, ...]
"""The mesh axes of each dimension, as in `PartitionSpec`; axes that a mesh lacks are left out."""

SPECIALS = ("-0.0", "nan", "nan_payload", "inf", "-inf", "subnormal", "largest")
"""Special values that an argument can carry; integer arguments take their bounds, 0 and -1 instead."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisSize:
    """A static argument that is the size of a mesh axis: `statics={"cp": AxisSize(axis="context")}`."""

    axis: str

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise DeclarationError(f"AxisSize of unknown axis '{self.axis}'; the axes are {', '.join(AXES)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Arg:
    """One array argument: its shape, dtype, values, and how it lies on the mesh.

    Args:
        shape: sizes, as numbers or as names looked up in `Case.sizes`.
        dtype: a fixed dtype; None takes the dtype of the sweep.
        spec: mesh axes per dimension; axes that a mesh lacks are left out, missing dimensions are not split.
        values: how the elements are drawn (`harness.values`), or a function `(rng, shape) -> array`.
        special: special values the component is defined for; they form a second record of the same shape.
        differentiable: whether the gradient with respect to this argument is compared (float arguments only).
    """

    shape: tuple[int | str, ...]
    dtype: str | None = None
    spec: Spec = ()
    values: Values = field(default_factory=Normal)
    special: tuple[str, ...] = ()
    differentiable: bool = True

    def __post_init__(self) -> None:
        check_tuple("argument", "shape", self.shape)
        check_tuple(f"argument of shape {self.shape}", "special", self.special)
        unknown = sorted(set(self.special) - set(SPECIALS))
        if unknown:
            raise DeclarationError(f"special value '{unknown[0]}' is unknown; expected some of {', '.join(SPECIALS)}")
        check_spec(f"argument of shape {self.shape}", self.spec, len(self.shape))


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """An error that sides must raise instead of giving a result.

    Args:
        error: the exception's class name, such as `ValueError`.
        match: a regular expression that its text must contain.
        variants: the sides that refuse; empty means every side, the reference too.
    """

    error: str
    match: str
    variants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_tuple(f"refusal by {self.error}", "variants", self.variants)
        try:
            re.compile(self.match)
        except re.error as error:
            raise DeclarationError(
                f"refusal by {self.error}: match '{self.match}' is no regular expression ({error}); escape its signs"
            ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One set of sizes and static arguments of a pair.

    Args:
        id: short and stable; it seeds the inputs and names the case in reports and replays.
        sizes: the dimensions that `Arg.shape` names.
        statics: keyword arguments given to both sides as they are; an `AxisSize` becomes the size of a mesh axis.
        dtypes, meshes, variants: restrict the pair's lists for this case; None keeps them.
        refuses: the documented errors of this case.
    """

    id: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    statics: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] | None = None
    meshes: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    refuses: tuple[Refusal, ...] = ()

    def __post_init__(self) -> None:
        check_id("case", self.id)
        for what in ("dtypes", "meshes", "variants"):
            if getattr(self, what) is not None:
                check_tuple(f"case '{self.id}'", what, getattr(self, what))
        check_tuple(f"case '{self.id}'", "refuses", self.refuses)
        object.__setattr__(self, "sizes", MappingProxyType(dict(self.sizes)))
        object.__setattr__(self, "statics", MappingProxyType(dict(self.statics)))

    def refusal(self, side: str) -> Refusal | None:
        """The documented refusal of a side, if it has one in this case."""
        for refusal in self.refuses:
            if not refusal.variants or side in refusal.variants:
                return refusal
        return None


Args = Mapping[str, Arg] | Callable[[Case, MeshSpec], Mapping[str, Arg]]
OutSpec = Mapping[str, Spec] | Callable[[Case, MeshSpec], Mapping[str, Spec]]
Side = str | Callable[..., Any]


def _declaring_file() -> str:
    """The file whose top level (or function) is creating the pair; frames of this module and generated code skipped."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__") in (__name__, "dataclasses"):
        frame = frame.f_back
    return str(frame.f_globals.get("__file__", "<interactive>"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One component: a reference, its optimized variants, and everything needed to compare them.

    Args:
        name: equal to the stem of the three files `reference_impls/NAME.py`, `optimized_impls/NAME.py`,
            `suites/test_NAME.py`.
        reference: a function of `reference_impls/NAME.py`, or `module:function`, or a callable.
        variants: functions of `optimized_impls/NAME.py`; or a mapping from name to `module:function` or callable.
        args: the array arguments by name, or a function of (case, mesh) that gives them.
        cases, dtypes, meshes, modes: the axes of the sweep. Meshes need at most 8 devices.
        wide_meshes: meshes that are swept only where so many devices are there, and mentioned where not.
        out_spec: how outputs lie on the mesh, by leaf; cotangents are laid out so in auto mode. A leaf not named
            lies like the first argument of its shape, else it is not split.
        contracts, exemptions: what is promised; without any, every result must be `bitwise`.
        gradients: False for a component without a derivative.
        origin: the declaring file; found by itself.

    Raises:
        DeclarationError: something is missing, repeated, contradictory or would check nothing.
    """

    name: str
    reference: Side
    variants: tuple[str, ...] | Mapping[str, Side]
    args: Args
    cases: tuple[Case, ...]
    dtypes: tuple[str, ...]
    meshes: tuple[str, ...]
    wide_meshes: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = MODES
    out_spec: OutSpec = field(default_factory=dict)
    contracts: tuple[Contract, ...] = ()
    exemptions: tuple[Exemption, ...] = ()
    gradients: bool = True
    origin: str = field(default_factory=_declaring_file)

    def __post_init__(self) -> None:
        check_id("pair", self.name)
        where = f"pair '{self.name}'"
        for what in ("variants", "cases", "dtypes", "meshes", "modes", "wide_meshes", "contracts", "exemptions"):
            value = getattr(self, what)
            if what != "variants" or not isinstance(value, Mapping):
                check_tuple(where, what, value)
            if not value and what in ("variants", "cases", "dtypes", "meshes", "modes"):
                raise DeclarationError(f"{where} declares no {what}; it would check nothing. Write {what}=(...)")
        if not isinstance(self.variants, Mapping):
            check_unique(where, "variant", self.variants)
        check_unique(where, "case", tuple(case.id for case in self.cases))
        check_unique(where, "dtype", self.dtypes)
        check_unique(where, "mesh", self.meshes + self.wide_meshes)
        if self.reference_name in self.variant_names:
            raise DeclarationError(
                f"{where}: '{self.reference_name}' names the reference and a variant; names must differ"
            )
        for variant in self.variant_names:
            check_id(f"{where}: variant", variant)
        for mode in self.modes:
            if mode not in MODES:
                raise DeclarationError(f"{where}: mode '{mode}' is unknown; expected some of {', '.join(MODES)}")
        self._check_meshes()
        self._check_cases()
        self._check_scopes()

    def _check_meshes(self) -> None:
        for mesh in self.meshes + self.wide_meshes:
            try:
                devices = MeshSpec.parse(mesh).devices
            except MeshError as error:
                raise DeclarationError(f"pair '{self.name}': {error}") from error
            if devices > 8 and mesh in self.meshes:
                raise DeclarationError(
                    f"pair '{self.name}': mesh '{mesh}' needs {devices} devices; above 8 write it in wide_meshes"
                )

    def _check_scopes(self) -> None:
        known = {
            "variant": self.sides,
            "case": tuple(case.id for case in self.cases),
            "dtype": self.dtypes,
            "mesh": self.meshes + self.wide_meshes,
            "mode": self.modes,
            "direction": DIRECTIONS if self.gradients else ("forward",),
        }
        for what, scopes in (("contract", self.contracts), ("exemption", self.exemptions)):
            for scope in scopes:
                for name, names in known.items():
                    check_pattern(f"pair '{self.name}', {what} ({scope})", name, getattr(scope, name), names)

    def _check_cases(self) -> None:
        for case in self.cases:
            where = f"pair '{self.name}', case '{case.id}'"
            lists = (
                ("dtype", case.dtypes, self.dtypes),
                ("mesh", case.meshes, self.meshes + self.wide_meshes),
                ("variant", case.variants, self.variant_names),
                (
                    "refusing side",
                    sum((r.variants for r in case.refuses), ()),
                    (self.reference_name, *self.variant_names),
                ),
            )
            for what, chosen, known in lists:
                for item in chosen or ():
                    if item not in known:
                        raise DeclarationError(f"{where}: {what} '{item}' is not one of the pair's: {', '.join(known)}")
            for what, chosen in (("dtypes", case.dtypes), ("meshes", case.meshes), ("variants", case.variants)):
                if chosen == ():
                    raise DeclarationError(f"{where}: {what}=() leaves nothing to check; give some or leave it out")

    @property
    def reference_name(self) -> str:
        """The reference's name in reports: its function's name."""
        if isinstance(self.reference, str):
            return self.reference.rpartition(":")[2]
        return str(getattr(self.reference, "__name__", "reference"))

    @property
    def variant_names(self) -> tuple[str, ...]:
        """The names of the optimized variants."""
        return tuple(self.variants)

    @property
    def sides(self) -> tuple[str, ...]:
        """Every side that runs on the mesh: the reference first, then the variants."""
        return (self.reference_name, *self.variant_names)

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes that this pair knows, in the order of `AXES`."""
        known = {axis for mesh in self.meshes + self.wide_meshes for axis in MeshSpec.parse(mesh).names}
        return tuple(axis for axis in AXES if axis in known)

    def case(self, case_id: str) -> Case:
        """The case with this id."""
        return next(case for case in self.cases if case.id == case_id)

    def arguments(self, case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
        """The array arguments of a case on a mesh."""
        args: Mapping[str, Arg] = self._asked("args", self.args, case, mesh)
        if not args:
            raise DeclarationError(f"pair '{self.name}', case '{case.id}': no arguments; it would compare constants")
        return args

    def output_spec(self, case: Case, mesh: MeshSpec) -> Mapping[str, Spec]:
        """How the outputs of a case lie on a mesh, by leaf."""
        found: Mapping[str, Spec] = self._asked("out_spec", self.out_spec, case, mesh)
        return found

    def _asked(self, field: str, value: Any, case: Case, mesh: MeshSpec) -> Any:
        """A field that may be a function of (case, mesh); an error inside the function is one of the declaration."""
        if not callable(value):
            return value
        try:
            return value(case, mesh)
        except DeclarationError:
            raise
        except Exception as error:
            raise DeclarationError(
                f"pair '{self.name}', case '{case.id}', mesh '{mesh.id}': {field}(case, mesh) raised "
                f"{type(error).__name__}: {error}"
            ) from error

    def statics(self, case: Case, mesh: MeshSpec) -> dict[str, Any]:
        """The static keyword arguments of a case, mesh sizes filled in."""
        return {
            name: mesh.size(value.axis) if isinstance(value, AxisSize) else value
            for name, value in case.statics.items()
        }

    def contract(self, **where: Any) -> Contract:
        """The contract of a result: the last that covers it, or plain `bitwise`."""
        matching = [contract for contract in self.contracts if contract.covers(**where)]
        return matching[-1] if matching else Contract()

    def exemption(self, **where: Any) -> Exemption | None:
        """The exemption of a result, if there is one."""
        return next((exemption for exemption in self.exemptions if exemption.covers(**where)), None)
