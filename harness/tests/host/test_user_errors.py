"""Exceptions of the user's code: one line with their own file and line, whatever was called underneath."""

import itertools
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits import user_errors
from samebits.schema.case import Arg
from tests.support.child import ROOT

BAD_SYNTAX = "def f(:\n"


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def _raised(function: Callable[..., Any], *args: Any) -> BaseException:
    try:
        function(*args)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def _inner(x: Any) -> Any:
    raise ValueError("first\nsecond")


def _outer(x: Any) -> Any:
    return _inner(x)


def _through_jax(x: Any) -> Any:
    return jax.jit(jax.vmap(_outer))(x)


def _bad_call(x: Any) -> Any:
    return jnp.dot(x, jnp.ones(7))


def _called_back(x: Any) -> Any:
    return jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(_inner, x, x))(x))


def _unspeakable(x: Any) -> Any:
    raise _Unspeakable


def _of_ours(x: Any) -> Any:
    return Arg(shape="rows")  # type: ignore[arg-type]


def _leaving(x: Any) -> Any:
    raise SystemExit


LINES: dict[Callable[..., Any], str] = {
    _outer: "raised ValueError: first",
    _through_jax: "raised ValueError: first",
    _bad_call: "raised TypeError: dot_general requires contracting dimensions to have the same shape, "
    "got (3,) and (7,).",
    _unspeakable: "raised _Unspeakable: its text cannot be shown: __str__ raised RuntimeError",
    _of_ours: "raised DeclarationError: argument: shape is the text 'rows'; expected a tuple, as in ('rows',)",
    _leaving: "raised SystemExit",
}
INNERMOST = {_outer: _inner, _through_jax: _inner}
"""Where another function than the one called has the line."""


@pytest.mark.parametrize("function", LINES, ids=lambda function: function.__name__)
def test_the_line_is_the_innermost_of_theirs(function: Callable[..., Any]) -> None:
    """Frames of jax and of this package explain nothing."""
    raising = INNERMOST.get(function, function).__code__
    rest = "; 1 more line with --traceback" if function in INNERMOST else ""
    assert user_errors.one_line(_raised(function, jnp.ones(3))) == (
        f"{LINES[function]} ({raising.co_filename}:{raising.co_firstlineno + 1}){rest}"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\n\n=====\nThe reason: sizes differ\n=====\n", "The reason: sizes differ ({here})"),
        (
            "In the layer:\n  expected (4, 4)\n  got (8, 16)\nor so",
            "In the layer: expected (4, 4) ({here}); 2 more lines with --traceback",
        ),
        ("ends:", "ends: ({here})"),
        ("===", "=== ({here})"),
        ("", "({here})"),
    ],
)
def test_the_first_line_that_says_something(text: str, shown: str) -> None:
    def raising() -> None:
        raise ValueError(text)

    here = f"{__file__}:{raising.__code__.co_firstlineno + 1}"
    line = user_errors.described(_raised(raising))
    assert line.replace("ValueError: ", "ValueError ", 1) == f"ValueError {shown.replace('{here}', here)}"


def _branching(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def _counting(x: Any) -> Any:
    return x[: int(x[0])]


def _by_numpy(x: Any) -> Any:
    return np.asarray(x) * 2


def _masking(x: Any) -> Any:
    return x[x > 0]


@pytest.mark.parametrize("function", [_branching, _counting, _by_numpy, _masking], ids=lambda f: f.__name__)
def test_control_flow_by_values_is_one_line_with_advice(function: Callable[..., Any]) -> None:
    line = user_errors.one_line(_raised(jax.jit(function), jnp.ones(3)))
    here = f"({__file__}:{function.__code__.co_firstlineno + 1})"
    advice = (
        "; it is traced as by jax.jit: call jax.numpy in place of NumPy"
        if function is _by_numpy
        else "; it is traced as by jax.jit: use jnp.where or jax.lax.cond, or pass what decides as a static argument"
    )
    assert line.endswith(here + advice) and "\n" not in line and len(line) < 400, line


def test_code_without_a_file_has_its_place() -> None:
    """Typed into a REPL, after `python -c`, or given to `exec`; not what `dataclass` and the like generate."""
    for file, name, shown in (
        ("<string>", "f", " (<string>:2)"),
        ("<stdin>-7", "f", " (<stdin>-7:2)"),
        ("<ipython-input-3-0a1b>", "f", " (<ipython-input-3-0a1b>:2)"),
        ("<frozen os>", "f", ""),
        ("<string>", "__init__", ""),
    ):
        namespace: dict[str, Any] = {}
        exec(compile(f"def {name}(x):\n    raise ValueError", file, "exec"), namespace)
        error = _raised(namespace[name], 1)
        error = error.with_traceback(error.__traceback__.tb_next)  # type: ignore[union-attr]
        assert user_errors.place(error) == shown, file


def test_a_callback_is_found_in_the_text_of_the_error() -> None:
    """XLA called it: its frames are in no traceback."""
    line = user_errors.one_line(_raised(_called_back, jnp.ones(3)))
    assert line.endswith(f"ValueError: first ({__file__}:{_inner.__code__.co_firstlineno + 1})")
    assert "\n" not in line


def test_a_library_is_named_where_no_line_is_theirs(tmp_path: Path) -> None:
    """As where a library's function is a side itself; generated code and compiled extensions have no line."""
    site = tmp_path / "site-packages" / "theirs"
    site.mkdir(parents=True)
    for file, place in (
        (site / "layer.py", f" ({site / 'layer.py'}:2)"),
        (tmp_path / "site-packages" / "jax" / "nn.py", ""),
        (Path(itertools.__spec__.origin or ""), ""),
        (Path("numpy/random/_common.pyx"), ""),
        (Path(user_errors.__file__), ""),
        (Path(user_errors.__file__).parent / "builtin" / "suites" / "a.py", None),
    ):
        namespace: dict[str, Any] = {}
        exec(compile("def f(x):\n    raise ValueError", str(file), "exec"), namespace)
        error = _raised(namespace["f"], 1)
        error = error.with_traceback(error.__traceback__.tb_next)  # type: ignore[union-attr]
        assert user_errors.place(error) == (f" ({file}:2)" if place is None else place), file


def test_a_syntax_error_is_at_its_own_line() -> None:
    error = _raised(compile, BAD_SYNTAX, "theirs.py", "exec")
    assert user_errors.one_line(error) == "raised SyntaxError: invalid syntax (theirs.py:1)"


def test_a_long_text_is_cut() -> None:
    line = user_errors.one_line(ValueError("long " * 1000))
    assert len(line) < user_errors.LONGEST + 30


def test_a_lone_surrogate_is_written_out() -> None:
    """No document can hold one, and the error was the user's before it was ours."""
    assert user_errors.described(ValueError("a\ud800b")) == "ValueError: a\\ud800b"
    user_errors.retain_text("raised a\ud800b")
    (text,) = user_errors.take_tracebacks()
    assert text.encode() == b"raised a\\ud800b"


def test_tracebacks_begin_with_the_first_line_of_theirs() -> None:
    for _ in range(2):
        user_errors.one_line(_raised(_through_jax, jnp.ones(3)))
    (text,) = user_errors.take_tracebacks()
    assert text.splitlines()[:1] == ["Traceback (most recent call last):"]
    assert text.splitlines()[1].strip().startswith(f'File "{__file__}", line ')
    assert "in _inner" in text and "\nValueError: first\nsecond" in text
    assert user_errors.take_tracebacks() == []


def test_what_met_no_code_of_theirs_has_no_traceback() -> None:
    user_errors.one_line(ValueError("never raised"))
    assert user_errors.take_tracebacks() == []


def test_no_more_tracebacks_than_a_reader_reads() -> None:
    for number in range(user_errors.RETAINED + 5):
        user_errors.retain_text(str(number))
    assert user_errors.take_tracebacks() == [str(number) for number in range(user_errors.RETAINED)]


@pytest.mark.parametrize("_", ["first", "second"])
def test_no_test_sees_what_another_has_retained(_: str) -> None:
    """`conftest.py` clears it after each test; a command in the next one would show it as its own."""
    assert user_errors.take_tracebacks() == []
    user_errors.retain_text("left behind")


# --- modules that are missing ----------------------------------------------------------------------------------------


def test_extras_are_those_of_pyproject(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest extra that has a module; hatchling writes the extras of an extra out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        f"{line.partition('#')[0]} ; extra == '{extra}'"
        for extra, all_ in _written_out(project).items()
        for line in all_
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: ["jax>=0.10", *lines])
    assert {
        name: user_errors.extra_of(name) for name in ("flax", "optax", "hypothesis", "jax", "numpy", "nowhere")
    } == {
        "flax": "model",
        "optax": "model",
        "hypothesis": "builtin",
        "jax": None,
        "numpy": None,
        "nowhere": None,
    }


def _written_out(project: dict[str, Any]) -> dict[str, list[str]]:
    extras: dict[str, list[str]] = project["optional-dependencies"]

    def all_of(extra: str) -> list[str]:
        nested = (
            all_of(line[9:-1]) if line.startswith("samebits[") and line.endswith("]") else [line]
            for line in extras[extra]
        )
        return list(itertools.chain.from_iterable(nested))

    return {extra: all_of(extra) for extra in extras}


def _import_optax(x: Any) -> Any:
    raise ModuleNotFoundError("No module named 'optax'", name="optax")


def _import_nothing(x: Any) -> Any:
    import nothing_of_this_name.layers  # type: ignore[import-not-found] # noqa: F401


def _import_part(x: Any) -> Any:
    import numpy.nothing_of_this_name  # type: ignore[import-not-found] # noqa: F401


def test_what_to_install_for_a_module_that_a_function_imports() -> None:
    assert user_errors.one_line(_raised(_import_optax, np.ones(3))).endswith("; pip install 'samebits[model]'")
    line = user_errors.one_line(_raised(_import_nothing, np.ones(3)))
    assert "No module named 'nothing_of_this_name' (" in line and line.endswith("or add its folder to PYTHONPATH")
    assert user_errors.one_line(_raised(_import_part, np.ones(3))).endswith(")")
