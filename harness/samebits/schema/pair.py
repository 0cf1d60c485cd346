"""What a user declares: a pair of implementations, the cases to try and the verdicts promised.

Everything here is frozen, keyword-only data without jax: it can be listed, swept, shown and compared before a backend
starts. Every name that one part of a declaration uses must exist in another (single fields are checked in `validate`);
`check.runner` runs it, and `check.judge` decides its verdicts.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.errors import DeclarationError, MeshError
from samebits.schema.argument_trees import ArgTree, argument_tree
from samebits.schema.case import COPIES, TRANSFORMS, Arg, AxisSize, Case, ContextMesh, Spec
from samebits.schema.contract import COMPUTES, DIFFERENTIATED, DIRECTIONS, MOVES, PLATFORMS, Contract, Exemption
from samebits.schema.document_claim import Documented
from samebits.schema.meshes import AXES, MODES, NO_MESH, MeshSpec, Mode
from samebits.schema.property_asked import Property
from samebits.schema.real_size import RealSize
from samebits.schema.target import GENERATIONS, can_match, fixed_part
from samebits.schema.validate import (
    check_accuracy,
    check_id,
    check_known,
    check_pattern,
    check_tuple,
    check_unique,
    expected,
)
from samebits.user_errors import one_line


# How a variant with parameters or outputs of another structure stands beside the reference, as data.
@dataclass(frozen=True, kw_only=True, slots=True)
class Adapt:
    """Maps between the argument and output trees of the reference and those of one variant.

    Equivalent to a variant `lambda **given: outputs(variant(**arguments(**given)))`. Both maps may only rename, split,
    join, reshape and transpose: a check moves labelled elements through them and rejects a map that loses or repeats
    one. Gradients are with respect to the reference's arguments.

    Args:
        arguments: takes the declared arguments by keyword, statics too, and returns the variant's as a mapping by
            name. None, the default, passes them on as they are.
        outputs: takes what the variant returns and gives it in the structure of the reference. None, the default, keeps
            it.

    Raises:
        DeclarationError: neither map is given.
    """

    arguments: Callable[..., Mapping[str, Any]] | None = None
    outputs: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.arguments is None and self.outputs is None:
            raise DeclarationError("Adapt() maps nothing; give arguments=..., outputs=..., or leave it out")


Args = Mapping[str, Any] | Callable[[Case, MeshSpec], Mapping[str, Any]]
"""By name, an `Arg`, an `ArgTree` or a pytree of them; or a function of (case, mesh) that returns that."""
OutSpec = Mapping[str, Spec] | Callable[[Case, MeshSpec], Mapping[str, Spec]]
Side = str | Callable[..., Any]


def _declaring_file() -> str:
    """Find the file whose top level (or function) creates the pair, beyond this module and generated code."""
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
            `"module:function"` or a callable. Every side is called with the declared arguments; what else it takes must
            have a default.
        args: the array arguments by name, each an `Arg`, a pytree of `Arg`, or `like(tree)`; or a function of
            (case, mesh) that returns them.
        cases: the sets of sizes and static arguments; ids are unique.
        dtypes: the dtypes that arguments without a fixed dtype take, such as `("bfloat16", "float32")`.
        meshes: the meshes of the sweep by id, such as `context4`; each needs at most 8 devices. By default `none`: one
            device without a mesh.
        wide_meshes: meshes that are swept only where enough devices are available; none by default.
        modes: the sharding modes of the sweep; `auto` by default. A function runs in explicit mode only where it is
            written for it.
        out_spec: how outputs, and in auto mode cotangents, lie on the mesh: by leaf, or a function of (case, mesh). A
            leaf that is not named lies like the first argument of its shape, else it is not split.
        compiled: settings of production shape for `samebits compile`, and what their programs must show.
        contracts: what is promised; without one, `bitwise` where both sides only move data, else `rounding`.
        exemptions: known differences, each with its reason.
        documented: what design documents say of this pair, for `samebits audit claims`.
        properties: what the reference and each variant must not read, decided by `samebits prove`.
        gradients: whether gradients are compared; False for a component without a derivative.
        has_aux: whether the sides return `(outputs, auxiliary)`, of which only the first is differentiated.
        rename: by the name of a declared argument, what a side that has no parameter of this name calls it:
            `{"q": "query"}`.
        adapt: by variant, how its arguments and outputs correspond to the reference's, where their trees differ.
        ignore: outputs that are not compared, by shell patterns over their paths with dots (`cache.*`), as
            `samebits.assert_same` and `samebits compare` take them for two functions.
        transforms: what every case is checked under too, some of `vmap`, `remat` and `second_derivative`; the case
            `small` under `vmap` has the id `small_vmap`.
        accuracy: how many times the reference's error against float64 `rounding` may have where a contract gives no
            `error_ratio`; None, the default, accepts all but a loss of kind, and tells how large it is.
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
    meshes: tuple[str, ...] = (NO_MESH,)
    wide_meshes: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = MODES[:1]
    out_spec: OutSpec = field(default_factory=dict)
    compiled: tuple[RealSize, ...] = ()
    contracts: tuple[Contract, ...] = ()
    exemptions: tuple[Exemption, ...] = ()
    documented: tuple[Documented, ...] = ()
    properties: tuple[Property, ...] = ()
    gradients: bool = True
    has_aux: bool = False
    rename: Mapping[str, str] = field(default_factory=dict)
    adapt: Mapping[str, Adapt] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    transforms: tuple[str, ...] = ()
    accuracy: float | None = None
    origin: str = field(default_factory=_declaring_file)

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "meshes", canonical_meshes(self.name, self.meshes))
        object.__setattr__(self, "wide_meshes", canonical_meshes(self.name, self.wide_meshes))
        object.__setattr__(self, "cases", (*with_canonical_meshes(self.cases), *transformed_cases(self)))
        check_pair(self)

    @property
    def reference_name(self) -> str:
        """Return the reference's name in reports: its function's name."""
        if isinstance(self.reference, str):
            return self.reference.rpartition(":")[2]
        return str(getattr(self.reference, "__name__", "reference"))

    @property
    def variant_names(self) -> tuple[str, ...]:
        """Return the names of the optimized variants."""
        return tuple(self.variants)

    @property
    def sides(self) -> tuple[str, ...]:
        """Return every side that runs on the mesh: the reference first, then the variants."""
        return (self.reference_name, *self.variant_names)

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the mesh axes of this pair: those of `AXES` in its order, then others as they are declared."""
        meshes = self.meshes + self.wide_meshes
        known = dict.fromkeys(axis for mesh in meshes for axis in MeshSpec.parse(mesh).names)
        return (*(axis for axis in AXES if axis in known), *(axis for axis in known if axis not in AXES))

    @property
    def all_modes(self) -> tuple[Mode, ...]:
        """Return the sharding modes of all meshes: of the sweep, and those that the types of their axes fix."""
        meshes = [MeshSpec.parse(mesh) for mesh in self.meshes + self.wide_meshes]
        used = {mode for mesh in meshes for mode in mesh.modes(self.modes)}
        return tuple(mode for mode in MODES if mode in used)

    def case(self, case_id: str) -> Case:
        """Return the case with this id."""
        return next(case for case in self.cases if case.id == case_id)

    def argument_trees(self, case: Case, mesh: MeshSpec) -> dict[str, ArgTree]:
        """Return the arguments of a case on a mesh by name, each as a tree."""
        declared: Mapping[str, Any] = self._evaluated("args", self.args, case.plain, mesh)
        where = f"pair '{self.name}', case '{case.id}'"
        if not isinstance(declared, Mapping):
            raise DeclarationError(
                f"{where}: args is a {type(declared).__name__}; expected the arguments by name, as in "
                "args={'x': Arg(shape=(8, 16))}"
            )
        trees = {name: argument_tree(f"{where}: argument '{name}'", value) for name, value in declared.items()}
        if not any(tree.args for tree in trees.values()):
            raise DeclarationError(f"{where}: no arguments; it would compare constants")
        return {name: tree.stacked(COPIES) for name, tree in trees.items()} if case.transform == "vmap" else trees

    def arguments(self, case: Case, mesh: MeshSpec) -> dict[str, Arg]:
        """Return the array arguments of a case on a mesh: of an argument that is a tree, its leaves by their paths."""
        flat: dict[str, Arg] = {}
        for name, tree in self.argument_trees(case, mesh).items():
            flat |= tree.leaves(name)
        return flat

    def output_spec(self, case: Case, mesh: MeshSpec) -> Mapping[str, Spec]:
        """Return how the outputs of a case lie on a mesh, by leaf."""
        specs: Mapping[str, Spec] = self._evaluated("out_spec", self.out_spec, case.plain, mesh)
        return {leaf: (None, *spec) for leaf, spec in specs.items()} if case.transform == "vmap" else specs

    def _evaluated(self, field: str, value: Any, case: Case, mesh: MeshSpec) -> Any:
        """Evaluate a field that may be a function of (case, mesh); an error inside is one of the declaration."""
        if not callable(value):
            return value
        try:
            return value(case, mesh)
        except (DeclarationError, KeyboardInterrupt):
            raise
        except BaseException as error:  # `sys.exit()` is no `Exception`
            raise DeclarationError(
                f"pair '{self.name}', case '{case.id}', mesh '{mesh.id}': {field}(case, mesh) {one_line(error)}"
            ) from error

    def statics(self, case: Case, mesh: MeshSpec) -> dict[str, Any]:
        """Return the static keyword arguments of a case, mesh sizes filled in."""
        return {
            name: mesh.size(value.axis) if isinstance(value, AxisSize) else value
            for name, value in case.statics.items()
        }

    def check_argument_names(self) -> None:
        """Reject a contract's domain or a `rename` that refers to an argument that no case has."""
        stated = [contract for contract in self.contracts if contract.domain is not None]
        if not stated and not self.rename:
            return
        known: dict[str, None] = {}
        taken: dict[str, None] = {}
        for case in self.cases:
            mesh = MeshSpec.parse((case.meshes or self.meshes + self.wide_meshes)[0])
            trees = self.argument_trees(case, mesh)
            known |= {leaf: None for name, tree in trees.items() for leaf in tree.leaves(name)}
            taken |= dict.fromkeys((*trees, *case.statics))
        for contract in stated:
            assert contract.domain is not None
            contract.domain.check(f"pair '{self.name}', contract ({contract})", known)
        for name in self.rename:
            if name not in taken and not self._is_argument_on_some_mesh(name):
                raise DeclarationError(
                    f"pair '{self.name}': rename refers to '{name}', which is not an argument; expected some of "
                    f"{', '.join(taken)}"
                )

    def _is_argument_on_some_mesh(self, name: str) -> bool:
        """Tell whether some case has an argument of this name on any of its meshes: `args` may depend on the mesh."""
        return any(
            name in self.argument_trees(case, MeshSpec.parse(mesh))
            for case in self.cases
            for mesh in case.meshes or self.meshes + self.wide_meshes
        )

    def on(self, platform: str) -> Pair:
        """Return the declaration with the contracts and exemptions of a platform; itself where all are for it."""
        contracts = tuple(contract for contract in self.contracts if contract.is_for(platform))
        exemptions = tuple(exemption for exemption in self.exemptions if exemption.is_for(platform))
        if len(contracts) == len(self.contracts) and len(exemptions) == len(self.exemptions):
            return self
        return replace(self, contracts=contracts, exemptions=exemptions)

    def contract(self, *, moves: bool = False, **where: Any) -> Contract:
        """Return the contract of a result: the last that covers it, else `bitwise` where it `moves`, and `rounding`.

        Of an output under differentiation it is that of the forward output; bits that are promised of this direction
        alone are not promised there.
        """
        there = _of_output(where)
        matching = [contract for contract in self.contracts if contract.covers(**there)]
        if not matching or there is where or matching[-1].lowest == "rounding":
            return matching[-1] if matching else MOVES if moves else COMPUTES
        both = matching[-1].covers(**there | {"direction": where["direction"]})
        return matching[-1] if both else COMPUTES

    def accuracy_of(self, contract: Contract) -> float | None:
        """Return how many times the reference's error a contract accepts; None where no limit is set."""
        return self.accuracy if contract.error_ratio is None else contract.error_ratio

    def exemption(self, **where: Any) -> Exemption | None:
        """Return the exemption of a result, if there is one."""
        there = _of_output(where)
        return next((exemption for exemption in self.exemptions if exemption.covers(**there)), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompiledPair(Pair):
    """What was written, and what a compiler made of it: two forms of one program, which no index may take apart.

    Args:
        layouts: by case, the mesh for which its program is partitioned.
    """

    layouts: Mapping[str, str]


def _of_output(where: dict[str, Any]) -> dict[str, Any]:
    """Return where a result is declared: an output under differentiation as the forward output that it is."""
    leaf = where["leaf"]
    if leaf is None or not leaf.endswith(DIFFERENTIATED):
        return where
    return {**where, "direction": "forward", "leaf": leaf.removesuffix(DIFFERENTIATED)}


# --- the checks of a whole declaration --------------------------------------------------------------------------------

_REQUIRED = ("variants", "cases", "dtypes", "meshes", "modes")
_TUPLES = (*_REQUIRED, "wide_meshes", "compiled", "contracts", "exemptions", "documented", "properties", "transforms")


def check_fields(pair: Pair) -> None:
    """Reject a name that is not an id, fields that are not tuples, and empty fields."""
    check_id("pair", pair.name)
    where = f"pair '{pair.name}'"
    for what in _TUPLES:
        value = getattr(pair, what)
        if what != "variants" or not isinstance(value, Mapping):
            check_tuple(where, what, value)
        if not value and what in _REQUIRED and not (what == "meshes" and pair.wide_meshes):
            raise DeclarationError(f"{where} declares no {what}; it would check nothing. Write {what}=(...)")
    if not isinstance(pair.variants, Mapping):
        check_unique(where, "variant", pair.variants)


def check_pair(pair: Pair) -> None:
    """Reject repeated names, and names that the pair does not declare."""
    where = f"pair '{pair.name}'"
    check_unique(where, "case", tuple(case.id for case in pair.cases))
    check_unique(where, "dtype", pair.dtypes)
    check_unique(where, "mesh", pair.meshes + pair.wide_meshes)
    if pair.reference_name in pair.variant_names:
        raise DeclarationError(f"{where}: '{pair.reference_name}' names the reference and a variant; names must differ")
    for variant in pair.variant_names:
        check_id(f"{where}: variant", variant)
    check_known(where, "mode", pair.modes, MODES)
    check_accuracy(f"{where}: accuracy", pair.accuracy)
    for contract in pair.contracts:
        check_accuracy(f"{where}, contract ({contract}): error_ratio", contract.error_ratio)
    for variant in pair.adapt:
        if variant not in pair.variant_names:
            raise DeclarationError(f"{where}: adapt of '{variant}'; {expected(variant, pair.variant_names)}")
    check_meshes(pair)
    _check_cases(pair)
    _check_scopes(pair)
    _check_properties(pair)
    _check_compiled(pair)
    _check_documented(pair)


def transformed_cases(pair: Pair) -> list[Case]:
    """Return the cases that `transforms` requests, except those that a copy of the declaration has already."""
    check_unique(f"pair '{pair.name}'", "transform", pair.transforms)
    check_known(f"pair '{pair.name}'", "transform", pair.transforms, TRANSFORMS)
    for transform in pair.transforms:
        if transform == "second_derivative" and pair.has_aux:
            raise DeclarationError(
                f"pair '{pair.name}': transform '{transform}' does not support has_aux=True; leave it out"
            )
        if transform != "vmap" and not pair.gradients:
            raise DeclarationError(
                f"pair '{pair.name}': transform '{transform}' compares gradients, and gradients=False declares none"
            )
    known = {(case.declared, case.transform) for case in pair.cases}
    return [
        case.under(transform)
        for transform in pair.transforms
        for case in pair.cases
        if case.transform is None and not case.refuses and (case.id, transform) not in known
    ]


def _check_scopes(pair: Pair) -> None:
    known = {
        "variant": pair.sides,
        "case": tuple(case.id for case in pair.cases),
        "dtype": pair.dtypes,
        "mesh": pair.meshes + pair.wide_meshes,
        "mode": pair.all_modes,
        "direction": DIRECTIONS if pair.gradients else ("forward",),
        "platform": PLATFORMS,
    }
    for what, scopes in (("contract", pair.contracts), ("exemption", pair.exemptions)):
        for scope in scopes:
            for name, names in known.items():
                check_pattern(f"pair '{pair.name}', {what} ({scope})", name, getattr(scope, name), names)


def _check_properties(pair: Pair) -> None:
    for each in pair.properties:
        if not isinstance(each, Property):
            raise DeclarationError(f"pair '{pair.name}': properties holds {each!r}; expected Property('causal', ...)")
        where = f"pair '{pair.name}', property {each}"
        check_pattern(where, "variant", each.variant, pair.sides)
        check_pattern(where, "case", each.case, tuple(case.id for case in pair.cases))


def _check_compiled(pair: Pair) -> None:
    check_unique(f"pair '{pair.name}'", "real size", tuple(real.case.id for real in pair.compiled))
    for real in pair.compiled:
        where = f"pair '{pair.name}', real size '{real.case.id}'"
        check_known(where, "variant", real.case.variants or (), pair.variant_names)
        refusing = sum((refusal.variants for refusal in real.case.refuses), ())
        check_known(where, "side", (*real.options, *refusing), pair.sides)
        for claim in real.claims:
            check_pattern(f"{where}, claim '{claim.shows}'", "variant", claim.variant, pair.sides)
            check_pattern(f"{where}, claim '{claim.shows}'", "direction", claim.direction, DIRECTIONS)
            # A command may name other targets than the declared ones: claims may speak of those too.
            if not can_match(claim.target):
                slices = tuple(f"{name}:{claim.target.partition(':')[2] or '*'}" for name in GENERATIONS)
                known = tuple(dict.fromkeys(("cpu", "tpu", *real.targets, *slices)))
                check_pattern(f"{where}, claim '{claim.shows}'", "target", claim.target, real.targets, known)
            other = claim.shows.side
            if other not in (None, "reference", *pair.sides):
                raise DeclarationError(f"{where}, claim '{claim.shows}': {expected(str(other), pair.sides)}")


def _check_documented(pair: Pair) -> None:
    check_unique(f"pair '{pair.name}'", "claim", tuple(claim.id for claim in pair.documented))
    real = tuple(size.case.id for size in pair.compiled)
    for claim in pair.documented:
        where = f"pair '{pair.name}', claim '{claim.id}'"
        if claim.command:
            raise DeclarationError(f"{where}: a command stands for claims of the model; leave it out here")
        if (claim.saves or claim.real) and not real:
            raise DeclarationError(f"{where}: nothing is compiled for it; write compiled=(RealSize(...),)")
        check_known(where, "variant", claim.variants, pair.variant_names)
        check_known(where, "case", claim.cases, (case.id for case in pair.cases))
        check_known(where, "real size", claim.real, real)


def _check_cases(pair: Pair) -> None:
    for case in pair.cases:
        where = f"pair '{pair.name}', case '{case.id}'"
        lists = (
            ("dtype", case.dtypes, pair.dtypes),
            ("mesh", case.meshes, pair.meshes + pair.wide_meshes),
            ("mode", case.modes, pair.all_modes),
            ("variant", case.variants, pair.variant_names),
            ("refusing side", sum((refusal.variants for refusal in case.refuses), ()), pair.sides),
        )
        for what, chosen, known in lists:
            for item in chosen or ():
                if item not in known:
                    raise DeclarationError(f"{where}: {what} '{item}' is not one of the pair's: {', '.join(known)}")
        case.size_symbols(where, pair.axes)
        for what in ("dtypes", "meshes", "modes", "variants"):
            if getattr(case, what) == ():
                raise DeclarationError(f"{where}: {what}=() leaves nothing to check; give some or leave it out")


# --- the meshes: their canonical names, and the axes that arguments and static values name ----------------------------

MISSPELT = 0.8
"""How alike a name must be to an axis to count as that axis misspelt: `dta` is `data`, and `fsdp` is not `dp`."""

WIDEST = 8
"""The devices of the largest mesh that runs wherever there are CPU devices; larger ones are wide meshes."""


def canonical_meshes(pair: str, meshes: Iterable[str]) -> tuple[str, ...]:
    """Return each mesh by the id that results, filters and replays have."""
    try:
        return tuple(MeshSpec.parse(mesh).id for mesh in meshes)
    except MeshError as error:
        raise DeclarationError(f"pair '{pair}': {error}") from error


def with_canonical_meshes(cases: Iterable[Case]) -> Iterator[Case]:
    """Normalise the mesh ids of each case; leave malformed ids for the validator to report."""
    for case in cases:
        meshes = None if case.meshes is None else tuple(map(_canonical, case.meshes))
        yield case if meshes == case.meshes else replace(case, meshes=meshes)


def check_meshes(pair: Pair) -> None:
    """Reject meshes that are too large for every machine, and axes that are those of a mesh misspelt."""
    for mesh in pair.meshes:
        devices = MeshSpec.parse(mesh).devices
        if devices > WIDEST:
            raise DeclarationError(
                f"pair '{pair.name}': mesh '{mesh}' needs {devices} devices; above {WIDEST} write it in wide_meshes"
            )
    known = _axes(pair)
    for case in (*pair.cases, *(real.case for real in pair.compiled)):
        for static, value in case.statics.items():
            if isinstance(value, ContextMesh) and not known:
                raise DeclarationError(
                    f"pair '{pair.name}', case '{case.id}': {static} is the mesh, and the pair has none; "
                    "declare meshes with axes, as in meshes=('dp2_tp4',)"
                )
            if isinstance(value, AxisSize) and value.axis not in known:
                raise DeclarationError(
                    f"pair '{pair.name}', case '{case.id}': {static} is the size of axis '{value.axis}', which no mesh "
                    f"of the pair has; {expected(value.axis, known) if known else 'its meshes have no axes'}"
                )
    if isinstance(pair.args, Mapping):
        for name, declared in pair.args.items():
            leaves = declared.leaves(name) if isinstance(declared, ArgTree) else {name: declared}
            check_spec_axes(pair, {path: arg for path, arg in leaves.items() if isinstance(arg, Arg)})


def check_spec_axes(pair: Pair, args: Mapping[str, Arg]) -> None:
    """Reject an axis of a spec that no mesh has and that is spelt almost like one: it would split nothing, unseen.

    Other axes that no mesh of the pair has are left out, as those are that one mesh lacks.
    """
    known = _axes(pair)
    for name, arg in args.items():
        for axis in (axis for entry in arg.spec for axis in (entry if isinstance(entry, tuple) else (entry,))):
            if axis is None or axis in known:
                continue
            near = difflib.get_close_matches(axis, known, n=1, cutoff=MISSPELT)
            if near and near[0].rstrip("0123456789") != axis.rstrip("0123456789"):
                raise DeclarationError(
                    f"pair '{pair.name}', argument '{name}': axis '{axis}' of spec is in no mesh of the pair; "
                    f"{expected(axis, known)}"
                )


def require_axes(pair: Pair, mesh: MeshSpec) -> None:
    """Reject a mesh with an axis that the pair does not have."""
    for axis in mesh.names:
        if axis not in pair.axes:
            near = difflib.get_close_matches(axis, pair.axes, n=1)
            raise MeshError(
                f"mesh '{mesh.id}': pair '{pair.name}' has no axis '{axis}'; "
                f"it has {', '.join(pair.axes) or 'none'}" + (f"; did you mean '{near[0]}'?" if near else "")
            )


def _axes(pair: Pair) -> tuple[str, ...]:
    """Return the axes of all meshes, those of production layouts included."""
    compiled = (axis for real in pair.compiled for axis in fixed_part(real.layout).names)
    return tuple(dict.fromkeys((*pair.axes, *compiled)))


def _canonical(mesh: str) -> str:
    try:
        return MeshSpec.parse(mesh).id
    except MeshError:  # the check of cases names it
        return mesh
