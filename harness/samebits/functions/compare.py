"""`samebits.assert_same`, `check` and `prove`: two functions, or a declared pair, compared from Python."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from samebits.errors import RequestError
from samebits.functions.as_pair import pair_of
from samebits.functions.call_assumptions import with_call_assumptions
from samebits.functions.passed import REPORTING
from samebits.functions.request import CompareRequest, compare_request, short_text
from samebits.functions.result import Comparing
from samebits.functions.run import compared, function_plan, rerun, run_functions, run_pair, to_prove
from samebits.programs.catalogue import Locator
from samebits.programs.other_sizes import at_sizes, read_sizes
from samebits.programs.plan import Request, plan
from samebits.rooms import door
from samebits.schema.pair import Pair


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
    return compared(
        pair, with_call_assumptions(leaves, pair, assuming=assuming) if of_functions else leaves, begin, notes
    )


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
