"""What a user declares: a pair of implementations, the cases to try and the verdicts promised.

Everything here is frozen, keyword-only data without jax: it can be listed, swept, shown and compared before a backend
starts. `pair_checks` validates a declaration, `check.runner` runs it, and `check.judge` decides its verdicts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.errors import DeclarationError
from samebits.schema.adapt import Adapt
from samebits.schema.argument_trees import ArgTree, argument_tree
from samebits.schema.case import COPIES, Arg, AxisSize, Case, Spec
from samebits.schema.contract import COMPUTES, DIFFERENTIATED, MOVES, Contract, Exemption
from samebits.schema.document_claim import Documented
from samebits.schema.meshes import AXES, MODES, NO_MESH, MeshSpec, Mode
from samebits.schema.pair_checks import check_fields, check_pair, transformed_cases
from samebits.schema.pair_meshes import canonical_meshes, with_canonical_meshes
from samebits.schema.real_size import RealSize
from samebits.user_errors import one_line

Args = Mapping[str, Any] | Callable[[Case, MeshSpec], Mapping[str, Any]]
"""By name, an `Arg`, an `ArgTree` or a pytree of them; or a function of (case, mesh) that returns that."""
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
        documented: what design documents say of this pair, for `samebits claims`.
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
        """The mesh axes of this pair: those of `AXES` in its order, then others as they are declared."""
        meshes = self.meshes + self.wide_meshes
        known = dict.fromkeys(axis for mesh in meshes for axis in MeshSpec.parse(mesh).names)
        return (*(axis for axis in AXES if axis in known), *(axis for axis in known if axis not in AXES))

    @property
    def all_modes(self) -> tuple[Mode, ...]:
        """The sharding modes of all meshes: of the sweep, and those that meshes fix by the types of their axes."""
        meshes = [MeshSpec.parse(mesh) for mesh in self.meshes + self.wide_meshes]
        used = {mode for mesh in meshes for mode in mesh.modes(self.modes)}
        return tuple(mode for mode in MODES if mode in used)

    def case(self, case_id: str) -> Case:
        """The case with this id."""
        return next(case for case in self.cases if case.id == case_id)

    def argument_trees(self, case: Case, mesh: MeshSpec) -> dict[str, ArgTree]:
        """The arguments of a case on a mesh by name, each as a tree.

        Raises:
            DeclarationError: they are not by name, there are none, or one is not a tree of `Arg`.
        """
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
        """The array arguments of a case on a mesh: of an argument that is a tree, its leaves by their paths."""
        flat: dict[str, Arg] = {}
        for name, tree in self.argument_trees(case, mesh).items():
            flat |= tree.leaves(name)
        return flat

    def output_spec(self, case: Case, mesh: MeshSpec) -> Mapping[str, Spec]:
        """How the outputs of a case lie on a mesh, by leaf."""
        specs: Mapping[str, Spec] = self._evaluated("out_spec", self.out_spec, case.plain, mesh)
        return {leaf: (None, *spec) for leaf, spec in specs.items()} if case.transform == "vmap" else specs

    def _evaluated(self, field: str, value: Any, case: Case, mesh: MeshSpec) -> Any:
        """A field that may be a function of (case, mesh); an error inside the function is one of the declaration."""
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
        """The static keyword arguments of a case, mesh sizes filled in."""
        return {
            name: mesh.size(value.axis) if isinstance(value, AxisSize) else value
            for name, value in case.statics.items()
        }

    def check_argument_names(self) -> None:
        """Reject a contract's domain or a `rename` that refers to an argument that no case has.

        Raises:
            DeclarationError: the name matches none; or the arguments cannot be made.
        """
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
        """Whether some case has an argument of this name on any of its meshes: `args` may depend on the mesh."""
        return any(
            name in self.argument_trees(case, MeshSpec.parse(mesh))
            for case in self.cases
            for mesh in case.meshes or self.meshes + self.wide_meshes
        )

    def on(self, platform: str) -> Pair:
        """The declaration with the contracts and exemptions of one platform; itself where all are for it.

        Args:
            platform: `cpu`, `gpu` or `tpu`, on which results are made.
        """
        contracts = tuple(contract for contract in self.contracts if contract.is_for(platform))
        exemptions = tuple(exemption for exemption in self.exemptions if exemption.is_for(platform))
        if len(contracts) == len(self.contracts) and len(exemptions) == len(self.exemptions):
            return self
        return replace(self, contracts=contracts, exemptions=exemptions)

    def contract(self, *, moves: bool = False, **where: Any) -> Contract:
        """The contract of a result: the last that covers it, else `bitwise` of what only moves data and `rounding`.

        Of an output under differentiation it is that of the forward output; bits that are promised of this direction
        alone are not promised there.

        Args:
            moves: whether both sides were shown to only move data.
            where: the point and the leaf.
        """
        there = _of_output(where)
        matching = [contract for contract in self.contracts if contract.covers(**there)]
        if not matching or there is where or matching[-1].lowest == "rounding":
            return matching[-1] if matching else MOVES if moves else COMPUTES
        both = matching[-1].covers(**there | {"direction": where["direction"]})
        return matching[-1] if both else COMPUTES

    def accuracy_of(self, contract: Contract) -> float | None:
        """How many times the reference's error a contract accepts; None where no limit is set."""
        return self.accuracy if contract.error_ratio is None else contract.error_ratio

    def exemption(self, **where: Any) -> Exemption | None:
        """The exemption of a result, if there is one."""
        there = _of_output(where)
        return next((exemption for exemption in self.exemptions if exemption.covers(**there)), None)


def _of_output(where: dict[str, Any]) -> dict[str, Any]:
    """Where a result is declared: an output under differentiation as the forward output that it is."""
    leaf = where["leaf"]
    if leaf is None or not leaf.endswith(DIFFERENTIATED):
        return where
    return {**where, "direction": "forward", "leaf": leaf.removesuffix(DIFFERENTIATED)}
