"""What one function may read, as data: a property by its name with its options, in a declaration or as one word."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from samebits.errors import DeclarationError, RequestError
from samebits.schema.validate import expected

_PLACES = ("on", "exactly", "gradient")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "batch_rows": ("axis", *_PLACES),
    "causal": ("axis", *_PLACES),
    "gradient_reaches": ("param",),
    "gradient_stops": ("param",),
    "independent": ("of", "on", "exactly"),
    "microbatches": ("size", "axis", *_PLACES),
    "packed": ("segment_ids", *_PLACES),
    "padding": ("mask", *_PLACES),
    "window": ("size", "axis", *_PLACES),
}
"""By property its options: those of the function of this name."""

NEEDED: Mapping[str, Mapping[str, object]] = {
    "gradient_reaches": {"param": "w"},
    "gradient_stops": {"param": "w"},
    "independent": {"of": "out[:, t]", "on": "x[:, t+1:]"},
    "microbatches": {"size": 2},
    "window": {"size": 4},
}
"""The options that must be given, each with an example."""


@dataclass(frozen=True, slots=True)
class Property:
    """What the reference and each variant must not read, decided by `samebits prove` as by the function of this name.

    Every side is asked at each point of the sweep in auto mode, at the sizes of the case; `samebits check` and calls of
    Python do not ask. A refuted property fails the pair with its witness. One that is undecided is like a leaf that has
    no proof: exit code 3.

    Args:
        name: `causal`, `packed`, `padding`, `batch_rows`, `microbatches`, `window`, `gradient_stops`,
            `gradient_reaches` or `independent`.
        on: the arguments that must not be read, or an expression such as `x[:, t+1:]`; by default as for the function.
        of: of `independent`, the output elements.
        axis: that of positions or rows.
        size: of a window or a microbatch.
        segment_ids: of `packed`, the argument that holds them.
        mask: of `padding`, the argument that says which places are valid.
        param: of `gradient_stops` and `gradient_reaches`, the argument.
        exactly: arguments whose floats are meant as they are drawn.
        gradient: whether gradients are asked too; by default where the pair has them.
        case: in which cases it is asked, a shell pattern; all by default.
        variant: of which sides it is asked, likewise.

    Raises:
        DeclarationError: there is no such property, or an option is missing, unknown or of another type.
    """

    name: str
    _: KW_ONLY
    on: str | tuple[str, ...] | None = None
    of: str | None = None
    axis: int | None = None
    size: int | None = None
    segment_ids: str | None = None
    mask: str | None = None
    param: str | None = None
    exactly: str | tuple[str, ...] | None = None
    gradient: bool | None = None
    case: str = "*"
    variant: str = "*"

    def __post_init__(self) -> None:
        _check(self.name, self.options)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options that are given, by name."""
        names = dict.fromkeys(name for taken in OPTIONS.values() for name in taken)
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.name}({options})" if options else self.name


def _check(name: str, options: Mapping[str, Any]) -> None:
    if name not in OPTIONS:
        raise DeclarationError(f"property {name!r} is unknown; {expected(name, OPTIONS)}")
    for option, value in options.items():
        if option not in OPTIONS[name]:
            raise DeclarationError(f"property {name} has no option {option}; {expected(option, OPTIONS[name])}")
        kind: type = {"axis": int, "size": int, "gradient": bool}.get(option, str)
        several = option in ("on", "exactly") and name != "independent" and isinstance(value, tuple)
        if not all(type(each) is kind for each in (value if several else (value,))):
            what = {int: "a number", bool: "True or False", str: "a name or an expression, as text"}[kind]
            raise DeclarationError(f"property {name}: {option}={value!r}; expected {what}")
    if missing := NEEDED.get(name, {}).keys() - options.keys():
        words = ", ".join(f"{option}={value!r}" for option, value in NEEDED[name].items())
        raise DeclarationError(f"property {name} needs {' and '.join(sorted(missing))}; write {name}({words})")


def parse_property(text: str) -> Property:
    """Read a property as one word: `causal`, `window(size=4)`, `packed(segment_ids=segments)`."""
    wrong = RequestError(f"property '{text}': expected NAME or NAME(OPTION=VALUE, ...), as in window(size=4)")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise wrong from None
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if not isinstance(call.func, ast.Name) or call.args or not all(keyword.arg for keyword in call.keywords):
        raise wrong
    try:
        options = {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}
        _check(call.func.id, options)
        return Property(call.func.id, **options)
    except (ValueError, DeclarationError) as error:
        raise RequestError(f"property '{text}': {str(error).removeprefix('property ')}") from None


def _value(node: ast.expr) -> Any:
    """Return a literal; a name without quotes is text."""
    if isinstance(node, ast.Name | ast.Attribute):
        return ast.unparse(node)
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(map(_value, node.elts))
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(f"'{ast.unparse(node)}' is not a number, a name, or a text in quotes") from None
