"""`run_compiled`: the compiled program of all partitions beside what was written."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import samebits
from samebits.compile import blame, executed
from samebits.errors import CouldNotRun, RequestError
from samebits.functions.as_pair import pair_of
from samebits.functions.compare import function_plan, pair_mesh, rerun
from samebits.functions.request import compare_request
from samebits.hlo.module import HloModule
from tests.functions import specimens as f
from tests.hlo.programs import needs_libtpu
from tests.support.invoke import clean_environment

V5P = "v5p:2x2x1"


def float32(*shape: int) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def accumulate(ids: Any, updates: Any) -> Any:
    """Add up updates of a table in two microbatches, each device some of them (openxla/xla#49143)."""
    ids, updates = ids.reshape(2, 4, 2), updates.reshape(2, 4, 2, 2, 3)
    ids, updates = (jax.lax.with_sharding_constraint(array, P(None, "d")) for array in (ids, updates))

    def body(table: Any, batch: Any) -> tuple[Any, None]:
        table = jax.lax.with_sharding_constraint(table, P()).at[batch[0]].add(batch[1])
        return jax.lax.with_sharding_constraint(table, P()), None

    return jax.lax.scan(body, jnp.zeros((8, 2, 3)), (ids, updates))[0]


ACCUMULATED: dict[str, Any] = {
    "target": V5P,
    "mesh": "d*",
    "specs": (P("d"), P("d")),
    "values": {"ids": samebits.Integers(high=8)},
    "gradients": False,
}
IDS = jax.ShapeDtypeStruct((8, 2), jnp.int32)
UPDATES = float32(8, 2, 2, 3)


@needs_libtpu
@pytest.mark.skipif(not version("libtpu").startswith("0.0.42."), reason="the fault of this libtpu")
def test_a_fault_of_the_tpu_compiler_is_found_with_its_pass() -> None:
    wrong = samebits.run_compiled(accumulate, IDS, UPDATES, **ACCUMULATED)
    assert wrong.verdict == "different"
    (note,) = [note for note in wrong.notes if "makes it wrong" in note]
    assert "the pass 'while-loop-all-reduce-code-motion' makes it wrong (right after" in note
    healing = re.search(r"right with compiler option (\S+)=(\S+)", note)
    assert healing is not None
    right = samebits.run_compiled(accumulate, IDS, UPDATES, **ACCUMULATED, compiler_options={healing[1]: healing[2]})
    assert right.verdict in ("bitwise", "rounding") and right.ok, right
    (leaf,) = right.leaves
    assert "the same formulas" in str(leaf.ruling.evidence)


def mean_of_products(x: Any, w: Any) -> Any:
    return jnp.mean(jnp.tanh(x @ w), axis=0)


MATRICES = float32(8, 64), float32(64, 4)
MEAN: dict[str, Any] = {"mesh": "d*", "specs": (P("d"), P(None)), "target": "cpu:8"}


def test_a_sharded_program_and_its_gradient_are_the_same() -> None:
    compared = samebits.run_compiled(mean_of_products, float32(16, 8), float32(8, 4), **MEAN)
    assert compared.ok, compared
    assert [leaf.place.leaf for leaf in compared.leaves] == ["out", "out['w']", "out['x']"]
    assert all(
        "the same formulas" in str(leaf.ruling.evidence) or leaf.ruling.verdict == "proved" for leaf in compared.leaves
    )
    assert blame.EVALUATED in compared.notes


def without_reduction(module: HloModule) -> None:
    """Make every all-reduce a copy."""
    for _, inst in module.instructions():
        if inst.opcode == "all-reduce":
            inst.opcode = "copy"
            del inst.called_computation_ids[:]


def other_groups(module: HloModule) -> None:
    """Reduce among halves of the devices only."""
    for _, inst in module.instructions():
        if inst.opcode == "all-reduce":
            for field in ("replica_groups", "devices", "iota_groups", "mesh_groups"):
                inst.ClearField(field)
            for half in ((0, 1, 2, 3), (4, 5, 6, 7)):
                inst.replica_groups.add().replica_ids.extend(half)


@pytest.mark.parametrize("edit", [without_reduction, other_groups])
def test_an_edited_program_is_different(edit: Callable[[HloModule], None], monkeypatch: pytest.MonkeyPatch) -> None:
    class Edited(HloModule):
        def __init__(self, serialised: bytes) -> None:
            super().__init__(serialised)
            edit(self)

    monkeypatch.setattr(executed, "HloModule", Edited)
    compared = samebits.run_compiled(mean_of_products, float32(16, 8), float32(8, 4), **MEAN, gradients=False)
    assert compared.verdict == "different"
    line = compared.leaves[0].named.lines[0]
    # The sum that is made within other groups, or is not made where the module before has one.
    code = line.reference_code if line.change == "missing" else line.variant_code
    assert re.match(r"%\S+ = all-reduce ", code), line
    assert "test_run_compiled.py:" in (line.variant or line.reference or "")


def test_replicas_that_disagree_are_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition returns another number: the first dimension of the witness says which replica."""

    class Edited(HloModule):
        def __init__(self, serialised: bytes) -> None:
            super().__init__(serialised)
            other_groups(self)

    def total(x: Any) -> Any:
        return jnp.sum(x)

    x = np.zeros(16, np.float32)
    x[0] = 1.0  # only the first half of the devices has it
    monkeypatch.setattr(executed, "HloModule", Edited)
    compared = samebits.run_compiled(
        total, x, mesh="d*", specs=(P("d"),), target="cpu:8", gradients=False, exactly=("x",)
    )
    (leaf,) = compared.leaves
    assert compared.verdict == "different" and leaf.comparison.elements % 8 == 0
    assert leaf.comparison.mismatches * 2 == leaf.comparison.elements
    assert leaf.comparison.witness is not None and leaf.comparison.witness.index[0] >= 4


def test_memory_that_nothing_wrote_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer in place of the zeros that an array is padded with: equal only where memory happens to hold zeros."""

    class Edited(HloModule):
        def __init__(self, serialised: bytes) -> None:
            super().__init__(serialised)
            for _, inst in self.instructions():
                if inst.opcode == "constant" and inst.shape.element_type == 11:
                    inst.opcode, inst.custom_call_target = "custom-call", "AllocateBuffer"

    monkeypatch.setattr(executed, "HloModule", Edited)
    compared = samebits.run_compiled(
        lambda x: jnp.pad(x, ((0, 8), (0, 0))), float32(8, 2), target="cpu:8", gradients=False
    )
    (leaf,) = compared.leaves
    assert leaf.ruling.verdict == "error" and not compared.ok
    assert "out depends on memory that nothing wrote, of instruction %constant" in str(leaf.ruling.reason)
    with pytest.raises(CouldNotRun, match="memory that nothing wrote"):
        compared.raise_for_status()


def test_a_search_that_fails_loses_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise CouldNotRun("no disk")

    class Edited(HloModule):
        def __init__(self, serialised: bytes) -> None:
            super().__init__(serialised)
            without_reduction(self)

    monkeypatch.setattr(executed, "HloModule", Edited)
    monkeypatch.setattr(blame, "faulty_pass", broken)
    compared = samebits.run_compiled(mean_of_products, float32(16, 8), float32(8, 4), **MEAN, gradients=False)
    assert compared.verdict == "different"
    assert any(note.endswith("the pass that makes it wrong was not found: no disk") for note in compared.notes)


def test_movement_is_proved_on_every_partition() -> None:
    def turned(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(x[::-1].T, P("d"))

    compared = samebits.run_compiled(turned, float32(16, 8), mesh="d*", specs=(P("d"),), target="cpu:8")
    assert compared.verdict == "proved", compared


def rows_from(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice_in_dim(x, start, 3, 0)


def test_a_program_wrong_at_a_border_of_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is given: the compiled program runs at the borders of the shards too, as openxla/xla#49122 needs."""
    arguments = np.arange(64, dtype=np.float32).reshape(16, 4), np.int32(1)
    sharded: dict[str, Any] = {"target": "cpu:8", "mesh": "d*", "specs": (P("d"), P()), "gradients": False}
    assert samebits.run_compiled(rows_from, *arguments, **sharded).verdict == "proved"
    wrong_at_six(monkeypatch)
    compared = samebits.run_compiled(rows_from, *arguments, **sharded)
    assert compared.verdict == "different" and "wrong with 'start' = 6" in str(compared), compared


def wrong_at_six(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a compiler whose programs are wrong at one start, which no constant of theirs names."""
    honest = executed.TargetPrograms.compiled

    def planted(self: Any, program: str, **arrays: Any) -> Any:
        rows = honest(self, program, **arrays)
        return jnp.where(arrays["start"] * arrays["start"] == 36, jnp.roll(rows, 1, -1), rows)

    monkeypatch.setattr(executed.TargetPrograms, "compiled", planted)


def test_a_proof_is_tried_at_the_borders_of_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = samebits.Pair(
        name="rows",
        reference=rows_from,
        variants={"again": functools.partial(rows_from)},
        args={
            "x": samebits.Arg(shape=(16, 4), spec=("data",)),
            "start": samebits.Arg(shape=(), dtype="int32", values=samebits.Integers(high=1000)),
        },
        cases=(samebits.Case(id="small"),),
        dtypes=("float32",),
        meshes=("data8",),
        gradients=False,
    )
    honest = samebits.prove(executed.compiled_pair(declared, "cpu:8", sides=("rows_from",)))
    assert honest.verdict == "proved" and not honest.notes, honest
    wrong_at_six(monkeypatch)
    planted = samebits.prove(executed.compiled_pair(declared, "cpu:8", sides=("rows_from",)))
    assert planted.verdict == "different" and "wrong with 'start' = 6" in str(planted), planted


def test_an_instruction_without_a_meaning_is_named() -> None:
    def factor(x: Any) -> Any:
        return jnp.linalg.cholesky(x @ x.T + jnp.eye(4))

    compared = samebits.run_compiled(factor, float32(4, 4), target="cpu:8", gradients=False)
    assert compared.verdict == "error" and not compared.ok
    with pytest.raises(CouldNotRun, match=r"custom call '.*potrf.*' has no meaning here"):
        compared.raise_for_status()


def test_a_mesh_of_devices_is_a_wrong_request() -> None:
    mesh = jax.make_mesh((8,), ("d",))
    with pytest.raises(RequestError, match=r"expected a layout such as 'fsdp\*_tensor2'"):
        samebits.run_compiled(mean_of_products, float32(16, 8), float32(8, 4), target="cpu:8", mesh=mesh)  # type: ignore[arg-type]


def test_a_function_is_not_called_with_too_few_arrays() -> None:
    with pytest.raises(RequestError, match="'mean_of_products' takes"):
        samebits.run_compiled(mean_of_products, float32(16, 8), target="cpu:8")


def sine_of_product(x: Any) -> Any:
    return jnp.sin(x) @ x


def test_contexts_of_jax_around_the_call_are_kept() -> None:
    with jax.enable_x64(True):
        wide = samebits.run_compiled(sine_of_product, jax.ShapeDtypeStruct((8, 8), jnp.float64), target="cpu")
    assert wide.ok and {str(leaf.comparison.array)[:7] for leaf in wide.leaves} == {"float64"}, wide
    with jax.default_matmul_precision("highest"):
        precise = samebits.run_compiled(sine_of_product, float32(8, 8), target="cpu")
    assert precise.ok and "HIGHEST" not in str(precise), precise


def product(x: Any, w: Any) -> Any:
    return x @ w


def product_at_highest(x: Any, w: Any) -> Any:
    return jnp.dot(x, w, precision="highest")


def test_products_in_passes_of_bfloat16() -> None:
    """One pass loses what a TPU loses by default; six lose nothing of float32, and neither hides in the other."""
    full = samebits.run_compiled(product, *MATRICES, target="cpu:8", gradients=False)
    rounded = samebits.run_compiled(product, *MATRICES, target="cpu:8", gradients=False, products="bf16")
    precise = samebits.run_compiled(product_at_highest, *MATRICES, target="cpu:8", gradients=False, products="bf16")
    assert full.ok and precise.ok and blame.IN_PASSES in precise.notes, precise
    assert rounded.verdict == "different" and "loses accuracy" in str(rounded) and len(rounded.notes) == 1, rounded
    with pytest.raises(RequestError, match="products='tf32'; expected 'full' or 'bf16'"):
        samebits.run_compiled(product, *MATRICES, target="cpu:8", products="tf32")  # type: ignore[arg-type]


def test_both_programs_of_a_comparison_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    call: dict[str, Any] = {"target": "cpu:8", "gradients": False, "run": True}
    right = samebits.compare_programs(product, product_at_highest, *MATRICES, **call)
    assert [ran.name for ran in right.ran] == ["product", "product_at_highest"] and all(ran.ok for ran in right.ran)
    honest = executed.TargetPrograms.compiled

    def planted(self: Any, program: str, **arrays: Any) -> Any:
        return honest(self, program, **arrays) * (2 if "highest" in program else 1)

    monkeypatch.setattr(executed.TargetPrograms, "compiled", planted)
    wrong = samebits.compare_programs(product, product_at_highest, *MATRICES, **call)
    assert [ran.verdict == "different" for ran in wrong.ran] == [False, True], wrong
    with pytest.raises(AssertionError, match="product_at_highest: different"):
        wrong.raise_for_status()


# How a comparison of two functions runs: its points, and what shows a result again.
SCRIPT = """\
import jax.numpy as jnp
import samebits

compared = samebits.check(lambda x: jnp.flip(x, 0), lambda x: jnp.roll(x, 1, 0), jnp.arange(6.0).reshape(3, 2))
print(compared.leaves[0].ruling.verdict, compared.leaves[0].replay)
"""


def test_on_one_device_the_reference_is_not_compared_with_itself() -> None:
    pair = pair_of(compare_request(f.softmax, f.shifted, (f.rows(),), {}))
    assert {point.variant for point in function_plan(pair).points} == {"shifted"}
    on_mesh = pair_of(compare_request(f.softmax, f.shifted, (f.rows(),), {"mesh": "dp2", "specs": P("dp")}))
    assert {point.variant for point in function_plan(on_mesh, 8).points} == {"softmax", "shifted"}


def test_a_mesh_of_any_size_can_be_proved() -> None:
    pair = pair_of(compare_request(f.softmax, f.shifted, (f.rows(),), {"mesh": "dp2_tp4096"}))
    assert pair_mesh(pair).id == "dp2_tp4096"
    assert pair.wide_meshes == ("dp2_tp4096",)


def test_under_pytest_the_test_is_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rerun() == "pytest 'harness/tests/functions/test_run_compiled.py::test_under_pytest_the_test_is_the_replay'"
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert rerun().startswith(f"the call in {__file__}:")


@pytest.mark.slow
def test_in_a_script_the_line_of_the_call_is_the_replay(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {name: value for name, value in clean_environment().items() if name != "PYTEST_CURRENT_TEST"}
    ended = subprocess.run(
        [sys.executable, script],
        env={**environment, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == f"different the call in {script}:4"
    assert os.listdir(tmp_path) == ["script.py"]
