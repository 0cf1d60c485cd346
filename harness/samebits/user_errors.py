"""Exceptions of the user's code: one line with the file and line that are theirs, and the traceback for `--traceback`.

Whose code a frame is follows from its file: neither this package, nor Python's own library, nor an installed one.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections import Counter
from pathlib import Path
from types import TracebackType

LONGEST = 300
"""Characters of an exception's own text that are shown."""

RETAINED = 20
"""How many different tracebacks are retained; a pair can raise at thousands of points."""

_PACKAGE = Path(__file__).resolve().parent
_CARRIED = _PACKAGE / "builtin"
"""The pairs that an installed package carries: read like the user's own."""

_STANDARD = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")
_UNDERNEATH = ("jax", "jaxlib", "numpy", "ml_dtypes", "pytest", "_pytest", "pluggy", "click")
"""Installed packages that call the user's code, or that it calls; a line of theirs explains nothing."""

_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TYPED = re.compile(r"<(string|stdin|console|(ipython|python)-input-[^>]*)>(-\d+)?")
_CONTROL_FLOW = (
    "ConcretizationTypeError",
    "NonConcreteBooleanIndexError",
    "TracerArrayConversionError",
    "TracerIntegerConversionError",
)
_REQUIREMENT = re.compile(r"([\w.-]+)(?![\w.\[-]).*;.*extra == ['\"]([^'\"]+)['\"]")


class _Tracebacks:
    """The tracebacks of this process, each text once; one object, as there is one command per process."""

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}


_TRACEBACKS = _Tracebacks()


def one_line(error: BaseException) -> str:
    """An exception as one line, `raised ValueError: text (FILE:LINE)`; its traceback is retained for `--traceback`."""
    retain(error)
    return f"raised {described(error)}"


def described(error: BaseException) -> str:
    """The type and the text of an exception, the user's line, and what to install where a module is missing."""
    text, more = _text(error)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 3]}..."
    if not more or _is_of_jax(error) or _users_part(error) is None:
        rest = ""
    else:
        rest = f"; {more} more {'line' if more == 1 else 'lines'} with --traceback"
    return f"{type(error).__name__}{': ' if text else ''}{text}{place(error)}{rest}{_advice(error)}{_install(error)}"


def place(error: BaseException) -> str:
    """The innermost line of the user's code as ` (FILE:LINE)`; of an installed library where none is; or nothing."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}:{error.lineno})"
    walked = [
        (f.filename, f.lineno or 0, is_typed(f.filename, f.name)) for f in traceback.extract_tb(error.__traceback__)
    ]
    frames = [(file, line) for file, line, _ in walked]
    # A callback's own frames are in the text alone: XLA called it.
    frames += [(file, int(line)) for file, line in _FRAME.findall(_safe(error))] if _TRACEBACK in _safe(error) else []
    theirs = [frame for frame in frames if _owner(frame[0]) == "user"]
    typed = [(file, line) for file, line, is_theirs in walked if is_theirs]
    libraries = [frame for frame in frames if _owner(frame[0]) == "library"]
    return next((f" ({file}:{line})" for file, line in reversed(theirs or typed or libraries)), "")


def is_typed(file: str, function: str) -> bool:
    """Whether code without a file was typed or given as text: in a REPL, in a notebook, after `python -c`, to `exec`.

    Methods that `dataclass` and the like generate have such names too.

    Args:
        file, function: of the frame.
    """
    return bool(_TYPED.fullmatch(file)) and not function.startswith("__")


def first_user_frame(dump: str) -> str | None:
    """The first frame of the user's code in what `faulthandler` wrote, as `FILE:LINE in NAME`; None without one."""
    frames = re.findall(r'File "([^"]+)", line (\d+) in (\S+)', dump)
    return next((f"{file}:{line} in {name}" for file, line, name in frames if _owner(file) == "user"), None)


def retain(error: BaseException | None) -> None:
    """Retain the traceback of an exception that went through the user's code, from their first frame on."""
    trace = None if error is None else _users_part(error)
    if error is not None and (trace is not None or isinstance(error, SyntaxError)):
        retain_text(_formatted(error, trace))


def _users_part(error: BaseException) -> TracebackType | None:
    """The traceback of an exception from the first frame of the user's code on; None where there is none."""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if _owner(code.co_filename) == "user" or is_typed(code.co_filename, code.co_name):
            return trace
        trace = trace.tb_next
    return None


def retain_text(text: str) -> None:
    """Retain a traceback as another process has written it."""
    if len(_TRACEBACKS.texts) < RETAINED:
        _TRACEBACKS.texts.setdefault(_encodable(text))


def take_tracebacks() -> list[str]:
    """The tracebacks retained since the last time, in order."""
    texts = list(_TRACEBACKS.texts)
    _TRACEBACKS.texts.clear()
    return texts


def extra_of(module: str) -> str | None:
    """The smallest extra of samebits that installs a module, as its own metadata lists them; None where none does."""
    import importlib.metadata  # it reads e-mail headers, which takes longer than all of `--help`

    try:
        requirements = importlib.metadata.requires("samebits") or []
    except importlib.metadata.PackageNotFoundError:  # run from its source
        return None
    listed = [match.groups() for line in requirements if (match := _REQUIREMENT.match(line))]
    sizes = Counter(extra for _, extra in listed)
    extras = {extra for name, extra in listed if name.replace("-", "_") == module}
    return min(extras, key=lambda extra: (sizes[extra], extra), default=None)


def _owner(file: str) -> str:
    """Whose code a file is: `user`, `library` (an installed one), or `machinery` (Python, jax, this package)."""
    if file.startswith("<") and file.endswith(">"):  # generated: `<frozen importlib._bootstrap>`, `<string>`
        return "machinery"
    path = Path(file)
    if not path.is_absolute():  # of an extension, as it was compiled: `numpy/random/_common.pyx`
        return "machinery"
    installed = [index for index, part in enumerate(path.parts) if part in _INSTALLED]
    if _CARRIED in path.parents:
        return "user"
    if _PACKAGE in path.parents:
        return "machinery"
    if installed:
        package = path.parts[installed[-1] + 1].removesuffix(".py") if len(path.parts) > installed[-1] + 1 else ""
        return "machinery" if package in _UNDERNEATH else "library"
    return "machinery" if any(folder in path.parents for folder in _STANDARD) else "user"


def _encodable(text: str) -> str:
    """A text with its lone surrogates written out: no document can hold one."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _safe(error: BaseException) -> str:
    """The text of an exception; a class of the user's may fail to give one."""
    try:
        return _encodable(str(error))
    except Exception as broken:
        return f"its text cannot be shown: __str__ raised {type(broken).__name__}"


def _text(error: BaseException) -> tuple[str, int]:
    """The first line of an exception's text that says something, and how many follow.

    One that ends with a colon goes on with the next; of a callback, whose traceback is in the text, it is that of its
    own exception.
    """
    if isinstance(error, SyntaxError):
        return error.msg, 0
    lines = [line.rstrip() for line in _safe(error).splitlines() if line.strip()]
    first = next(iter(lines), "").strip()
    if first.endswith(_TRACEBACK):
        frames = [index for index, line in enumerate(lines) if _FRAME.search(line)]
        own = [line for line in lines[max(frames, default=0) + 1 :] if not line.startswith(" ")]
        return first.removesuffix(_TRACEBACK) + next(iter(own), ""), 0
    telling = [line.strip() for line in lines if any(map(str.isalnum, line))]
    if not telling:
        return first, 0
    text, *rest = telling
    while text.endswith(":") and rest:
        text = f"{text} {rest.pop(0)}"
    return text, len(rest)


def _is_of_jax(error: BaseException) -> bool:
    """Whether jax's own text is shown: the lines after the first explain its internals."""
    return type(error).__module__.partition(".")[0] in ("jax", "jaxlib")


_STATE = {
    "TraceContextError": "a module with state is an argument, so that what is written into it is compared: give a "
    "function of it and the module after both, as in assert_same(f, g, model, x) with f = lambda model, x: model(x)",
    "ModifyScopeVariableError": "a module with state is applied with mutable=['batch_stats'] (its collections), which "
    "returns them to be compared; the variables are an argument of both functions",
    "CallCompactUnboundModuleError": "a module is called by its variables: give a function of them, as in "
    "lambda variables, x: module.apply(variables, x)",
    "InvalidRngError": "give it a key: rngs={'dropout': key} of apply, the key an argument of both functions",
}
"""What to do about errors of flax by which a module with state rejects a call."""


def _advice(error: BaseException) -> str:
    """What to do where Python asks for a number that is only known when the program runs, or flax for its state."""
    if type(error).__module__.partition(".")[0] == "flax" and type(error).__name__ in _STATE:
        return f"; {_STATE[type(error).__name__]}"
    if not _is_of_jax(error) or not {*_CONTROL_FLOW} & {kind.__name__ for kind in type(error).__mro__}:
        return ""
    if type(error).__name__ == "TracerArrayConversionError":
        return "; it is traced as by jax.jit: call jax.numpy in place of NumPy"
    return "; it is traced as by jax.jit: use jnp.where or jax.lax.cond, or pass what decides as a static argument"


def _formatted(error: BaseException, trace: TracebackType | None) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    except Exception as broken:  # of a class of the user's that cannot be shown
        return f"{type(error).__name__}: its traceback cannot be shown: {type(broken).__name__}"


def _install(error: BaseException) -> str:
    """What to install for a module that is missing, in a file or in a function that imports it when it is called."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    module = error.name.partition(".")[0]
    extra = extra_of(module)
    if extra is not None:
        return f"; pip install 'samebits[{extra}]'"
    if module in sys.modules:  # the package is there, and a module of it is not
        return ""
    return f"; install it for {sys.executable}, or add its folder to PYTHONPATH"
