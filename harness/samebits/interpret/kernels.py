"""Pallas kernels as programs without references to memory: the grid is a loop, blocks are slices of arrays.

jax's own interpretation of kernels writes them so. It evaluates the steps of a grid in their order, whatever the device
may do at the same time; steps that write one place, and what else is wrong whatever the values are, `kernel_memory`
finds. What was never written, and what lies outside of an array, is NaN, the smallest integer or false: of floats it
shows in every result that reads it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

from samebits.errors import NotCovered
from samebits.interpret.dead_code import each_level, live
from samebits.interpret.equation import Step, type_of
from samebits.interpret.kernel_steps import inner_jaxprs
from samebits.user_errors import one_line


@functools.lru_cache(maxsize=256)
def without_references(eqn: Any, late: bool = False) -> Any:
    """Return the program of a `pallas_call`; `late`, as `kernel_rules` reads copies.

    Raises:
        NotCovered: the kernel does what has no meaning without a device, such as a copy to another one.
    """
    try:
        interpreted = _interpretation(eqn.params, late)
    except ImportError:
        raise NotCovered(f"{Step.of(eqn)}: this jax has no interpretation of kernels") from None
    avals = [var.aval for var in (*eqn.invars, *eqn.outvars)]
    wide = any(type_of(aval).dtype.itemsize == 8 for aval in avals)
    types = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in eqn.invars]
    try:
        with jax.enable_x64(wide), jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
            program = jax.make_jaxpr(interpreted)(*types)
    except Exception as error:
        raise NotCovered(f"{Step.of(eqn)}: the kernel has no form without references: {one_line(error)}") from error
    return live(program.replace(jaxpr=each_level(program.jaxpr, lambda jaxpr: folded(_reading_nothing_outside(jaxpr)))))


def copies(eqn: Any) -> bool:
    """Return whether a kernel, or an equation within one, copies between memories."""
    inner = (each for jaxpr in inner_jaxprs(eqn) for each in jaxpr.eqns)
    return eqn.primitive.name == "dma_start" or any(map(copies, inner))


def _interpretation(params: Mapping[str, Any], late: bool = False) -> Callable[..., Any]:
    """Return the function of its operands that a kernel is."""
    from jax._src.pallas.hlo_interpreter import pallas_call_hlo_interpret as interpreted  # it has no public name

    from samebits.interpret.kernel_rules import rules

    known = inspect.signature(interpreted).parameters

    def kernel(*operands: Any) -> Any:
        with rules(late):
            return interpreted(*operands, **{name: value for name, value in params.items() if name in known})

    return kernel


def _altered(params: Mapping[str, Any], *operands: Any) -> list[Any]:
    """Return what a kernel gives, moved: floats by one and integers by one, booleans turned."""
    results = _interpretation(params)(*operands)
    return [~each if each.dtype == bool else each + jax.numpy.ones((), each.dtype) for each in results]


_OF_INDICES: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "lt": np.less,
    "mul": np.multiply,
    "select_n": lambda which, *cases: cases[int(which)],
    "sub": np.subtract,
}


def folded(jaxpr: Any) -> Any:
    """Evaluate indices that are made of literals alone, others once: they are most of the equations of a kernel."""
    from jax.extend.core import Literal

    known: dict[Any, Any] = {}
    seen: dict[Any, Any] = {}
    eqns = []
    for eqn in jaxpr.eqns:
        operands = [var if hasattr(var, "val") else known.get(var, var) for var in eqn.invars]
        name, out = eqn.primitive.name, next(iter(eqn.outvars), None)
        if out is not None and name in _OF_INDICES and not out.aval.shape and not type_of(out.aval).is_float:
            key = name, *((str(x.aval), int(x.val)) if hasattr(x, "val") else x for x in operands)
            if all(hasattr(x, "val") for x in operands):
                value = _OF_INDICES[name](*(np.asarray(x.val, x.aval.dtype) for x in operands))
                known[out] = Literal(np.asarray(value, out.aval.dtype)[()], out.aval)
            elif seen.setdefault(key, out) is not out:
                known[out] = seen[key]
        if out not in known:
            eqns.append(eqn.replace(invars=operands))
    outvars = [var if hasattr(var, "val") else known.get(var, var) for var in jaxpr.outvars]
    return jaxpr.replace(eqns=eqns, outvars=outvars)


def _reading_nothing_outside(jaxpr: Any) -> Any:
    """Let gathers outside of an array fill: lanes that a mask leaves out have indices there."""
    filling = {"mode": jax.lax.GatherScatterMode.FILL_OR_DROP}
    eqns = [eqn.replace(params=eqn.params | filling) if eqn.primitive.name == "gather" else eqn for eqn in jaxpr.eqns]
    return jaxpr.replace(eqns=eqns)


INTERPRETED = "kernels ran on this CPU by jax's interpretation of them, step by step, not as the TPU or GPU runs them"


class _Lowering(threading.local):
    """Whether kernels that are lowered for a CPU in this thread are interpreted, and give another result then."""

    interpreted = False
    altered = False


_LOWERING = _Lowering()


@contextlib.contextmanager
def interpreted_on_cpu(*, altered: bool = False) -> Iterator[None]:
    """Lower kernels for a CPU inside as their interpretation, which jax otherwise does for `interpret=True` alone.

    Args:
        altered: whether each gives other numbers than it should, to see whether these matter.
    """
    _interpretation_registered()
    before = _LOWERING.interpreted, _LOWERING.altered
    _LOWERING.interpreted, _LOWERING.altered = True, altered
    try:
        yield
    finally:
        _LOWERING.interpreted, _LOWERING.altered = before


@contextlib.contextmanager
def compiled_once() -> Iterator[None]:
    """Compile equal programs once inside: jax compiles a kernel that is not jitted at each call anew."""
    from jax._src import compiler  # it has no public name

    compiled_by_jax = getattr(compiler, "backend_compile_and_load", None)
    if compiled_by_jax is None:  # a jax without that name compiles each anew
        yield
        return
    known: dict[tuple[str, bytes], Any] = {}

    def once(backend: Any, module: Any, devices: Any, options: Any, callbacks: Any) -> Any:
        key = module.operation.get_asm(enable_debug_info=False), options.SerializeAsString()
        if callbacks or key not in known:
            known[key] = compiled_by_jax(backend, module, devices, options, callbacks)
        return known[key]

    compiler.backend_compile_and_load = once
    try:
        yield
    finally:
        compiler.backend_compile_and_load = compiled_by_jax


@functools.cache
def _interpretation_registered() -> None:
    try:
        from jax._src.pallas.pallas_call import _pallas_call_lowering, pallas_call_p  # it has no public name
    except ImportError:  # kernels are not run, and jax says why
        return

    def on_cpu(context: Any, *operands: Any, interpret: Any, **params: Any) -> Any:
        if _LOWERING.altered:
            return mlir.lower_fun(functools.partial(_altered, params))(context, *operands)
        return _pallas_call_lowering(context, *operands, interpret=interpret or _LOWERING.interpreted, **params)

    mlir.register_lowering(pallas_call_p, on_cpu, platform="cpu")
