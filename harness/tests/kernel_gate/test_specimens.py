"""The kernels for the gate: each has its functions, and an honest kernel is its reference where it is executed."""

import ast
import functools
import importlib.util
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl

from tests.kernel_gate.specimens import CHEATS, FINITE, HONEST, KINDS, REFERENCES, SPECIMENS, Specimen
from tests.support.child import value_of


def loaded(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def names(text: str) -> set[str]:
    """The functions of a module, and what it assigns at its top."""
    tree = ast.parse(text)
    bound = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return bound | {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_records_name_what_is_there() -> None:
    references = names(REFERENCES.read_text())
    for specimen in SPECIMENS:
        assert {specimen.reference, specimen.inputs, specimen.wrong_at or specimen.inputs} <= references, specimen
        assert specimen.function in names(specimen.source()), specimen
    assert len({specimen.function for specimen in SPECIMENS}) == len(SPECIMENS) > 150
    assert {*FINITE} < {specimen.function for specimen in HONEST}


def test_cheats_say_what_is_wrong_and_cover_all_kinds() -> None:
    assert {cheat.kind for cheat in CHEATS} == {*KINDS}
    assert all(cheat.why for cheat in CHEATS) and not any(kernel.why or kernel.kind for kernel in HONEST)


def test_reading_the_records_imports_no_jax() -> None:
    assert value_of("import sys\nimport tests.kernel_gate.specimens\nprint(int('jax' in sys.modules))") == "0"


def differs(specimen: Specimen, monkeypatch: pytest.MonkeyPatch, folder: Path) -> bool:
    """Whether it is another function than its reference on its inputs, executed by Pallas' own interpreter."""
    call = pl.pallas_call
    monkeypatch.setattr(pl, "pallas_call", lambda *args, **options: call(*args, **options | {"interpret": True}))
    (folder / "kernel.py").write_text(specimen.source())
    kernel = getattr(loaded(folder / "kernel.py", "kernel"), specimen.function)
    module = loaded(REFERENCES, "references")
    reference, arrays = getattr(module, specimen.reference), getattr(module, specimen.inputs)()
    tolerance = 2e-2 if "bf16" in specimen.inputs else 2e-5
    same = functools.partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    try:
        for got, expected in zip(jax.tree.leaves(kernel(*arrays)), jax.tree.leaves(reference(*arrays)), strict=True):
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            same(np.asarray(got, np.float64), np.asarray(expected, np.float64))
    except (AssertionError, ValueError):
        return True
    return False


@pytest.mark.sampled(3)
@pytest.mark.parametrize("specimen", HONEST, ids=lambda specimen: specimen.function)
def test_honest_kernels_are_their_references(
    specimen: Specimen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not differs(specimen, monkeypatch, tmp_path)


WRONG = ("zeros_out", "wider_dtype", "row_to_broadcast", "single_output", "fast_exp", "rows_outside")


@pytest.mark.parametrize("name", WRONG)
def test_a_cheat_among_honest_kernels_is_found(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (cheat,) = (cheat for cheat in CHEATS if cheat.function == name)
    assert differs(cheat, monkeypatch, tmp_path)
