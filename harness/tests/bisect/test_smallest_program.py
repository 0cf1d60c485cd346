"""The smallest program that a compiler makes wrong: a planted compiler, and faults of XLA:CPU in a fresh process."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import samebits
from samebits.bisect import smallest_program
from samebits.bisect.smallest_program import SmallProgram, is_wrong, program_text, script, smaller_programs
from samebits.compile.compiler import compile_lowered
from samebits.compile.executed import RunnableProgram
from samebits.compile.known_faults import KNOWN
from samebits.errors import NotCovered
from samebits.schema.meshes import MeshSpec
from tests.support.child import run_python

CPU = "cpu:4"


def summed(x: Any, ids: Any) -> Any:
    rows = lax.with_sharding_constraint(jnp.tanh(x.reshape(16, 12)), P("d"))

    def body(total: Any, row: Any) -> tuple[Any, None]:
        return total + jnp.sin(row) * 2, None

    return lax.scan(body, jnp.zeros(12), rows[ids])[0] + 1


def small(function: Callable[..., Any] = summed, **fields: Any) -> SmallProgram:
    mesh = MeshSpec.parse("d4")
    with jax.set_mesh(mesh.build("auto", jax.devices()[:4])):
        types = (jax.ShapeDtypeStruct((16, 3, 4), jnp.float32), jax.ShapeDtypeStruct((8,), jnp.int32))
        text = program_text(jax.make_jaxpr(function)(*types), 0)
    first, second = text.function.parameters
    program = SmallProgram(
        function=text.function,
        types=text.types,
        specs={first: "P('d')", second: "P()"},
        ranges={second: (0, 16)},
        target=CPU,
        mesh=mesh,
        mode="auto",
    )
    return replace(program, **fields)


class FaultyCompiler:
    """Programs with a sine lose a half of what partition 0 computes, unless an option says not to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trials = 0
        call, of = RunnableProgram.__call__, compile_lowered
        options: dict[str, str] = {}

        def compiled(program: Any, given: Any) -> Any:
            options.clear()
            options.update(given)
            self.trials += 1
            return of(program, {})

        def run(program: RunnableProgram, *flat: Any) -> list[Any]:
            opcodes = {inst.opcode for _, inst in program.module.instructions()}
            wrong = "sine" in opcodes and "healed" not in options
            return [output / 2 if wrong else output for output in call(program, *flat)]

        monkeypatch.setattr(smallest_program, "compile_lowered", compiled)
        monkeypatch.setattr(RunnableProgram, "__call__", run)


def test_what_is_wrong_stays_and_the_rest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = FaultyCompiler(monkeypatch)
    result = smallest_program.smallest_program(small(healing={"healed": "1"}), 60)
    assert result is not None and compiler.trials < 120
    assert "lax.sin(" in result.source and "tanh" not in result.source and "reshape" not in result.source
    assert result.mesh.devices == 1 and len(result.source.splitlines()) <= 8
    assert all(
        size <= smallest_program.LARGEST for name in result.function.parameters for size in result.types[name][0]
    )


def test_a_program_that_is_right_has_no_smaller_one() -> None:
    assert smallest_program.smallest_program(small(), 60) is None


def test_a_fault_that_nothing_heals_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    FaultyCompiler(monkeypatch)
    assert smallest_program.smallest_program(small(healing={"other": "1"}), 60) is None


def test_a_candidate_says_how_its_arguments_lie() -> None:
    program = small()
    candidates = list(smaller_programs(program))
    assert len(candidates) > 10
    for candidate in candidates:
        assert set(candidate.function.parameters) <= candidate.specs.keys()
        assert not candidate.function.reads(), "it has all that it reads"
        kinds = {candidate.types[name][1] for name in candidate.function.parameters if name not in candidate.ranges}
        assert kinds <= {"float32"}, "integers are drawn from a range"
    tanh = next(line for line in program.function.lines if "tanh" in line.text)
    assert any(tanh.targets[0] in candidate.function.parameters for candidate in candidates)


def test_an_honest_program_is_right() -> None:
    assert not is_wrong(small(), {})


@pytest.mark.parametrize("fault", KNOWN[1:], ids=lambda fault: fault.issue)
def test_a_script_shows_a_fault_in_a_fresh_process(fault: Any, tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    compared = samebits.run_compiled(
        fault.function,
        *(jax.ShapeDtypeStruct(*shape) for shape in fault.shapes),
        target=CPU,
        mesh="d*",
        specs=tuple(P(*spec) for spec in fault.specs),
        values=dict(fault.values),
        gradients=False,
        script=file,
    )
    if compared.ok:
        assert not file.exists(), "this version of XLA is right"
        return
    (note,) = [note for note in compared.notes if str(file) in note]
    text = file.read_text(encoding="utf-8")
    assert re.search(r"shows it in (\d+) lines with nothing but jax, on cpu:2, mesh d2$", note), note
    assert len(text.splitlines()) <= 25 and "samebits" not in text
    ran = run_python(str(file), cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    first, *rest = [float(line.rpartition(" ")[2]) for line in ran.stdout.splitlines()]
    assert first > 0.5 and rest in ([], [0.0]), ran.stdout


def test_a_script_for_a_tpu_names_what_heals_it() -> None:
    text = script(small(target="v5p:2x2x1", healing={"xla_disable_hlo_passes": "mover"}))
    assert text.startswith("# Wrong, compiled for v5p:2x2x1 by libtpu")
    assert "right with xla_disable_hlo_passes=mover. Without a TPU, JAX_PLATFORMS=cpu" in text.splitlines()[0]
    assert 'topologies.get_topology_desc("v5p:2x2x1", "tpu")' in text
    assert "for options in [{}, {'xla_disable_hlo_passes': 'mover'}]:" in text
    compile(text, "wrong.py", "exec")


# Traced programs as text: the text computes the same numbers.
X = np.arange(32, dtype=np.float32).reshape(4, 8) / 8 - 2
IDS = np.array([[0, 3], [3, 1]], np.int32)


def loops(x: Any, ids: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        count, total = carry
        return (count + 1, total + jnp.tanh(row * x[0])), jnp.where(total > 0, total, row).sum()

    (count, total), sums = lax.scan(body, (0, jnp.zeros(8)), x, reverse=True)
    doubled = lax.while_loop(lambda c: c[0] < 6, lambda c: (c[0] + 1, c[1] * 2), (count, total))[1]
    return lax.cond(sums[0] > 0, lambda y: y - 1, lambda y: y + ids.sum(), doubled)


def moves(x: Any, ids: Any) -> Any:
    rows = jnp.sort(jnp.flip(x[:, 1:5].T, 1), 0)[ids].reshape(-1, 4)
    table = jnp.zeros((4, 4)).at[ids.ravel()].add(rows, mode="drop")
    later = lax.dynamic_update_slice(table, rows[:1], (ids[0, 1], 0))
    return jnp.concatenate([table, lax.dynamic_slice(later, (ids[1, 1], 0), (2, 4))]).astype(jnp.bfloat16)


def arithmetic(x: Any, ids: Any) -> Any:
    weights = jax.checkpoint(lambda y: jax.nn.softmax(y / 3, where=y > -1))(x)
    kept = lax.optimization_barrier(jax.nn.gelu(weights @ x.T))
    return jnp.cumsum(kept, 0) + jnp.argmax(x, 1) * (ids[0, 0] ** 2) + jnp.arange(4.0)[:, None]


def select_first(x: Any, ids: Any) -> Any:
    return lax.top_k(x, 2)[1] + jax.jit(lambda y: ~y & 5 | 2)(ids[:1])


@pytest.mark.parametrize("function", [loops, moves, arithmetic, select_first])
def test_the_text_computes_the_same(function: Any) -> None:
    text = "\n".join(program_text(jax.make_jaxpr(function)(X, IDS), 0).function.shown())
    space: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax, "P": P}
    exec(text, space)
    expected, got = jax.jit(function)(X, IDS), jax.jit(space["f"])(X, IDS)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(expected, np.float64))


def test_what_one_output_does_not_need_is_left_out() -> None:
    text = program_text(jax.make_jaxpr(lambda x: (jnp.sin(x), lax.cos(x)))(1.0), 1)
    assert [*text.function.shown()] == ["def f(v0):", "    v1 = lax.cos(v0)", "    return v1"]
    assert text.types == {"v0": ((), "float32"), "v1": ((), "float32")}


def test_a_constraint_says_how_its_result_lies() -> None:
    def function(x: Any) -> Any:
        return lax.with_sharding_constraint(x.reshape(8, 4), P(None, "d"))

    with jax.set_mesh(MeshSpec.parse("d2").build("auto")):
        (first, second) = program_text(jax.make_jaxpr(function)(X), 0).function.lines
    assert (first.spec, second.spec) == ("", "P(None, 'd')") and second.text.endswith(f", {second.spec})")
    assert first.moves and second.moves


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: jax.pure_callback(np.sin, x, x), "the equation 'pure_callback' has no text"),
        (lambda x: x + np.arange(8.0, dtype=np.float32), r"a constant of shape \(8,\) has no text"),
        (lambda x: lax.reduce_precision(x, 4, 3), "the equation 'reduce_precision' has no text"),
    ],
)
def test_what_has_no_text_is_named(function: Any, words: str) -> None:
    with pytest.raises(NotCovered, match=words):
        program_text(jax.make_jaxpr(function)(X), 0)
