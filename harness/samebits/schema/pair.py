"""What a user declares: a pair of implementations, the cases to try and the verdicts promised.

Everything here is frozen, keyword-only data without jax: it can be listed, swept, shown and compared
before any backend starts. How it is *run* is in `runner`, how it is *judged* in `verdict`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samebits.errors import DeclarationError, MeshError
from samebits.schema.case import COPIES, TRANSFORMS, Arg, AxisSize, Case, Spec
from samebits.schema.contract import COMPUTES, DIRECTIONS, MOVES, Contract, Exemption
from samebits.schema.document_claim import Documented
from samebits.schema.meshes import AXES, MODES, MeshSpec, Mode
from samebits.schema.real_size import RealSize
from samebits.schema.validate import check_id, check_pattern, check_tuple, check_unique, expected

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
        reference: a function of `reference_impls/NAME.py` by its name, or `"module:function"`, or a callable.
        variants: functions of `optimized_impls/NAME.py` by their names; or a mapping from the name of a variant to
            `"module:function"` or a callable. Every side takes the parameters of the reference.
        args: the array arguments by name, or a function of (case, mesh) that returns them.
        cases: the sets of sizes and static arguments; ids are unique.
        dtypes: the dtypes that arguments without a fixed dtype take, such as `("bfloat16", "float32")`.
        meshes: the meshes of the sweep by id, such as `context4`; each needs at most 8 devices.
        wide_meshes: meshes that are swept only where enough devices are available; none by default.
        modes: the sharding modes of the sweep; both by default.
        out_spec: how outputs, and in auto mode cotangents, lie on the mesh: by leaf, or a function of (case, mesh). A
            leaf that is not named lies like the first argument of its shape, else it is not split.
        compiled: settings of production shape for `samebits compile`, and what their programs must show.
        contracts: what is promised; without one, `bitwise` where both sides only move data, else `rounding`.
        exemptions: known differences, each with its reason.
        documented: what design documents say of this pair, for `samebits claims`.
        gradients: whether gradients are compared; False for a component without a derivative.
        transforms: what every case is checked under too, some of `vmap`, `remat` and `second_derivative`; the case
            `small` under `vmap` has the id `small_vmap`.
        origin: the declaring file; found automatically.

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
    compiled: tuple[RealSize, ...] = ()
    contracts: tuple[Contract, ...] = ()
    exemptions: tuple[Exemption, ...] = ()
    documented: tuple[Documented, ...] = ()
    gradients: bool = True
    transforms: tuple[str, ...] = ()
    origin: str = field(default_factory=_declaring_file)

    def __post_init__(self) -> None:
        check_id("pair", self.name)
        where = f"pair '{self.name}'"
        for what in (
            "variants",
            "cases",
            "dtypes",
            "meshes",
            "modes",
            "wide_meshes",
            "compiled",
            "contracts",
            "exemptions",
            "documented",
            "transforms",
        ):
            value = getattr(self, what)
            if what != "variants" or not isinstance(value, Mapping):
                check_tuple(where, what, value)
            if not value and what in ("variants", "cases", "dtypes", "meshes", "modes"):
                raise DeclarationError(f"{where} declares no {what}; it would check nothing. Write {what}=(...)")
        if not isinstance(self.variants, Mapping):
            check_unique(where, "variant", self.variants)
        self._add_transformed_cases()
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
        self._check_compiled()
        self._check_documented()

    def _add_transformed_cases(self) -> None:
        """Add the cases that `transforms` asks for, but for those that a copy of the declaration has already."""
        check_unique(f"pair '{self.name}'", "transform", self.transforms)
        for transform in self.transforms:
            if transform not in TRANSFORMS:
                raise DeclarationError(
                    f"pair '{self.name}': transform '{transform}' is unknown; {expected(transform, TRANSFORMS)}"
                )
            if transform != "vmap" and not self.gradients:
                raise DeclarationError(
                    f"pair '{self.name}': transform '{transform}' compares gradients, and gradients=False declares none"
                )
        known = {(case.declared, case.transform) for case in self.cases}
        added = [
            case.under(transform)
            for transform in self.transforms
            for case in self.cases
            if case.transform is None and not case.refuses and (case.id, transform) not in known
        ]
        object.__setattr__(self, "cases", (*self.cases, *added))

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

    def _check_compiled(self) -> None:
        check_unique(f"pair '{self.name}'", "real size", tuple(real.case.id for real in self.compiled))
        for real in self.compiled:
            where = f"pair '{self.name}', real size '{real.case.id}'"
            for variant in real.case.variants or ():
                if variant not in self.variant_names:
                    raise DeclarationError(f"{where}: variant '{variant}' is unknown; {expected(variant, self.sides)}")
            for side in (*real.options, *sum((refusal.variants for refusal in real.case.refuses), ())):
                if side not in self.sides:
                    raise DeclarationError(f"{where}: side '{side}' is unknown; {expected(side, self.sides)}")
            for claim in real.claims:
                check_pattern(f"{where}, claim '{claim.shows}'", "variant", claim.variant, self.sides)
                check_pattern(f"{where}, claim '{claim.shows}'", "direction", claim.direction, DIRECTIONS)
                other = claim.shows.side
                if other not in (None, "reference", *self.sides):
                    raise DeclarationError(f"{where}, claim '{claim.shows}': {expected(str(other), self.sides)}")

    def _check_documented(self) -> None:
        check_unique(f"pair '{self.name}'", "claim", tuple(claim.id for claim in self.documented))
        real = tuple(one.case.id for one in self.compiled)
        for claim in self.documented:
            where = f"pair '{self.name}', claim '{claim.id}'"
            if claim.command:
                raise DeclarationError(f"{where}: a command stands for claims of the model; leave it out here")
            if (claim.saves or claim.real) and not real:
                raise DeclarationError(f"{where}: nothing is compiled for it; write compiled=(RealSize(...),)")
            for what, chosen, known in (
                ("variant", claim.variants, self.variant_names),
                ("case", claim.cases, tuple(case.id for case in self.cases)),
                ("real size", claim.real, real),
            ):
                for name in chosen:
                    if name not in known:
                        raise DeclarationError(f"{where}: {what} '{name}' is unknown; {expected(name, known)}")

    def _check_cases(self) -> None:
        for case in self.cases:
            where = f"pair '{self.name}', case '{case.id}'"
            lists = (
                ("dtype", case.dtypes, self.dtypes),
                ("mesh", case.meshes, self.meshes + self.wide_meshes),
                ("mode", case.modes, self.modes),
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
            for what in ("dtypes", "meshes", "modes", "variants"):
                if getattr(case, what) == ():
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
        args: Mapping[str, Arg] = self._asked("args", self.args, case.plain, mesh)
        if not args:
            raise DeclarationError(f"pair '{self.name}', case '{case.id}': no arguments; it would compare constants")
        return {name: arg.stacked(COPIES) for name, arg in args.items()} if case.transform == "vmap" else args

    def output_spec(self, case: Case, mesh: MeshSpec) -> Mapping[str, Spec]:
        """How the outputs of a case lie on a mesh, by leaf."""
        found: Mapping[str, Spec] = self._asked("out_spec", self.out_spec, case.plain, mesh)
        return {leaf: (None, *spec) for leaf, spec in found.items()} if case.transform == "vmap" else found

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

    def check_domains(self) -> None:
        """Reject a contract's domain that speaks of an argument that no case has.

        Raises:
            DeclarationError: the name matches none; or the arguments cannot be made.
        """
        stated = [contract for contract in self.contracts if contract.domain is not None]
        if not stated:
            return
        known = {
            name: None
            for case in self.cases
            for name in self.arguments(case, MeshSpec.parse((case.meshes or self.meshes)[0]))
        }
        for contract in stated:
            assert contract.domain is not None
            contract.domain.check(f"pair '{self.name}', contract ({contract})", known)

    def contract(self, *, moves: bool = False, **where: Any) -> Contract:
        """The contract of a result: the last that covers it, else `bitwise` of what only moves data and `rounding`.

        Args:
            moves: whether both sides were shown to only move data.
            where: the point and the leaf.
        """
        matching = [contract for contract in self.contracts if contract.covers(**where)]
        return matching[-1] if matching else MOVES if moves else COMPUTES

    def exemption(self, **where: Any) -> Exemption | None:
        """The exemption of a result, if there is one."""
        return next((exemption for exemption in self.exemptions if exemption.covers(**where)), None)
