"""Instructions as names of scopes, and back."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from samebits.hlo.as_jax import PartitionProgram
from samebits.hlo.module import HloModule
from samebits.hlo.origins import InstructionOrigin
from samebits.interpret.alignment.sources import place_of
from samebits.interpret.equation import Step, frame_of, instruction_of


def test_a_scope_says_what_the_compiler_noted() -> None:
    origin = InstructionOrigin("add.3", "add", "jit(f)/add", "/tree/file.py", 12)
    assert InstructionOrigin.of_scopes(["vmap()", origin.scope()]) == origin
    assert str(origin) == "%add.3 = add (jit(f)/add)"
    assert str(InstructionOrigin("copy.1", "copy", "", "", 0)) == "%copy.1 = copy"
    assert InstructionOrigin.of_scopes(["vmap()", "hlo_of_mine"]) is None


def test_the_innermost_instruction_counts() -> None:
    outer, inner = (InstructionOrigin(name, "fusion", "", "", 0) for name in ("outer", "inner"))
    assert InstructionOrigin.of_scopes([outer.scope(), inner.scope()]) == inner


def test_equations_of_a_module_name_instruction_and_line() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * 3  # this line

    types = jax.ShapeDtypeStruct((2,), jnp.float32)
    executable: Any = jax.jit(function).lower(types).compile().runtime_executable()
    module = HloModule(executable.hlo_modules()[0].as_serialized_hlo_module_proto())
    jaxpr = jax.make_jaxpr(PartitionProgram(module, [1]).on_all)(jnp.zeros((1, 2)))
    (sine,) = [equation for equation in jaxpr.jaxpr.eqns if equation.primitive.name == "sin"]
    origin = instruction_of(sine)
    assert origin is not None and origin.opcode == "sine" and origin.operation.endswith("/sin")
    frame = frame_of(sine)
    assert frame.file_name == __file__
    assert "# this line" in Path(__file__).read_text(encoding="utf-8").splitlines()[frame.line_num - 1]


def test_without_a_line_an_instruction_stands_alone() -> None:
    origin = InstructionOrigin("copy.1", "copy", "", "", 0)

    def scoped(x: jax.Array) -> jax.Array:
        with jax.named_scope(origin.scope()):
            return jnp.sin(x)

    (equation,) = jax.make_jaxpr(scoped)(1.0).jaxpr.eqns
    assert str(place_of(equation)) == "%copy.1"
    assert Step.of(equation).place == "%copy.1"
