"""The text of a module, taken apart: by hand for each attribute, and as this jaxlib prints it."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.hlo.printed import PrintedModule

TEXT = """HloModule jit_f, is_scheduled=true

FileNames
1 "/src/model/rope.py"

FunctionNames
1 "<module>"
2 "rotate.<locals>.half"

FileLocations
1 {file_name_id=1 function_name_id=1 line=4 end_line=4 column=2 end_column=9}
2 {file_name_id=1 function_name_id=2 line=31 end_line=31 column=2 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


%inner (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %neg.1 = f32[8]{0} negate(%a), metadata={op_name="jit(f)/neg \\"{\\" }" stack_frame_id=2}
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0:T(8)} parameter(0), sharding={replicated}, metadata={op_name="arrays[\\'x\\']"}
  %old.2 = f32[8]{0} add(%x, /*index=1*/%x), metadata={op_name="jit(f)/add" source_file="/a/b/old.py" source_line=7}
  ROOT %fusion.3 = f32[8]{0} fusion(%old.2), kind=kLoop, calls=%inner, backend_config={"a":{"b":["}"]}}, channel_id=3, x=1
}
"""  # noqa: E501


@pytest.fixture
def printed() -> PrintedModule:
    return PrintedModule(TEXT)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a", "f32[8]{0} parameter(0)"),
        ("neg.1", "f32[8]{0} negate(<a>)"),
        ("x", "f32[8]{0:T(8)} parameter(0), sharding={replicated}"),
        ("old.2", "f32[8]{0} add(<x>, <x>)"),
        ("fusion.3", "f32[8]{0} fusion(<old.2>), kind=kLoop, calls=<inner>, x=1"),
        ("unknown", ""),
    ],
)
def test_an_instruction_without_names_and_places(name: str, text: str, printed: PrintedModule) -> None:
    assert printed.text(name, lambda other: f"<{other}>") == text


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("neg.1", 'jit(f)/neg \\"{\\" }; rotate.<locals>.half in rope.py'),
        ("x", "arrays['x']"),
        ("old.2", "jit(f)/add; old.py"),
        ("fusion.3", None),
        ("unknown", None),
    ],
)
def test_where_an_instruction_comes_from(name: str, source: str | None, printed: PrintedModule) -> None:
    assert printed.source(name) == source


def test_what_this_jaxlib_prints_is_read() -> None:
    def halved(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * 0.5

    executable: Any = jax.jit(halved).lower(jax.ShapeDtypeStruct((8,), jnp.float32)).compile().runtime_executable()
    (module,) = executable.hlo_modules()
    printed = PrintedModule(module.to_string())
    lines = [printed.text(name, str) for name in printed.names]
    assert any(line.startswith("f32[8]{0} sine(") for line in lines), lines
    assert all(line and "metadata" not in line and "%" not in line for line in lines), lines
    sources = [printed.source(name) or "" for name in printed.names]
    assert any(source.endswith("halved in test_printed.py") for source in sources), sources
