"""The form of the package's code; each rule of `code_shape` holds, and is shown to be able to fail."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.project.code_shape import (
    LONGEST,
    RULES,
    few_parameters,
    forget,
    meaningful_names,
    no_class_name_twice,
    no_dead_code,
    no_mutable_globals,
    no_private_names,
    path_is_restored,
    reasons_for_silence,
    short_functions,
)
from tests.project.import_graph import PACKAGE, ROOT

Rule = Callable[[Path], list[str]]

_SHORT = "\n".join(f"def short_{number}():\n    return {number}" for number in range(40))
_LONG = "\n".join(f"def long_{number}():\n" + "    f()\n" * 30 for number in range(20))

FAULTS: tuple[tuple[Rule, str, str], ...] = (
    (short_functions, "def f():\n" + "    f()\n" * (LONGEST + 1), "f has 61 lines, 60 at most"),
    (
        short_functions,
        "class A:\n    def f():\n" + "        f()\n" * (LONGEST + 1) + "class B:\n    def f():\n        f()\n" + _SHORT,
        "f has 61 lines, 60 at most",
    ),
    (short_functions, _LONG + _SHORT, "90 % of all functions have at most 30 lines; expected 25"),
    (few_parameters, "def f(a, b, c, d, e, *, f, g, h): ...", "f has 8 parameters, 7 at most"),
    (few_parameters, "class A:\n    def f(self, a, b, c, d, e, f, *g, **h): ...", "f has 8 parameters"),
    (no_mutable_globals, "_DEPTH = 0\ndef f():\n    global _DEPTH\n    _DEPTH += 1", "rebinds the global _DEPTH"),
    (no_mutable_globals, "_seen: dict[str, int] = {}", "_seen starts empty"),
    (no_mutable_globals, "_queue = collections.deque()", "_queue starts empty"),
    (no_mutable_globals, "_groups = defaultdict(list)", "_groups starts empty"),
    (path_is_restored, "def f():\n    sys.path.insert(0, '.')", "f leaves a folder on sys.path"),
    (
        reasons_for_silence,
        "def f():\n    try:\n        g()\n    except ValueError:\n        pass\n",
        "passes over an exc",
    ),
    (
        reasons_for_silence,
        "def f():\n    try:\n        g()\n    except ValueError:\n        return None\n",
        ":4 passes over",
    ),
    (no_dead_code, "def never_called():\n    return 1", "never_called is used nowhere"),
    (no_dead_code, "class NeverMade:\n    pass", "NeverMade is used nowhere"),
    (
        no_class_name_twice,
        "class Point: ...\nclass Point: ...",
        "check/planted.py:1 and check/planted.py:2 define classes",
    ),
    (no_class_name_twice, "class _Point: ...\ndef f():\n    class _Point: ...", "of the same name _Point"),
    (meaningful_names, "def f(results):\n    return [g(one) for one in results]", ":2 calls a variable one"),
    (meaningful_names, "def f(given): return given", ":1 calls a variable given"),
    (meaningful_names, "def f():\n    found = g()", ":2 calls a variable found"),
    (no_private_names, 'sys.modules.get("jax._src.xla_bridge")', "names the private module jax._src.xla_bridge"),
    (no_private_names, 'getattr(bridge, "_backends", None)', "reads the private attribute _backends"),
)


@pytest.fixture(autouse=True, scope="module")
def _parsed_once() -> Iterator[None]:
    """All rules look at the same nodes, over which the collector would go again and again, here and in later tests."""
    gc.disable()
    yield
    forget()
    gc.enable()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: Rule) -> None:
    if wrong := rule(ROOT):
        pytest.fail("\n".join(wrong), pytrace=False)


@pytest.mark.parametrize(("rule", "text", "message"), FAULTS)
def test_a_planted_fault_is_found(rule: Rule, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / PACKAGE / "check" / "planted.py"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    (wrong,) = rule(tmp_path)
    assert message in wrong


def test_what_is_allowed_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / PACKAGE / "check" / "honest.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "TABLE = {'a': 1}\n_LOCK = threading.Lock()\nNAMES = frozenset()\n"
        "def f():\n    sys.path.insert(0, '.')\n    try:\n        g()\n    finally:\n        sys.path.remove('.')\n"
        "def g(a, b, c, d, e, f, g): return getattr(a, '__name__') or f()\n"
        "try:\n    g()\nexcept ValueError:  # there is none\n    pass\n",
        encoding="utf-8",
    )
    assert [wrong for rule in RULES for wrong in rule(tmp_path)] == []
