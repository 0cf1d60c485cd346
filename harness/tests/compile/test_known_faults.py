"""Known faults of compilers: programs that have what one leaves behind are named, and each is still what was seen."""

import json
from dataclasses import replace
from typing import Any

import jax
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import samebits
from samebits.compile import known_faults
from samebits.compile.compiler import compile_lowered, lower
from samebits.compile.devices import target_mesh
from samebits.compile.known_faults import KNOWN, LAYOUT, TARGETS, KnownFault
from samebits.hlo.module import HloModule
from samebits.schema.target import Target
from tests.hlo.programs import needs_libtpu
from tests.project.import_graph import ROOT

TPU, CPU = TARGETS
MOTION, SLICE, UPDATE = KNOWN


def compiled(fault: KnownFault, target: str, **options: str) -> HloModule:
    mesh = target_mesh(target, LAYOUT)
    types = [
        jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))
        for (shape, dtype), spec in zip(fault.shapes, fault.specs, strict=True)
    ]
    program: Any = compile_lowered(lower(fault.function, *types, mesh=mesh, target=target, label="it"), options)
    return HloModule(program.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())


@pytest.mark.parametrize("fault", [SLICE, UPDATE], ids=lambda fault: fault.issue)
def test_a_program_with_the_marks_is_named(fault: KnownFault) -> None:
    module = compiled(fault, CPU)
    assert [known.issue for known in KNOWN if known.concerns(module)] == [fault.issue]
    along_whole = replace(fault, specs=((None, "d"), *fault.specs[1:]), shapes=(((32, 4), "int32"), *fault.shapes[1:]))
    assert not [known for known in KNOWN if known.concerns(compiled(replace(along_whole, function=_whole), CPU))]


def _whole(x: Any, *rest: Any) -> Any:
    """Slice along a dimension that no device has a part of."""
    return jax.lax.dynamic_slice(x, (rest[-1], 0), (8, 4))


@needs_libtpu
def test_what_the_pass_leaves_behind_is_there_only_with_it() -> None:
    assert MOTION.concerns(compiled(MOTION, TPU)) and not MOTION.concerns(compiled(MOTION, TPU, **MOTION.options))
    assert not MOTION.concerns(compiled(MOTION, CPU)) and not SLICE.concerns(compiled(MOTION, TPU))


def test_a_warning_depends_on_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    module, target = compiled(SLICE, CPU), Target(name=CPU)
    rows = {"jaxlib 1": {"verdict": "different", "date": "2026-11-30"}}

    def warnings(version: str, **more: Any) -> list[str]:
        monkeypatch.setattr(known_faults, "compiler_version", lambda target: version)
        monkeypatch.setattr(known_faults, "seen", lambda: {SLICE.issue: rows | more})
        return list(known_faults.known_faults(module, target))

    text = "openxla/xla#49122 may concern it: a dynamic_slice along a sharded dimension reads other elements where its "
    assert warnings("1") == [f"{text}start is out of range; seen with jaxlib 1 (2026-11-30); {SLICE.cure}"]
    assert warnings("2") == warnings("1"), "a version that nothing is known of"
    assert warnings("2", **{"jaxlib 2": {"verdict": "proved", "date": "2026-11-30"}}) == []
    rows.clear()
    assert warnings("1", **{"libtpu 1": {"verdict": "different", "date": "2026-11-30"}}) == [], "of another compiler"


def test_the_page_has_the_rows_that_were_seen() -> None:
    page = (ROOT / "docs" / "findings" / "known_faults.md").read_text(encoding="utf-8")
    table = json.loads(known_faults.SEEN.read_text(encoding="utf-8"))
    assert table.keys() == {fault.issue for fault in KNOWN}
    for fault in KNOWN:
        assert fault.link.startswith("https://github.com/openxla/xla/issues/49")
        for compiler, row in table[fault.issue].items():
            assert f"| {compiler} | {row['verdict']} | {row['healed']} |" in page
            assert row["healed"] in ("proved", "bitwise", "rounding"), "no cure"


@pytest.mark.slow
@pytest.mark.parametrize("target", [pytest.param(TPU, marks=needs_libtpu), CPU])
@pytest.mark.parametrize("fault", KNOWN, ids=lambda fault: fault.issue)
def test_each_is_still_what_was_seen(fault: KnownFault, target: str) -> None:
    """Where this fails after a change of the toolchain: `make known`."""
    row = known_faults.seen()[fault.issue].get(known_faults.compiler_of(Target(name=target)))
    assert row is not None, "this compiler was not tried: make known"
    for healed in (False, True):
        args, more = fault.call(healed=healed)
        compared = samebits.run_compiled(*args, target=target, name="known_fault", **more)
        assert compared.verdict == row["healed" if healed else "verdict"]
