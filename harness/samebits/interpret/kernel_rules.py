"""What kernels do to memory beyond jax's own interpretation of them: copies, views of views, memory for a scope.

A copy within a device may happen at any time between its start and its wait. It is read both ways: as done when it
starts, and as done when it is waited for, with nothing to read until then. Where both give the same results, no time
in between gives others. What is written to a prefetched operand stays there for the steps of the grid that follow.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core
from jax._src.interpreters import partial_eval
from jax._src.pallas import hlo_interpreter, primitives
from jax._src.pallas.mosaic import primitives as mosaic
from jax._src.state import discharge, indexing
from jax._src.state.types import AbstractRef, TransformedRef
from jax.extend.core import ClosedJaxpr

from samebits.interpret.equation import scan_sizes
from samebits.interpret.kernel_steps import inner_jaxprs

Rule = Callable[..., tuple[Sequence[Any], Any]]
"""Of the types of an equation's inputs, then these: their contents after it, and its results."""

_WHOLE, _PARTIAL = discharge.__dict__["_discharge_rules"], discharge.__dict__.get("_partial_discharge_rules")
"""Rules by primitive; newer versions of jax have no others than the first, and hand on the types in a context."""

_ONE_AT_A_TIME = threading.RLock()
"""Programs are lowered in several threads, and the tables of rules are jax's own."""


@contextlib.contextmanager
def rules(late: bool) -> Iterator[None]:
    """Use these rules; `late` reads copies as done when they are waited for."""
    with _ONE_AT_A_TIME:
        theirs, before, partly = hlo_interpreter.kernel_to_hlo_jaxpr, dict(_WHOLE), dict(_PARTIAL or {})

        def keeping_operands(jaxpr: Any, consts: Any, grid_mapping: Any) -> tuple[Any, Any, Sequence[Any]]:
            kernel, constants, scratch = theirs(jaxpr, consts, grid_mapping)
            if any(_counts(inner) for eqn in kernel.eqns for inner in inner_jaxprs(eqn)):
                kernel, constants = _counting_outside(kernel, constants, grid_mapping)
            return _keeping_operands(kernel, constants, scratch, grid_mapping)

        for primitive in (primitives.load_p, primitives.swap_p):
            _WHOLE[primitive] = _viewed(before[primitive])
        ours = _WHOLE if _PARTIAL is None else _PARTIAL
        ours[mosaic.dma_start_p] = _adapted(functools.partial(_started, late))
        ours[mosaic.dma_wait_p] = _adapted(functools.partial(_waited_for, late))
        ours[primitives.run_scoped_p] = _adapted(_scoped)
        hlo_interpreter.kernel_to_hlo_jaxpr = keeping_operands
        try:
            yield
        finally:
            hlo_interpreter.kernel_to_hlo_jaxpr = theirs
            _WHOLE.update(before)
            if _PARTIAL is not None:
                _PARTIAL.update(partly)


def _adapted(rule: Rule) -> Callable[..., Any]:
    """A rule as this version of jax calls it."""
    if _PARTIAL is None:
        return lambda context, *args, **params: rule(context.in_avals, *args, **params)
    return lambda _, in_avals, out_avals, *args, **params: rule(in_avals, *args, **params)


# -- copies


def _split(view: Any) -> tuple[Any, tuple[Any, ...]]:
    return (view.ref, view.transforms) if isinstance(view, TransformedRef) else (view, ())


def _started(late: bool, _: Any, *args: Any, tree: Any, add: bool = False, **__: Any) -> Any:
    (source, target, semaphore, _, device), places = tree.unflatten(args), tree.unflatten(range(len(args)))
    if device is not None or add:
        raise NotImplementedError("a copy to another device" if device is not None else "a copy that adds")
    value = discharge.transform_array(*_split(source))
    if late:
        value = primitives.uninitialized_value(value.shape, value.dtype)
    count = discharge.transform_array(*_split(semaphore))
    return _written(args, [(target, places[1], value), (semaphore, places[2], count + 1)]), []


def _waited_for(late: bool, _: Any, *args: Any, tree: Any, **__: Any) -> Any:
    (source, target, semaphore, *_), places = tree.unflatten(args), tree.unflatten(range(len(args)))
    count = discharge.transform_array(*_split(semaphore))
    writes = [(semaphore, places[2], count - 1)]
    if late:
        value = discharge.transform_array(*_split(source))
        nothing = primitives.uninitialized_value(value.shape, value.dtype)
        writes.append((target, places[1], jnp.where(count > 0, value, nothing)))
    return _written(args, writes), []


def _written(args: Sequence[Any], writes: Sequence[tuple[Any, Any, Any]]) -> list[Any]:
    """The new contents of the memory among the arguments, after writes through views."""
    new: list[Any] = [None] * len(args)
    for view, place, value in writes:
        memory, transforms = _split(view)
        new[_split(place)[0]] = discharge.transform_swap_array(memory, transforms, value)[1]
    return new


# -- views, scopes and operands


def _viewed(theirs: Rule) -> Rule:
    """A load or a store with a mask, of a view of a view too, and at places that Python counted."""

    def rule(first: Any, *args: Any, args_tree: Any, **params: Any) -> Any:
        if _PARTIAL is not None:
            args = args[1:]  # without the types of the results
        memory, transforms, *rest = args_tree.unflatten(args)
        views, last = list(transforms), []
        if views and isinstance(views[-1], indexing.NDIndexer):
            at = views.pop()
            arrays = tuple(jnp.asarray(each) if isinstance(each, int) else each for each in at.indices)
            last = [replace(at, indices=arrays)]
        view = discharge.transform_array(memory, views)
        flat, tree = jax.tree.flatten((view, last, *rest))
        avals = [AbstractRef(core.typeof(view)), *map(core.typeof, flat[1:])]
        types = (replace(first, in_avals=avals),) if _PARTIAL is None else (avals, None)
        (stored, *_), out = theirs(*types, *flat, args_tree=tree, **params)
        if stored is not None:
            stored = discharge.transform_swap_array(memory, views, stored)[1]
        return (stored, *[None] * (len(args) - 1)), out

    return rule


def _scoped(in_avals: Any, *args: Any, jaxpr: Any, **params: Any) -> Any:
    """Memory for a scope holds nothing at its beginning."""
    if params.get("collective_axes"):
        raise NotImplementedError("memory for a scope of several cores")
    body = ClosedJaxpr(partial_eval.convert_constvars_jaxpr(jaxpr), ())
    fresh = [primitives.uninitialized_value(var.aval.shape, var.aval.dtype) for var in jaxpr.invars]
    plain: dict[str, Any] = {"strip_memory_space": True} if _PARTIAL is None else {}
    closed = discharge.discharge_state(body, **plain)
    outputs = core.eval_jaxpr(closed.jaxpr, closed.consts, *args, *fresh)
    results, memory = outputs[: len(jaxpr.outvars)], iter(outputs[len(jaxpr.outvars) :])
    return [next(memory) if isinstance(aval, AbstractRef) else None for aval in in_avals], results


def _keeping_operands(jaxpr: Any, consts: Any, scratch: Sequence[Any], mapping: Any) -> tuple[Any, Any, Sequence[Any]]:
    """A kernel without references, in which prefetched operands keep what is written to them.

    They are carried as scratch memory is, behind a number that is the smallest integer before the first step.
    """
    count = mapping.num_index_operands
    pairs = zip(jaxpr.invars[:count], jaxpr.outvars[:count], strict=True)
    written = [number for number, (before, after) in enumerate(pairs) if before is not after]
    if not written:
        return jaxpr, consts, scratch
    axes = len(mapping.grid)
    for block in mapping.block_mappings:
        places = block.index_map_jaxpr.jaxpr
        read = {*map(id, places.outvars), *(id(var) for eqn in places.eqns for var in eqn.invars)}
        if any(id(places.invars[axes + number]) in read for number in written):
            raise NotImplementedError("a prefetched operand is written, and says which block comes next")
    kept = [jaxpr.invars[number].aval for number in written]
    clock = core.ShapedArray((), np.dtype(np.int32))

    def step(*operands: Any) -> list[Any]:
        values, before, steps = list(operands[: len(jaxpr.invars)]), operands[len(jaxpr.invars) : -1], operands[-1]
        for number, value in zip(written, before, strict=True):
            values[number] = jnp.where(steps < 0, values[number], value)
        outputs = core.eval_jaxpr(jaxpr, consts, *values)
        return [*outputs, *(outputs[number] for number in written), jnp.int32(0)]

    with mapping.trace_env():
        avals = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in (*jaxpr.in_avals, *kept, clock)]
        program = jax.make_jaxpr(step)(*avals)
    return program.jaxpr, program.consts, [*scratch, *kept, clock]


# -- the number of a step, which jax's interpretation knows outside of conditions and loops alone


def _counts(jaxpr: Any) -> bool:
    return any(
        eqn.primitive.name in _COUNTS or any(_counts(inner) for inner in inner_jaxprs(eqn))
        for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns
    )


_COUNTS = {"program_id": primitives.program_id, "num_programs": primitives.num_programs}


def _counting_outside(jaxpr: Any, consts: Any, mapping: Any) -> tuple[Any, Any]:
    """A kernel that asks for the numbers of its step before all else."""
    axes = [axis for axis in range(len(mapping.grid)) if axis not in mapping.vmapped_dims]

    def step(*operands: Any) -> list[Any]:
        numbers = {(name, axis): ask(axis) for name, ask in _COUNTS.items() for axis in range(len(axes))}
        return _evaluated(ClosedJaxpr(jaxpr, consts), operands, numbers)

    with mapping.trace_env():
        program = jax.make_jaxpr(step)(*(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals))
    return program.jaxpr, program.consts


def _evaluated(closed: Any, operands: Any, numbers: Any) -> list[Any]:
    """The outputs of a jaxpr, given the numbers of the step."""
    jaxpr = getattr(closed, "jaxpr", closed)
    consts = getattr(closed, "consts", ())
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *operands), strict=True))

    def read(var: Any) -> Any:
        return var.val if hasattr(var, "val") else known[var]

    outputs: Any
    for eqn in jaxpr.eqns:
        values, params = [read(var) for var in eqn.invars], eqn.params
        if eqn.primitive.name in _COUNTS:
            outputs = [numbers[eqn.primitive.name, params["axis"]]]
        elif any(_counts(inner) for inner in inner_jaxprs(eqn)):
            outputs = _control(eqn, values, lambda inner, inputs: _evaluated(inner, inputs, numbers))
        else:
            outputs = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(params))
            outputs = outputs if eqn.primitive.multiple_results else [outputs]
        known |= zip(eqn.outvars, outputs, strict=True)
    return [read(var) for var in jaxpr.outvars]


def _control(eqn: Any, values: list[Any], run: Callable[..., list[Any]]) -> Sequence[Any]:
    """The outputs of a condition, a loop or a call whose parts `run` evaluates."""
    params = eqn.params
    if eqn.primitive.name == "cond":
        branches = [functools.partial(lambda branch, *inputs: run(branch, inputs), each) for each in params["branches"]]
        outputs: list[Any] = jax.lax.switch(values[0], branches, *values[1:])
        return outputs
    if eqn.primitive.name == "while":
        tests, bodies = params["cond_nconsts"], params["body_nconsts"]
        test, body, carry = values[:tests], values[tests : tests + bodies], values[tests + bodies :]
        return jax.lax.while_loop(
            lambda carry: run(params["cond_jaxpr"], [*test, *carry])[0],
            lambda carry: run(params["body_jaxpr"], [*body, *carry]),
            carry,
        )
    if eqn.primitive.name == "scan":
        fixed, carries = scan_sizes(params)
        consts, carry, rows = values[:fixed], values[fixed : fixed + carries], values[fixed + carries :]

        def advanced(carry: Any, row: Any) -> tuple[Any, Any]:
            outputs = run(params["jaxpr"], [*consts, *carry, *row])
            return outputs[:carries], outputs[carries:]

        carry, rows = jax.lax.scan(advanced, carry, rows, params["length"], params["reverse"])
        return [*carry, *rows]
    (inner,) = inner_jaxprs(eqn)
    return run(inner, values)
