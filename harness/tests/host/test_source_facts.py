"""What is read off the text of a file: imports of every form, and environment variables."""

from __future__ import annotations

import pytest

from samebits.host.source_facts import Imported, SourceFacts, facts_of, names_in


def facts(text: str) -> SourceFacts:
    return facts_of(text.encode())


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("import a.b as c", Imported(module="a.b")),
        ("from a import b, c", Imported(module="a", names=("b", "c"))),
        ("from a import *", Imported(module="a", names=("*",))),
        ("from . import b", Imported(module="", level=1, names=("b",))),
        ("from ..a import b", Imported(module="a", level=2, names=("b",))),
        ("def f():\n    if True:\n        import a", Imported(module="a")),
        ("try:\n    import a\nexcept ImportError:\n    a = None", Imported(module="a")),
        ("import importlib\nm = importlib.import_module('a.b')", Imported(module="a.b")),
        ("from importlib import import_module\nimport_module('a')", Imported(module="a")),
        ("NAME = 'a.b'\nimport_module(NAME)", Imported(module="a.b")),
        ("import_module('.b', __package__)", Imported(module="b", level=1)),
        ("import_module('.b', 'a')", Imported(module="a", names=("b",))),
        ("import_module('.b', package='a')", Imported(module="a", names=("b",))),
        ("__import__('a')", Imported(module="a")),
        ("pkgutil.resolve_name('a.b:function')", Imported(module="a.b")),
        ("import_module('my-mod')", Imported(module="my-mod")),
        ("sys.modules['a.b']", Imported(module="a.b")),
        ("NAME = 'a'\nm = sys.modules.get(NAME, None)", Imported(module="a")),
        ("import a\nsys.path.insert(0, '.')\nthis = sys.modules[__name__]", Imported(module="a")),
    ],
)
def test_imports(text: str, imported: Imported) -> None:
    assert imported in facts(text).imports
    assert not facts(text).computed_imports


RENAMED = (
    "from importlib import import_module as im\nim(name)",
    "from importlib import import_module\nim = import_module\nim(name)",
    "im = importlib.import_module\nim(name)",
)
"""Of what is bound to another name, nothing is said of what it is called with."""


@pytest.mark.parametrize(
    "text",
    [
        "import_module(name)",
        "import_module(f'a.{b}')",
        "importlib.import_module('a.' + b)",
        "__import__(names[0])",
        "pydoc.locate(name)",
        "getattr(importlib, 'import_module')(name)",
        "exec('import a')",
        "runpy.run_path('a.conf')",
        "from runpy import run_path\nrun_path(path)",
        "from sys import modules\nmodules[name]",
        "import sys as s\ns.modules[name]",
        "importlib.machinery.SourceFileLoader('a', path)",
        "metadata.entry_points(group='a')",
        "EntryPoint('a', 'b:c', 'd').load()",
        "site.addsitedir(folder)",
        "sys.modules[name]",
        "sys.modules.get(f'a.{b}')",
        "for m in sys.modules.values():\n    pass",
        "def f():\n    sys.path.insert(0, folder)\n    import a",
        "async def f():\n    sys.path.append(folder)",
        *RENAMED,
    ],
)
def test_imports_with_computed_names(text: str) -> None:
    assert facts(text).computed_imports


@pytest.mark.parametrize(
    "text",
    [
        "os.environ['MODE']",
        "os.environ.get('MODE')",
        "os.environ.get('MODE', '1') == '1'",
        "'MODE' in os.environ",
        "'MODE' not in os.environ",
        "os.getenv('MODE')",
        "os.environ.setdefault('MODE', '1')",
        "from os import environ\nif 'MODE' in environ:\n    pass",
        "NAME = 'MODE'\ndef f():\n    return os.environ.get(NAME)",
        "os.environb[b'MODE']",
    ],
)
def test_variables_by_name(text: str) -> None:
    assert facts(text).variables == ("MODE",)
    assert not facts(text).whole_environment


@pytest.mark.parametrize(
    "text",
    [
        "os.environ[name]",
        "os.environ.get(prefix + 'MODE')",
        "for name in os.environ:\n    pass",
        "dict(os.environ)",
        "{**os.environ}",
        "f(os.environ)",
        "os.environ.items()",
        "name in os.environ",
        "os.getenv(name)",
        "list(map(os.getenv, names))",
        "from os import environ\nread(environ)",
        "from os import getenv\nlist(map(getenv, names))",
        "NAME = 'A'\nNAME = 'B'\nos.environ[NAME]",
        "NAME = 'A'\ntry:\n    from settings import NAME\nexcept ImportError:\n    pass\nos.environ[NAME]",
        "NAME = 'A'\nfrom settings import OTHER as NAME\nos.environ[NAME]",
        "NAME = 'A'\ndef NAME(): pass\nos.environ[NAME]",
        "NAME = 'A'\ndef f(NAME):\n    return os.environ[NAME]",
        "os.path.expandvars('$HOME/x')",
        "from os import environ",
        "from os import environ as e\ne['MODE']",
        "from os import getenv as g\ng('MODE')",
        "from os import getenv as g",
        "from compat import environ\nread(environ)",
        "getattr(os, 'environ')['A']",
        "vars(os)['getenv']('A')",
        "exec(text)",
    ],
)
def test_everything_else_is_the_whole_environment(text: str) -> None:
    assert facts(text).whole_environment


def test_variables_that_pythons_own_modules_read() -> None:
    assert facts("import tempfile").variables == ("TEMP", "TMP", "TMPDIR")
    assert "LOGNAME" in facts("def f():\n    from getpass import getuser").variables


@pytest.mark.parametrize(
    "text",
    [
        "shutil.which('nvcc')",
        "import shutil as s\ns.which('nvcc')",
        "from shutil import copy, which",
        "from shutil import (\n    copy,\n    which,\n)",
        "getattr(shutil, 'which')('nvcc')",
        "os.get_exec_path()",
    ],
)
def test_where_programs_are_looked_for(text: str) -> None:
    assert facts(text).variables == ("PATH",)


def test_files_are_copied_without_looking_for_programs() -> None:
    assert facts("import shutil\nshutil.copy(a, b)  # which is small").variables == ()


@pytest.mark.parametrize(
    "text",
    [
        "socket.gethostname()",
        "socket.getfqdn()",
        "from socket import gethostname as name",
        "getattr(socket, 'gethostname')()",
        "os.uname().nodename",
        "os.uname()[1]",
        "platform.uname().node",
        "platform.node()",
        "getattr(platform, 'node')()",
        "import os, platform as p\np.node()",
        "from platform import (\n    node,\n)",
        "eval('socket.gethostname()')",
    ],
)
def test_the_name_of_the_machine(text: str) -> None:
    assert facts(text).host


@pytest.mark.parametrize("text", ["import platform\nnode = platform.system()", "username = hostname = 1"])
def test_what_is_not_the_name_of_the_machine(text: str) -> None:
    assert not facts(text).host


def test_a_name_that_another_file_passes_on() -> None:
    assert facts("from compat import environ\nenviron.get('MODE')").variables == ("MODE",)


@pytest.mark.parametrize(("terms", "names"), [(900, ("c",)), (20_000, ("*",))])
def test_a_file_that_is_too_deep(terms: int, names: tuple[str, ...]) -> None:
    """Python imports the first, whose tree is too deep to be walked; the other is too deep to be parsed."""
    text = "import a\nx = sys.maxsize + " + " + ".join(["1"] * terms) + "\nif x:\n    from .b import c"
    read = facts(text)
    assert read.imports == (Imported(module="a"), Imported(module="b", level=1, names=names))
    assert read.computed_imports and read.whole_environment


def test_a_deep_file_that_names_nothing_to_read() -> None:
    assert not facts("x = " + " + ".join(["1"] * 900)).whole_environment


def test_a_file_that_reads_nothing() -> None:
    text = "import jax\n\ndef get(environment, key):\n    return environment.get(key)\n"
    assert (facts(text).variables, facts(text).whole_environment, facts(text).computed_imports) == ((), False, False)


def test_a_file_that_does_not_parse_has_no_facts() -> None:
    assert facts("def f(:") == SourceFacts()
    assert facts_of(b"\x00\xff") == SourceFacts()


def test_names_in_texts_may_be_of_modules() -> None:
    """Not those of docstrings, nor words alone."""
    text = '"""Of a.b."""\nmock.patch("package.module.function")\nload("config:main", "word")\n'
    assert facts(text).named == {"package", "package.module", "package.module.function", "config", "main"}
    assert names_in("f: !!python/name:helper.scale 1.5") >= {"helper", "helper.scale"}
