"""Builds one configuration, compiles its training step for its mesh, all of which is used, and runs it step by step."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from samebits.errors import CouldNotRun, DeclarationError, MeshNotUsed, SamebitsError
from samebits.host.environment import compile_options
from samebits.host.group import LockstepGroup
from samebits.programs.captured_values import equations
from samebits.programs.placement import idle_axes, on_host, put_tree, sharding
from samebits.programs.program_cache import CompileSetup
from samebits.rooms import door
from samebits.schema.meshes import MeshSpec, Mode
from samebits.schema.model import Config, Defect, Model, Training
from samebits.schema.validate import expected
from samebits.train.parts import chosen_parts
from samebits.train.record import Recorded, RunRecord, step_record
from samebits.user_errors import one_line


# Traces one training step of a configuration for its mesh, of any size, without devices and without compiling.
@dataclass(frozen=True, kw_only=True, slots=True)
class TracedStep:
    """A traced training step.

    Args:
        jaxpr: the closed jaxpr; its inputs are the flat state and batch, its outputs those of `names`.
        state, batch: the initial state and the first batch, in NumPy.
    """

    jaxpr: Any
    training: Training
    state: Any
    batch: Mapping[str, Any]
    inputs: tuple[str, ...]
    names: tuple[str, ...]


def trace_training_step(model: Model, config: Config, root: Path, defect: Defect | None = None) -> TracedStep:
    """Return the step of a configuration, traced for a mesh without devices.

    Raises:
        DeclarationError: the configuration cannot be built.
        CouldNotRun: the step cannot be traced.
    """
    model.check(config)
    mesh = MeshSpec.parse(config.mesh)
    built = _abstract(mesh, config.shard_mode)
    parts = chosen_parts(model, config, root)
    try:
        training = model.build(config, defect.plant(parts) if defect else parts)
        state, batch = training.initial(), training.batch(1)
        places = (
            shardings(training.state_spec, state, mesh, built),
            shardings(training.batch_spec, batch, mesh, built),
        )
        with CompileSetup(mesh=built).active(), jax.default_matmul_precision("highest"):
            program = jax.jit(training.step, keep_unused=True).trace(*(map(types, (state, batch), places)))
    except SamebitsError:
        raise
    except Exception as error:
        raise CouldNotRun(f"config '{config.name}' {one_line(error)}") from error
    return TracedStep(
        jaxpr=program.jaxpr,
        training=training,
        state=state,
        batch=batch,
        inputs=tuple(_names((state, batch), ("", "batch/"))),
        names=tuple(_names(program.out_info, ("", ""))),
    )


def _abstract(mesh: MeshSpec, mode: Mode) -> AbstractMesh:
    """Return a mesh without devices that states the kind of its devices, for parts that query it."""
    plain = mesh.abstract(mode)
    assert plain is not None, "a configuration has a mesh"
    kind = jax.make_mesh((1,), ("data",), devices=jax.local_devices()[:1]).abstract_mesh.abstract_device
    return AbstractMesh(plain.axis_sizes, plain.axis_names, axis_types=plain.axis_types, abstract_device=kind)


def shardings(specs: Any, arrays: Any, mesh: MeshSpec, built: Mesh | AbstractMesh, name: str = "state") -> Any:
    """Return the sharding of every array of a tree, from the tree of partition specs."""
    if isinstance(arrays, Mapping):
        return {key: shardings(specs[key], value, mesh, built, key) for key, value in arrays.items()}
    return sharding(specs, arrays.shape, name, mesh, built)


def replicated(built: Mesh | AbstractMesh) -> NamedSharding:
    """Return the sharding of a replicated array."""
    return NamedSharding(built, PartitionSpec())


def types(arrays: Any, places: Any) -> Any:
    """Return the `jax.ShapeDtypeStruct`s of a tree of arrays or types, with shardings."""
    return jax.tree.map(lambda x, at: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=at), arrays, places)


def _names(trees: Any, prefixes: tuple[str, ...]) -> list[str]:
    names = []
    for tree, prefix in zip(trees, prefixes, strict=True):
        for path, _ in jax.tree_util.tree_leaves_with_path(tree):
            names.append(prefix + "/".join(str(entry.key) for entry in path))
    return names


class Trainer:
    """Compiles the training step of one configuration in a thread, and runs it.

    Args:
        group: the processes that the mesh spans; None in a process of its own.

    Raises:
        DeclarationError: the configuration cannot be built, or a spec names an axis that no mesh of the model has.
        CouldNotRun: the step cannot be traced, or nothing is split over an axis of the mesh.
    """

    def __init__(
        self,
        model: Model,
        config: Config,
        root: Path,
        pool: ThreadPoolExecutor,
        defect: Defect | None = None,
        group: LockstepGroup | None = None,
    ) -> None:
        self.config, self.group = config, group
        self.mesh = MeshSpec.parse(config.mesh)
        begin = time.perf_counter()
        model.check(config)
        built = self.mesh.build(config.shard_mode)
        assert built is not None, "a configuration has a mesh"
        self.built = built
        parts = chosen_parts(model, config, root)
        try:
            self.training: Training = model.build(config, defect.plant(parts) if defect else parts)
            self.start = self.training.initial()  # off the mesh, in C order of its leaves
            with self._active():
                first = self.training.batch(1)
                require_known_axes(model, config, self.training)
                self._state_at = shardings(self.training.state_spec, self.start, self.mesh, self.built)
                self._batch_at = shardings(self.training.batch_spec, first, self.mesh, self.built)
                lowered = self._lower(first)
        except SamebitsError:
            raise
        except Exception as error:
            raise CouldNotRun(f"config '{config.name}' {one_line(error)}") from error
        self._seconds = time.perf_counter() - begin
        self._compiled: Future[Any] = pool.submit(self._compile, lowered)

    def _active(self) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(jax.set_mesh(self.built))
        stack.enter_context(jax.default_matmul_precision("highest"))
        return stack

    def _lower(self, batch: Any) -> Any:
        whole = replicated(self.built)
        outputs = {"loss": whole, "perplexity": whole, "gradients": self._state_at["parameters"]}
        jitted = jax.jit(self.training.step, out_shardings=(self._state_at, outputs))
        arguments = types(self.start, self._state_at), types(batch, self._batch_at)
        self.traced = jitted.trace(*arguments)
        require_axes_used(self.config, arguments, self.traced.jaxpr)
        return self.traced.lower()

    def _compile(self, lowered: Any) -> Any:
        begin = time.perf_counter()
        with self._active():
            compiled = lowered.compile(compiler_options=compile_options() or None)
        self._seconds += time.perf_counter() - begin
        return compiled

    def compiled(self) -> Any:
        """Return the compiled step; waits for its thread.

        Raises:
            CouldNotRun: the step does not compile.
        """
        try:
            return self._compiled.result()
        except Exception as error:
            raise CouldNotRun(f"config '{self.config.name}' {one_line(error)}") from error

    def single_step(self, state: Any, number: int, batch: Any = None) -> tuple[Any, Any]:
        """Run one step from a state on the host, and return the new state and the outputs on the host."""
        batch = self.training.batch(number) if batch is None else batch
        host: tuple[Any, Any] = self._fetched(self._step(put_tree(state, self._state_at), batch))
        return host

    def _step(self, state: Any, batch: Any) -> Any:
        """Run one step from a state on the devices, with a batch on the host, to its end."""
        compiled, placed = self.compiled(), put_tree(batch, self._batch_at)

        def run() -> Any:
            return jax.block_until_ready(compiled(state, placed))

        if self.group is None:
            return run()
        return door("cluster.spanning").in_step(self.group, self.built, f"config '{self.config.name}'", run)

    def _fetched(self, tree: Any) -> Any:
        """Fetch arrays to the host, whole, also where they span processes."""
        if self.group is None:
            return jax.tree.map(on_host, tree)
        return door("cluster.spanning").fetched_tree(self.group, f"config '{self.config.name}'", tree)

    def run(self, steps: int, keep: Iterable[int] = (), start: Any = None, order: Any = None) -> Recorded:
        """Train from the initial state.

        Args:
            keep: the steps before which the whole state is recorded.
            order: a function that permutes the rows of a batch.
        """
        keep = set(keep)
        record = Recorded(run=self._head(self.compiled()))
        records, times = [], []
        state = put_tree(self.start if start is None else start, self._state_at)
        for number in range(1, steps + 1):
            batch = self.training.batch(number)
            if number in keep:
                record.states[number] = self._fetched(state)
            begin = time.perf_counter()
            state, outputs = self._step(state, order(batch) if order else batch)
            times.append(time.perf_counter() - begin)
            outputs, parameters = self._fetched((outputs, state["parameters"]))
            records.append(step_record(number, outputs, parameters))
        seconds = statistics.median(times[1:] or times)
        record.run = replace(
            record.run,
            steps=tuple(records),
            step_seconds=seconds,
            tokens_per_second_per_device=self.training.tokens / seconds / self.mesh.devices,
        )
        return record

    def _head(self, compiled: Any) -> RunRecord:
        memory = compiled.memory_analysis()
        return RunRecord(
            config=self.config.name,
            digest=self.config.digest(),
            mesh=self.config.mesh,
            shard_mode=self.config.shard_mode,
            choice=dict(self.config.choice),
            dtype=self.config.dtype,
            temp_bytes=None if memory is None else int(memory.temp_size_in_bytes),
            compile_seconds=self._seconds,
        )


class _Compiling(ThreadPoolExecutor):
    def __exit__(self, *raised: object) -> None:
        self.shutdown(wait=False, cancel_futures=True)


def pool() -> ThreadPoolExecutor:
    """Return a pool of compiling threads, one per processor; leaving its block waits for none of them."""
    return _Compiling(os.cpu_count() or 1, thread_name_prefix="compile")


_NAMED_AXES = ("axes", "axis_name")
"""Parameters of collectives and of `axis_index` that name axes of the mesh."""


def require_known_axes(model: Model, config: Config, training: Training) -> None:
    """Reject a spec with an axis that no mesh of the model has; on every mesh it would be left out."""
    runs = (config, *model.all_configs().values(), *(run for preset in model.presets for run in preset.runs))
    known = tuple(dict.fromkeys(axis for run in runs for axis in MeshSpec.parse(run.mesh).names))
    for where, specs in (("state_spec", training.state_spec), ("batch_spec", training.batch_spec)):
        for name, spec in _leaves(specs):
            for axis in _axes(spec):
                if axis not in known:
                    raise DeclarationError(
                        f"config '{config.name}': {where} of '{name}' names axis '{axis}', which no mesh of the model "
                        f"has; {expected(axis, known)}"
                    )


def require_axes_used(config: Config, arguments: Any, jaxpr: Any) -> None:
    """Reject a mesh of which an axis splits neither the state nor a batch, nor anything within the step."""
    import jax

    mesh = MeshSpec.parse(config.mesh)
    idle = idle_axes(jax.tree.leaves(arguments), mesh)
    if not idle:
        return
    inside: set[str] = set()
    for equation in equations(jaxpr):
        if equation.primitive.name == "custom_partitioning":  # what it splits is known when it is compiled
            return
        for key, value in equation.params.items():
            inside.update(_split_over(value, key in _NAMED_AXES))
    idle = [axis for axis in idle if axis not in inside]
    if idle:
        raise MeshNotUsed(
            f"config '{config.name}': mesh '{mesh.id}': nothing is split over '{idle[0]}', neither the state nor a "
            f"batch nor anything within the step; give state_spec or batch_spec with '{idle[0]}', or leave the axis out"
        )


def _split_over(value: Any, names: bool) -> Iterator[str]:
    """Yield the axes in a parameter of an equation: of specs, shardings, and names where it is of names."""
    import jax

    if isinstance(value, jax.sharding.NamedSharding):
        value = value.spec
    if isinstance(value, jax.sharding.PartitionSpec):
        yield from _axes(value)
    elif isinstance(value, str):
        if names:
            yield value
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from _split_over(entry, names)


def _axes(spec: Any) -> Iterator[str]:
    for entry in spec:
        for axis in entry if isinstance(entry, tuple | list) else (entry,):
            if isinstance(axis, str):
                yield axis


def _leaves(specs: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every spec of a tree by its path; a spec may be a plain tuple, so that jax would take it apart."""
    if isinstance(specs, Mapping):
        for key, inner in specs.items():
            yield from _leaves(inner, f"{name}/{key}" if name else str(key))
    else:
        yield name, specs
