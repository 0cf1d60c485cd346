"""A training step on whole pods, run and proved here: how time and memory grow with the number of partitions.

Run as `python benchmarks/pods.py [PARTITIONS ...]`; by default 16, 64 and 256, each in a process of its own. The step
of `examples/pod/llama.py`, with the structure of Llama-3.1-405B and scaled widths, is compiled for a slice of tpu7x;
with `--model deepseek` that of `examples/pod/deepseek.py`, with the structure of DeepSeek-V3, and with `--model
llama3.1-405b` MaxText's own (`examples/pod/maxtext_models.py`), both for 8 by default; with `--explicit` on a mesh of
explicit axes.
The optimised program of all partitions is run on the CPU beside what was written, on one device, and both are compared
in finite fields. It prints seconds, memory and what is equal; it asserts nothing.
"""

import argparse
import importlib
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "pod"))

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from samebits.compile.compiler import compile_lowered, lower_traced
from samebits.compile.devices import target_mesh
from samebits.compile.executed import RunnableProgram
from samebits.host import environment
from samebits.interpret.field_proof import proof
from samebits.interpret.problem import Input, Question
from samebits.schema.meshes import Mode
from samebits.schema.target import Target

SLICES = {8: "2x2x1", 16: "2x2x2", 64: "2x4x4", 128: "4x4x4", 256: "4x4x8"}
"""By partitions, two on each chip: the slice of tpu7x."""

SETTINGS = {
    ("llama", 8): ("fsdp*_tensor2_context2", (4, 16)),
    ("llama", 16): ("fsdp*_tensor2_context2", (8, 16)),
    ("llama", 64): ("fsdp*_tensor4_context2", (16, 16)),
    ("llama", 128): ("fsdp*_tensor4_context2", (32, 16)),
    ("llama", 256): ("fsdp*_tensor4_context2", (32, 16)),
    ("deepseek", 8): ("fsdp*_expert4", (8, 4)),
    ("deepseek", 64): ("fsdp*_expert8", (64, 4)),
    ("llama3.1-405b", 8): ("fsdp*_tensor2_context2", (8, 16)),
}
"""By model and partitions: the mesh, and batch and length of the tokens."""

MAXTEXT = ("llama3.1-405b",)
"""The names of MaxText's own models."""


class Laps:
    """Seconds between steps, printed as they end."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()

    def end(self, step: str) -> None:
        """Print how long a step took, and the most memory until then."""
        now, peak = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"  {step}: {now - self.begin:.1f} s, {peak:.1f} GB", flush=True)
        self.begin = time.perf_counter()


def types(model: Any, shape: tuple[int, int], mesh: Any = None) -> Any:
    """Return the types of the arguments of a step, sharded on a mesh where there is one."""

    def placed(shape: tuple[int, ...], dtype: Any, spec: P) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=None if mesh is None else NamedSharding(mesh, spec))

    params = {name: placed(shape, jnp.float32, model.SPECS[name]) for name, shape in model.SHAPES.items()}
    fixed = {name: placed(shape, jnp.float32, P()) for name, shape in model.FIXED.items()}
    return params, params, params, fixed, placed(shape, jnp.int32, P(*model.TOKENS))


def drawn(model: Any, shape: tuple[int, int]) -> Iterator[tuple[str, np.ndarray]]:
    """Draw flat arguments by name: small weights, and moments of which the second are positive."""
    random = np.random.default_rng(0)
    for path, kind in jax.tree_util.tree_leaves_with_path(types(model, shape)):
        name = jax.tree_util.keystr(path)
        if kind.dtype == jnp.int32:
            yield name, random.integers(0, model.VOCABULARY, kind.shape, np.int32)
        elif name.startswith("[2]"):
            yield name, random.uniform(0.5, 1, kind.shape).astype(np.float32)
        else:
            yield name, (random.standard_normal(kind.shape) / 5).astype(np.float32)


class Forms(NamedTuple):
    """A step traced for one device and for a mesh, and its flat arguments by name."""

    written: Any
    sharded: Any
    mesh: Any
    arguments: dict[str, np.ndarray]
    layers: int


def forms(name: str, target: Target, layout: str, shape: tuple[int, int], mode: Mode) -> Forms:
    """Trace the step of a model."""
    mesh = target_mesh(target, layout, mode)
    if name in MAXTEXT:
        return Forms(*importlib.import_module("maxtext_models").forms(name, shape, mesh.size, layout, mode))
    model = importlib.import_module(name)
    written = jax.jit(model.step).trace(*types(model, shape))
    with jax.set_mesh(mesh):
        sharded = jax.jit(model.step).trace(*types(model, shape, mesh))
    return Forms(written, sharded, mesh, dict(drawn(model, shape)), model.LAYERS)


def pod(name: str, partitions: int, mode: Mode) -> None:
    """Compile, run and prove the step of a model for a number of partitions."""
    environment.prepare()
    layout, shape = SETTINGS[name, partitions]
    target, laps = Target(name=f"tpu7x:{SLICES[partitions]}"), Laps()
    written, sharded, mesh, arguments, layers = forms(name, target, layout, shape, mode)
    print(f"{name}, {partitions} partitions, {target.name}, {layout} ({mode}), {layers} layers")
    lowered = lower_traced(sharded, mesh=mesh, target=target, label="the step")
    laps.end("traced")
    program = RunnableProgram.of(compile_lowered(lowered, {}), sharded, lowered.taken, mesh)
    laps.end("compiled for the slice")
    arrays = list(arguments.values())
    compiled = jax.make_jaxpr(lambda *flat: [output[0] for output in program(*flat)])(*arrays)
    laps.end("translated")
    ours, theirs = (jax.jit(jaxpr_as_fun(each))(*arrays) for each in (compiled, written.jaxpr))
    apart = max(float(jnp.max(jnp.abs(a - b)) / (jnp.max(jnp.abs(b)) or 1)) for a, b in zip(ours, theirs, strict=True))
    laps.end(f"run; outputs differ by at most {apart:.1g} of their largest element")
    outputs = ["out" + jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(written.out_info)]
    inputs = [Input(name, array) for name, array in arguments.items()]
    shown = proof.by_deep_domain(Question(written.jaxpr, compiled, inputs, outputs), "pod")
    error = max((each.proofs[name].log2_error for name, each in shown.items()), default=0.0)
    laps.end(f"formulas: {len(shown)} of {len(outputs)} outputs are the same, error probability 2^{error:.0f}")


def main() -> None:
    """Run each number of partitions in a process of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("partitions", nargs="*", type=int)
    parser.add_argument("--model", choices=sorted({name for name, _ in SETTINGS}), default="llama")
    parser.add_argument("--explicit", action="store_const", dest="mode", const="explicit", default="auto")
    asked = parser.parse_args()
    chosen = asked.partitions or ([16, 64, 256] if asked.model == "llama" else [8])
    for number in chosen:
        if (asked.model, number) not in SETTINGS:
            parser.error(f"no mesh is known for {asked.model} on {number} partitions")
    if len(chosen) == 1:
        pod(asked.model, chosen[0], asked.mode)
        return
    options = ["--model", asked.model, *(["--explicit"] if asked.mode == "explicit" else [])]
    for number in chosen:
        subprocess.run([sys.executable, __file__, str(number), *options], check=True)


if __name__ == "__main__":
    main()
