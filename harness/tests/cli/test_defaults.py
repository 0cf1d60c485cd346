"""`samebits audit defaults`: every way in which a schema and a file can disagree is found, and agreement passes."""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.invoke import Ended, samebits

SCHEMA = '''
import dataclasses
import enum

import msgspec


class Attention(enum.Enum):
    FLASH = "flash"


@dataclasses.dataclass
class Optimizer:
    b1: float = 0.9
    eps: float = 1.0e-8


@dataclasses.dataclass
class Config:
    run_name: str
    float32_weight_sum: bool = False
    layers: int = 2
    rate: float = 3.0e-5
    attention: Attention = Attention.FLASH
    axes: tuple = ("data", "fsdp")
    nothing: object = None
    optimizer: Optimizer = dataclasses.field(default_factory=Optimizer)


class Struct(msgspec.Struct):
    layers: int = 2
    axes: list[str] = msgspec.field(default_factory=list)


class Field:
    def __init__(self, default):
        self.default, self.alias = default, None

    def is_required(self):
        return False

    def get_default(self, call_default_factory):
        return self.default


class Model:
    """What pydantic's models offer."""

    model_fields = {"layers": Field(2), "axes": Field(["a"])}


TABLE = {"layers": 2, "axes": ["a"]}
NUMBER = 3
'''
FILE = """
run_name: none
float32_weight_sum: false
layers: 2
rate: 3.0e-5
attention: flash
axes: [data, fsdp]
nothing: null
optimizer: {b1: 0.9, eps: 1.0e-8}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own; no test has a parameter of this name, which would replace the fixture."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "their_schema.py").write_text(SCHEMA)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "their_schema", raising=False)


def held(text: str, *words: str, name: str = "base.yml", schema: str = "Config") -> Ended:
    Path(name).write_text(textwrap.dedent(text))
    return samebits("audit", "defaults", f"their_schema:{schema}", name, *words)


def test_they_agree() -> None:
    ended = held(FILE, "--json", "found.json", "--markdown", "found.md")
    assert (ended.code, ended.err) == (0, ""), ended
    line = "9 keys, 8 compared, 1 key without a default; all agree in name, type and value"
    assert line in ended.out and line in Path("found.md").read_text()
    found = json.loads(Path("found.json").read_text())
    assert found["results"]["required"] == ["run_name"] and found["results"]["disagreements"] == []


@pytest.mark.parametrize(
    ("old", "new", "row"),
    [
        ("float32_weight_sum: false", "float32_weight_sum: true", "float32_weight_sum  value  False  True"),
        ("layers: 2", "layers: 2.0", "layers  type  int 2  float 2.0"),
        ("layers: 2", "layers: true", "layers  type  int 2  bool True"),
        ("layers: 2", "layers: '2'", "layers  type  int 2  str '2'"),
        ("rate: 3.0e-5", "rate: 3e-5", "rate  type  float 3e-05  str '3e-5'"),
        ("rate: 3.0e-5", "rate: 3.0000000000000004e-5", "rate  value  3e-05  3.0000000000000004e-05"),
        ("attention: flash", "attention: on", "attention  type  str 'flash'  bool True"),
        ("axes: [data, fsdp]", "axes: [fsdp, data]", "axes  value  ('data', 'fsdp')  ('fsdp', 'data')"),
        ("nothing: null", "nothing: none", "nothing  type  NoneType None  str 'none'"),
        ("b1: 0.9, ", "", "optimizer.b1  missing in one  0.9  (no such key)"),
        ("layers: 2", "layers: 2\nextra: 1", "extra  missing in one  (no such key)  1"),
        ("{b1: 0.9, eps: 1.0e-8}", "{}", "optimizer  missing in one  (no such key)  {}"),
    ],
)
def test_every_disagreement_is_seen(old: str, new: str, row: str) -> None:
    """One planted fault each; `3e-5` is a text and `on` a boolean in YAML 1.1."""
    assert old in FILE
    ended = held(FILE.replace(old, new))
    assert (ended.code == 1 and row in "\n".join(" ".join(line.split()) for line in ended.out.splitlines())) or (
        row.split() == next(line.split() for line in ended.out.splitlines() if line.split()[0] == row.split()[0])
    ), ended.out


@pytest.mark.parametrize(("schema", "axes"), [("Struct", "[]"), ("Model", "[a]"), ("TABLE", "[a]")])
def test_other_schemas(schema: str, axes: str) -> None:
    assert held(f"layers: 2\naxes: {axes}\n", schema=schema).code == 0
    assert held(f"layers: 3\naxes: {axes}\n", schema=schema, name="other.yml").code == 1


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", '{"layers": 2, "axes": ["a"]}'), ("a.toml", 'layers=2\naxes=["a"]')]
)
def test_other_files(name: str, text: str) -> None:
    assert held(text, name=name, schema="TABLE").code == 0
    assert held(text.replace("2", "3"), name=f"b{name}", schema="TABLE").code == 1


def test_signs_and_nan_count() -> None:
    Path("a.yml").write_text("zero: 0.0\nnan: .nan\n")
    Path("b.yml").write_text("zero: -0.0\nnan: .nan\n")
    ended = samebits("audit", "defaults", "a.yml", "b.yml")
    assert ended.code == 1 and "2 compared; 1 disagreement" in ended.out


def test_what_is_left_out() -> None:
    ended = held(FILE.replace("layers: 2", "layers: 3"), "--ignore", "lay*")
    assert ended.code == 0 and "1 ignored" in ended.out


@pytest.mark.parametrize(
    ("text", "words", "code", "message"),
    [
        ("layers: 2\nlayers: 3\n", (), 2, "base.yml:2: key 'layers' stands on line 1 too; keep one"),
        ("layers: [\n", (), 2, "base.yml: cannot be read: while parsing a flow"),
        ("- 1\n", (), 2, "base.yml: expected keys with values at its top, got list"),
        ("{}\n", (), 2, "'base.yml' has no keys; nothing would be compared"),
        ("other: 2\n", (), 3, "have no key in common; nothing was compared"),
    ],
)
def test_wrong_files(text: str, words: tuple[str, ...], code: int, message: str) -> None:
    ended = held(text, *words)
    assert (ended.code, ended.out) == (code, "") and message in ended.err and ended.err.count("\n") == 1, ended


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("none.yml", "none.yml: cannot be read: No such file or directory"),
        (
            "config",
            "'config' is not a source of defaults; expected a file ending in .yml, .yaml, .json, .toml, or module:",
        ),
        ("their_schema:Confg", "'their_schema:Confg': the module has no 'Confg'"),
        ("their_schema:NUMBER", "'their_schema:NUMBER' is a int; expected a dataclass, a pydantic model"),
        ("no_module_of_this_name:C", "no_module_of_this_name"),
    ],
)
def test_wrong_sources(source: str, message: str) -> None:
    Path("base.yml").write_text("layers: 2\n")
    ended = samebits("audit", "defaults", source, "base.yml")
    assert (ended.code, ended.out) == (2, "") and message in ended.err and ended.err.count("\n") == 1, ended
