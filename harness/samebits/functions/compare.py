"""`samebits.assert_same`, `check` and `prove`: two functions, or a declared pair, compared from Python."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from samebits.errors import CouldNotRun, RequestError
from samebits.functions.as_pair import OUTSIDE, pair_of
from samebits.functions.call_assumptions import with_call_assumptions
from samebits.functions.passed import REJECT_OPTION, REPORTING
from samebits.functions.request import CompareRequest, compare_request, short_text
from samebits.functions.result import Comparing
from samebits.host import environment
from samebits.host.backend_start import require_answer
from samebits.host.isolation import take_notes
from samebits.programs.catalogue import Locator
from samebits.programs.other_sizes import at_sizes, read_sizes, sizes_text
from samebits.programs.plan import Plan, Request, plan
from samebits.programs.replay import CALL, without_group
from samebits.rooms import door
from samebits.schema.argument_trees import ArgTree
from samebits.schema.case import Arg
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Effort
from samebits.schema.result import Problem

if TYPE_CHECKING:
    from samebits.programs.program_cache import Programs
    from samebits.programs.sides import Site, TracedSides

_PACKAGE = str(Path(__file__).resolve().parent.parent)

PAIRS = 64
"""Of how many comparisons the programs are held; those compared longest ago are dropped first."""


class SharedPrograms:
    """The programs of a process, by the name of the comparison: a second call with other values compiles nothing."""

    def __init__(self) -> None:
        from samebits.programs.program_cache import Programs

        self.programs = Programs()
        self._names: OrderedDict[str, None] = OrderedDict()
        self._tested = False

    def effort(self, *, assuming: bool = True, budget: float | None = None) -> Effort:
        """Return how hard the points of a comparison are tried: only the first of a process tests the checker."""
        assuming = assuming and REPORTING.assuming
        effort = Effort(selftest=not self._tested, idle_axes=True, assuming=assuming, budget=budget)
        self._tested = True
        return effort

    def use(self, name: str) -> Programs:
        """Return the programs, for a comparison of this name."""
        self._names[name] = None
        self._names.move_to_end(name)
        while len(self._names) > PAIRS:
            self.programs.forget(self._names.popitem(last=False)[0])
        return self.programs


@functools.cache
def session() -> SharedPrograms:
    """Return the session of this process."""
    return SharedPrograms()


def assert_same(
    reference: Callable[..., Any],
    variant: Callable[..., Any],
    /,
    *args: Any,
    mesh: Any = None,
    specs: Any = None,
    accept: str | None = None,
    **more: Any,
) -> None:
    """Fail unless a second function is the same as the first on these arguments, forward and gradient.

    Both are compiled and run on the arguments and on variations of them; where both only move data or compute the same
    formulas, that is proved. Equivalent to `check(...).raise_for_status()`. An `OtherInputsWarning` says where they are
    the same on these inputs, and differ on others.

    Args:
        reference: the function that is right by definition. It runs on one device, and on the mesh where there is one.
        variant: the function that stands in for it.
        args: what both are called with: arrays of any shape and dtype, `jax.ShapeDtypeStruct`, random keys, and any
            pytree of them. What has no array in it is passed on as it is.
        mesh: a `jax.sharding.Mesh`, or the id of one such as `dp2_tp4`; by default the mesh of the arrays, or none.
        specs: one `PartitionSpec` for all arguments, a sequence of one per argument (or a tree of them), or a dict by
            name; by default each array's own sharding, or else its dimensions are split over the axes in their order.
        accept: the lowest verdict that passes: `proved`, `bitwise` or `rounding`. By default the same bits of what only
            moves data, and rounding of what computes.
        more: `gradients=False`, `seeds=3`, `accuracy=4`, `budget=60`, `assumptions=False`, `rename={"q": "query"}`,
            `adapt=Adapt(...)`, `has_aux=True`, `name=...`, `exactly=("ids",)`, `values={"ids": Integers(high=8)}`, as
            in `CompareOptions`; and keyword arguments of the functions.

    Raises:
        AssertionError: a leaf is different, or below what is accepted; the message has the witness.
        RequestError: the functions do not take the arguments, there is no array among them, or the mesh does not fit.
        CouldNotRun: nothing differs, but a function raised, or a leaf could not be decided.
    """
    __tracebackhide__ = True
    options = {"mesh": mesh, "specs": specs, "accept": accept, **more}
    run_functions(compare_request(reference, variant, args, options)).raise_for_status()


def check(reference: Callable[..., Any] | Pair, /, *args: Any, **more: Any) -> Comparing:
    """Judge two functions or a declared pair as `samebits check` does.

    Args:
        reference: the first function; or a `Pair`, alone or with `Request(...)` as second argument.
        args: the second function and what both are called with, as for `assert_same`.
        more: as for `assert_same`.

    Returns:
        The verdict, and one record per leaf.

    Raises:
        RequestError: as for `assert_same`.
        DeclarationError: the pair cannot be checked as declared.
    """
    if isinstance(reference, Pair):
        filters, assuming = _filters("check", args, more)
        return run_pair(reference, filters, assuming=assuming)
    return run_functions(_call("check", reference, args, more))


def prove(reference: Callable[..., Any] | Pair, /, *args: Any, **more: Any) -> Comparing:
    """What can be proved of two functions or of a declared pair; nothing is compiled or run, and no device is needed.

    Args:
        reference: the first function; or a `Pair`, alone or with `Request(...)` as second argument.
        args: the second function and what both are called with, as for `assert_same`. Shapes suffice.
        more: as for `assert_same`; a mesh may be of any size. With `sizes=` it is proved for every size at once, in
            auto mode: `sizes={"x": "batch, length, dim", "length": "4*cp*g", "cp": "2*c"}` gives by array its shape,
            and by static argument or by name in a shape what it is of free symbols; `sizes="all"` makes every
            dimension a symbol, equal ones the same. Of a pair, `sizes="all"` takes the symbols of its cases.

    Returns:
        The verdict, and one record per leaf.

    Raises:
        RequestError: as for `assert_same`.
        DeclarationError: the pair cannot be proved as declared.
    """
    from samebits.check.contract_audit import ANY_DEVICES
    from samebits.check.prove_points import prove_points

    begin = time.perf_counter()
    of_functions, notes = not isinstance(reference, Pair), tuple[str, ...]()
    if isinstance(reference, Pair):
        every = more.get("sizes") == "all"
        more = {name: value for name, value in more.items() if not (every and name == "sizes")}
        filters, assuming = _filters("prove", args, more)
        pair = at_sizes(reference, read_sizes(filters.sizes))
        ran = plan(pair, filters, ANY_DEVICES)
    else:
        request = _call("prove", reference, args, more)
        every, assuming = request.options.sizes is not None, request.options.assumptions
        pair, notes = to_prove(pair_of(request), request.options.sizes)
        ran = function_plan(pair, ANY_DEVICES)
    locator = Locator(name=pair.name, rerun=rerun())
    assuming = assuming and REPORTING.assuming
    if every and not assuming:
        raise RequestError("sizes= prints what it assumes of sizes; it does not go with assumptions=False")
    proofs = (
        door("sizes.points").prove_sizes(pair, locator, ran)
        if every
        else prove_points(pair, locator, ran, assuming=assuming)
    )
    leaves = tuple(proofs)
    if of_functions:
        leaves = with_call_assumptions(leaves, pair, session().use(pair.name), assuming=assuming)
    return compared(pair, leaves, begin, notes)


def _call(command: str, reference: Any, args: tuple[Any, ...], more: dict[str, Any]) -> CompareRequest:
    """Return two functions and their call, of which the first function is named apart."""
    if not args:
        raise RequestError(
            f"samebits.{command}({short_text(reference)}): one function and nothing else; expected two functions and "
            "their arguments, or a Pair"
        )
    return compare_request(reference, args[0], args[1:], more)


def _filters(command: str, args: tuple[Any, ...], more: dict[str, Any]) -> tuple[Request, bool]:
    """Return what is asked for of a declared pair: everything, or a `Request`; and whether assumptions are accepted."""
    more, assuming = dict(more), bool(more.get("assumptions", True))
    more.pop("assumptions", None)
    if more or len(args) > 1 or not all(isinstance(request, Request) for request in args):
        raise RequestError(
            f"samebits.{command}(PAIR) takes a pair, and Request(...) to select from it, and assumptions=False; got "
            f"{', '.join([*map(short_text, args), *more])} besides"
        )
    return (args[0] if args else Request()), assuming


def run_functions(request: CompareRequest) -> Comparing:
    """Return the verdicts on two functions."""
    from samebits.check.run_points import run_points

    begin = time.perf_counter()
    if request.options.sizes is not None:
        raise RequestError("sizes= is of samebits.prove; what is run has the sizes of its arguments: leave it out")
    if isinstance(request.options.mesh, str):
        environment.prepare()
    require_answer()
    pair = pair_of(request)
    _require_no_trace()
    _require_devices(pair)
    programs = session().use(pair.name)
    built = _built(request, pair)
    pair, notes = with_gradients(pair, programs, built)
    locator = Locator(name=pair.name, rerun=rerun())
    ran = function_plan(pair)
    meshes: dict[tuple[str, str], Any] = {(pair_mesh(pair).id, pair.modes[0]): built}
    effort = session().effort(assuming=request.options.assumptions, budget=request.options.budget)
    leaves = tuple(run_points(pair, locator, ran.points, programs, effort, meshes))
    return compared(pair, with_call_assumptions(leaves, pair, programs, assuming=effort.assuming), begin, notes)


def run_pair(pair: Pair, request: Request, *, assuming: bool = True) -> Comparing:
    """Return the verdicts on a declared pair, as `samebits check` gives them for it."""
    from samebits.check.contract_audit import judge_declaration
    from samebits.check.run_points import run_points

    begin = time.perf_counter()
    environment.prepare()
    require_answer()
    sizes = read_sizes(request.sizes)
    pair = at_sizes(pair, sizes).on(environment.devices_here()[0].platform)
    ran = plan(pair, request, len(environment.devices_here()))
    locator = Locator(name=pair.name, rerun=rerun(), sizes=sizes_text(sizes))
    effort = Effort(assuming=assuming and REPORTING.assuming)
    leaves = tuple(run_points(pair, locator, ran.points, session().use(pair.name), effort))
    audit = judge_declaration(pair, ran, leaves)
    return compared(pair, leaves, begin, audit.notes, audit.problems)


def compared(
    pair: Pair, leaves: Iterable[Finding], begin: float, notes: Iterable[str] = (), problems: Iterable[Problem] = ()
) -> Comparing:
    """Record a comparison with the notes made meanwhile, for the report of this process too."""
    return Comparing(
        name=pair.name,
        reference=pair.reference_name,
        leaves=tuple(leaves),
        problems=tuple(problems),
        notes=(*notes, *take_notes()),
        seconds=time.perf_counter() - begin,
    ).noted()


def to_prove(pair: Pair, sizes: Mapping[str, str] | Literal["all"] | None) -> tuple[Pair, tuple[str, ...]]:
    """Return the pair of two functions as it is proved, without gradients that do not exist, and notes."""
    pair, notes = with_gradients(pair, session().use(pair.name), pair_mesh(pair).abstract(pair.modes[0]))
    return (pair if sizes is None else door("sizes.named_dimensions").with_sizes(pair, sizes)), notes


def function_plan(pair: Pair, devices: int | None = None) -> Plan:
    """Return the points of two functions: those of the variant, and on a mesh those of the reference too."""
    import jax

    return plan(pair, function_request(pair), len(jax.devices()) if devices is None else devices)


def function_request(pair: Pair) -> Request:
    """Return what runs of two functions: the variant, and on a mesh the reference there too."""
    return Request(variants=pair.variant_names if pair_mesh(pair).devices == 1 else ())


def pair_mesh(pair: Pair) -> MeshSpec:
    """Return the mesh of two functions."""
    return MeshSpec.parse((*pair.meshes, *pair.wide_meshes)[0])


def rerun() -> str:
    """Return what shows a result of the current call again: the running test, or the line of the call."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test:
        return f"pytest '{without_group(test)}'" + ("" if REPORTING.assuming else f" {REJECT_OPTION}")
    frame = sys._getframe(1)
    while frame.f_back is not None and str(Path(frame.f_code.co_filename).resolve()).startswith(_PACKAGE):
        frame = frame.f_back
    return f"{CALL}{frame.f_code.co_filename}:{frame.f_lineno}"


def with_gradients(pair: Pair, programs: Programs, built: Any) -> tuple[Pair, tuple[str, ...]]:
    """Return the pair with gradients where there are any to compare, and notes about those left out."""
    from samebits.check.sites import TraceOrder
    from samebits.programs.host_trees import AFTER, named_leaves, touched
    from samebits.programs.sides import Site, TracedSides

    (case,), mesh = pair.cases[:1], pair_mesh(pair)
    sides = TracedSides(pair, programs)
    alone = Site(case=case, dtype=pair.dtypes[0], mesh=mesh, mode=pair.modes[0], built=None)
    on_mesh = dict.fromkeys(pair.variant_names, replace(alone, built=built))
    sites, order = {**on_mesh, pair.reference_name: alone}, TraceOrder(sides)
    order.require_same(order.before(sites), sites)
    forward = sides.forward(pair.reference_name, alone)
    if forward.error is not None:
        return pair, ()  # running it gives the error, with its line
    import jax

    from samebits.programs.side_call import ignored_note  # imports jax

    notes: tuple[str, ...] = ()
    if pair.ignore:
        whole = TracedSides(replace(pair, ignore=()), programs)
        traced = {side: whole.forward(side, site) for side, site in sites.items()}
        if all(program.error is None for program in traced.values()):
            outputs = {side: each.traced.out_info for side, each in traced.items()}
            paths = {s: [*named_leaves(o, "forward"), *(f"{p}{AFTER}" for p in touched(o))] for s, o in outputs.items()}
            notes = (ignored_note(pair.ignore, paths),)
    if not jax.tree.leaves(forward.traced.out_info):
        raise RequestError(f"'{pair.reference_name}' returns no array; there is nothing to compare")
    if not pair.gradients:
        return pair, notes
    if not sides.pulled_back(forward.traced.out_info):
        return replace(pair, gradients=False), (*notes, f"'{pair.reference_name}' has no float output: no gradient")
    pair, left_out = without_zero_gradients(pair, sides, {pair.reference_name: alone, **on_mesh})
    return pair, (*notes, *left_out)


def _require_no_trace() -> None:
    """Reject a call in a function that is being traced, where programs of its own are traced into that one."""
    import jax

    # `device_put` compiles nothing: 0.4 ms, where `zeros` takes 10 ms.
    if isinstance(jax.device_put(0.0), jax.core.Tracer):
        raise RequestError(f"this was called while jax traces the function around it: {OUTSIDE}")


def _require_devices(pair: Pair) -> None:
    """Reject a mesh that is larger than the machine."""
    import jax

    mesh, available = pair_mesh(pair), len(jax.devices())
    if mesh.devices > available:
        raise RequestError(
            f"mesh '{mesh.id}' needs {mesh.devices} devices and {available} are there; on CPU set "
            f"JAX_NUM_CPU_DEVICES={mesh.devices} in the environment, or call jax.config.update('jax_num_cpu_devices', "
            f"{mesh.devices}) before the first use of jax"
        )


def _built(request: CompareRequest, pair: Pair) -> Any:
    """Return the mesh that the caller built, or one of the first devices; None without a mesh."""
    import jax

    mesh = request.options.mesh
    return mesh if isinstance(mesh, jax.sharding.Mesh) else pair_mesh(pair).build(pair.modes[0])


def without_zero_gradients(pair: Pair, sides: TracedSides, sites: Mapping[str, Site]) -> tuple[Pair, tuple[str, ...]]:
    """Drop the gradients that are zero by construction on both sides, with a note about them.

    Comparing two arrays of such zeros would say nothing. Where only one of the two functions ignores an argument, the
    gradients are compared and differ.
    """
    from samebits.programs.host_trees import named_leaves

    names: set[str] | None = None
    paths: list[str] = []
    for side, site in sites.items():
        try:
            program = sides.gradient(side, site)
        except CouldNotRun:  # running it gives the error, with its line
            return pair, ()
        if program.error is not None:
            return pair, ()
        paths = list(named_leaves(program.traced.out_info, "gradient"))
        closed = program.traced.jaxpr
        zero = {
            path for path, out in zip(paths, closed.jaxpr.outvars, strict=True) if _is_zero(closed.jaxpr, out, depth=0)
        }
        names = zero if names is None else names & zero
    if not names:
        return pair, ()
    args = {name: _without(name, declared, names) for name, declared in dict(pair.args).items()}  # type: ignore[arg-type]
    left = ", ".join(sorted(names))
    note = f"no gradient with respect to {left}: neither function's result depends on it differentiably"
    changed = replace(pair, args=args)
    everything = names >= set(paths)
    return (replace(changed, gradients=False) if everything else changed), (note,)


def _without(name: str, tree: Arg | ArgTree, names: set[str]) -> Arg | ArgTree:
    def left_out(path: str, arg: Arg) -> Arg:
        return replace(arg, differentiable=False) if path in names else arg

    return left_out(name, tree) if isinstance(tree, Arg) else tree.changed(name, left_out)


def _is_zero(jaxpr: Any, variable: Any, *, depth: int) -> bool:
    """Return whether a value of a jaxpr is a constant zero that does not depend on any input."""
    value = getattr(variable, "val", None)
    if value is not None:
        return getattr(value, "ndim", 0) == 0 and bool(value == 0)
    equation = next((e for e in jaxpr.eqns if any(out is variable for out in e.outvars)), None)
    if equation is None or depth > 20:
        return False
    if equation.primitive.name in ("broadcast_in_dim", "convert_element_type", "reshape", "sharding_constraint"):
        return _is_zero(jaxpr, equation.invars[0], depth=depth + 1)
    if equation.primitive.name in ("jit", "pjit"):
        inner = equation.params["jaxpr"].jaxpr
        place = next(i for i, out in enumerate(equation.outvars) if out is variable)
        return _is_zero(inner, inner.outvars[place], depth=depth + 1)
    return False
