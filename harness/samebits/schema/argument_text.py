"""An array argument as one word of a command line: `x=f32[8,16]`, `ids=i32[8]:0..99`, `q=bf16[8@data,16]:nan,-0.0`.

The type is written as jax prints it in a jaxpr, sharding included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from samebits.errors import DeclarationError, RequestError
from samebits.schema.case import SPECIALS, Arg, Spec
from samebits.schema.values import Integers, Normal, Uniform, Values

EXAMPLES = "x=f32[8,16], ids=i32[8]:0..99, p=f32[8]:0..1, q=bf16[8@data,16]:nan,-0.0"
"""The spelling in three words, for messages and `--help`."""

_WORD = re.compile(r"(?P<name>[^=\[\]:]*)=(?P<dtype>[^=\[\]:]*)\[(?P<dimensions>[^\[\]]*)\](?P<values>(:[^:]*)*)")
_DIMENSION = re.compile(r"(?P<size>[^@]*)(@(?P<axes>\([^()]*\)|[^@()]*))?")
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_RANGE = re.compile(rf"(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})")
_SHORT = re.compile(r"(?P<kind>bf|f|i|u|c)(?P<rest>\d\w*)")
_KEYS = ("key<fry>", "key<rbg>", "key<urbg>")
"""Random keys of each generator, as jax prints their dtypes."""

_LONG = {"bf": "bfloat", "f": "float", "i": "int", "u": "uint", "c": "complex"}


def parse_argument(word: str) -> tuple[str, Arg]:
    """Read the name and the declaration of an argument, such as `x=f32[8@data,16]:nan`.

    Args:
        word: `NAME=DTYPE[DIMENSIONS]`, then `:LOW..HIGH` for numbers of this range (both included), or `:SPECIAL,...`
            for special values, or `:true` or `:false` for a mask that is so everywhere; a dimension is a size, with
            `@AXIS` or `@(AXIS,AXIS)` where it is split. No dimension is a scalar. The dtype is short (`f32`, `bf16`,
            `i8`, `f8_e4m3fn`) or long (`float32`), or that of random keys (`key<fry>`).
    """
    match = _WORD.fullmatch(word.strip())
    if match is None:
        raise RequestError(f"argument '{word}' is not NAME=DTYPE[SIZES]{_meant(word)}; write it as in {EXAMPLES}")
    name = match["name"].strip()
    if not name.isidentifier():
        raise RequestError(f"argument '{word}': '{name}' is not the name of a parameter; write it as in {EXAMPLES}")
    dtype = dtype_name(match["dtype"].strip(), f"argument '{word}'")
    shape, spec = _dimensions(match["dimensions"], word)
    values, special = _values(match["values"].split(":")[1:], dtype, word)
    if special and dtype in _KEYS:
        raise RequestError(f"argument '{word}': random keys have no special values; leave out :{','.join(special)}")
    try:
        arg = Arg(shape=shape, dtype=dtype, spec=spec, values=values, special=special)
    except DeclarationError as error:
        raise RequestError(f"argument '{word}': {error}") from None
    return name, arg


def _meant(word: str) -> str:
    """Say what was meant by a word that is not an array; empty where that is not clear."""
    name, _, value = (part.strip() for part in word.partition("="))
    if not name.isidentifier():
        return ""
    if re.fullmatch(rf"{_NUMBER}|True|False|None", value):
        return f": a value that is not an array is --static {name}={value}"
    if re.search(r"\]\s*,\s*\w+\s*=", value):
        return ": each array has an --arg of its own"
    return f": a scalar is {name}={value}[]" if re.fullmatch(rf"{_SHORT.pattern}|float\d+|int\d+|bool", value) else ""


def parse_arguments(words: Iterable[str]) -> dict[str, Arg]:
    """Read several arguments; by name, in their order."""
    parsed: dict[str, Arg] = {}
    for word in words:
        name, arg = parse_argument(word)
        if name in parsed:
            raise RequestError(f"argument '{word}': '{name}' is given twice; give each argument once")
        parsed[name] = arg
    return parsed


def dtype_name(text: str, where: str) -> str:
    """Return the full name of a dtype: `float32` of `f32`, `float8_e4m3fn` of `f8_e4m3fn`."""
    import ml_dtypes
    import numpy as np

    if text in _KEYS:
        return text
    short = _SHORT.fullmatch(text)
    name = text if short is None else _LONG[short["kind"]] + short["rest"]
    try:
        dtype = np.dtype(getattr(ml_dtypes, name, name))
    except (TypeError, AttributeError):  # a module's other attributes, such as `finfo`, are not dtypes
        dtype = None
    known = dtype is not None and dtype.name == name and (dtype.kind in "biufc" or hasattr(ml_dtypes, name))
    if dtype is None or not known or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise RequestError(
            f"{where}: dtype '{text}' is unknown; expected a name as jax prints it, such as f32, bf16, f16, i32, u8, "
            "bool, f8_e4m3fn or key<fry>"
        )
    return name


_TRUTH = {"false": Integers(low=0, high=1), "true": Integers(low=1, high=2)}
"""How a mask is given that is the same everywhere."""


def argument_word(name: str, arg: Arg) -> str:
    """Write the word of an argument; the inverse of `parse_argument`, for arguments that it gives."""
    short = {long: key for key, long in _LONG.items()}
    parts = re.fullmatch(r"(bfloat|float|int|uint|complex)(\d\w*)", str(arg.dtype))
    dtype = str(arg.dtype) if parts is None else short[parts[1]] + parts[2]
    axes = (*arg.spec, *(None,) * (len(arg.shape) - len(arg.spec)))
    sizes = ",".join(f"{size}{_axes_text(entry)}" for size, entry in zip(arg.shape, axes, strict=True))
    values = next((f":{truth}" for truth, known in _TRUTH.items() if dtype == "bool" and arg.values == known), "")
    if isinstance(arg.values, Uniform):
        values = f":{_shortest(arg.values.low)}..{_shortest(arg.values.high)}"
    elif isinstance(arg.values, Integers) and dtype != "bool":
        values = f":{arg.values.low}..{arg.values.high - 1}"
    special = ":" + ",".join(arg.special) if arg.special else ""
    return f"{name}={dtype}[{sizes}]{values}{special}"


def _shortest(number: float) -> str:
    """Write a float as it is read back."""
    return f"{number:g}" if float(f"{number:g}") == number else repr(float(number))


def _axes_text(entry: str | tuple[str, ...] | None) -> str:
    if entry is None:
        return ""
    return f"@{entry}" if isinstance(entry, str) else f"@({','.join(entry)})"


def _dimensions(text: str, word: str) -> tuple[tuple[int, ...], Spec]:
    """Read sizes, and the axes of each dimension."""
    if not text.strip():
        return (), ()
    shape: list[int] = []
    spec: list[str | tuple[str, ...] | None] = []
    for part in re.split(r",(?![^(]*\))", text):
        match = _DIMENSION.fullmatch(part.strip())
        size = "" if match is None else match["size"].strip()
        if match is None or not re.fullmatch(r"[0-9]+", size) or int(size) == 0:
            raise RequestError(f"argument '{word}': dimension '{part.strip()}' is not a size; {_SIZES}")
        names = () if match["axes"] is None else tuple(axis.strip() for axis in match["axes"].strip("()").split(","))
        if not all(axis.isidentifier() for axis in names):
            raise RequestError(f"argument '{word}': '{part.strip()}' does not name mesh axes; {_SIZES}")
        shape.append(int(size))
        spec.append(None if not names else names[0] if len(names) == 1 else names)
    return tuple(shape), tuple(spec) if any(spec) else ()


_SIZES = "expected a positive number, and @AXIS or @(AXIS,AXIS) where it is split, as in f32[8@data,16]"


def _values(suffixes: list[str], dtype: str, word: str) -> tuple[Values, tuple[str, ...]]:
    """Read how the elements are drawn, and the special values."""
    values: Values | None = None
    special: tuple[str, ...] = ()
    for suffix in suffixes:
        text = suffix.strip()
        match = _RANGE.fullmatch(text)
        if match is None and text not in _TRUTH:
            special = (*special, *_specials(suffix, word))
        elif values is not None:
            raise RequestError(f"argument '{word}': two ranges; give one, as in ids=i32[8]:0..99")
        elif match is not None:
            values = _range(match["low"], match["high"], dtype, word)
        elif dtype == "bool":
            values = _TRUTH[text]
        else:
            raise RequestError(f"argument '{word}': '{text}' is of bool, and not of {dtype}; leave it out")
    return Normal() if values is None else values, special


def _specials(suffix: str, word: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in suffix.split(","))
    for name in names:
        if name not in SPECIALS:
            raise RequestError(
                f"argument '{word}': '{name}' is neither a range such as 0..99 nor a special value; expected some of "
                + ", ".join(SPECIALS)
            )
    return names


def _range(first: str, last: str, dtype: str, word: str) -> Values:
    """Read numbers from the first to the last, both included, that the dtype can hold."""
    import ml_dtypes

    if dtype.startswith(("float", "bfloat")):
        if not float(first) < float(last):
            raise RequestError(f"argument '{word}': the range {first}..{last} is empty; expected LOW..HIGH")
        return Uniform(low=float(first), high=float(last))
    if not dtype.startswith(("int", "uint")):
        instead = ", or give :true or :false" if dtype == "bool" else ""
        raise RequestError(f"argument '{word}': {dtype} has no ranges; leave out :{first}..{last}{instead}")
    if not all(re.fullmatch(r"-?\d+", end) for end in (first, last)):
        raise RequestError(f"argument '{word}': {first}..{last} is not a range of integers, which {dtype} needs")
    low, high = int(first), int(last)
    info = ml_dtypes.iinfo(dtype)
    if high < low:
        raise RequestError(f"argument '{word}': the range {low}..{high} is empty; expected LOW..HIGH, both included")
    if low < info.min or high > info.max:
        raise RequestError(f"argument '{word}': {low}..{high} does not fit {dtype}, which has {info.min}..{info.max}")
    return Integers(low=low, high=high + 1)
