"""`samebits new NAME MODULE:FUNCTION MODULE:FUNCTION`: one file that declares a pair of two functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samebits.functions.infer_arguments import InferredArguments, infer_arguments
from samebits.functions.names import side_names
from samebits.programs.binding import order_remark
from samebits.programs.implementations import function_named
from samebits.schema.argument_text import argument_word
from samebits.schema.case import Arg
from samebits.schema.meshes import MeshSpec
from samebits.schema.values import Integers, Uniform

FILE = "suites/test_{name}.py"


def functions_file(
    name: str, functions: tuple[str, str], declared: Mapping[str, Arg], statics: Mapping[str, Any]
) -> tuple[str, list[str]]:
    """The declaration of a pair of two functions.

    Args:
        name: of the pair.
        functions: reference and variant, each as `module:function` or `FILE.py:function`.
        declared: the arrays that are known, by the reference's names.
        statics: the static arguments.

    Returns:
        The text of the file, and lines for the user: which arguments were inferred, and which come in another order.

    Raises:
        DeclarationError: a function does not exist.
        RequestError: their arguments cannot be inferred.
    """
    reference, variant = (function_named(text) for text in functions)
    arguments = infer_arguments(reference, variant, declared, statics)
    _, side = side_names(reference, variant, functions)
    text = _text(name, functions, side, arguments, statics)
    words = [argument_word(argument, arguments.args[argument]) for argument in arguments.guessed]
    order = order_remark(reference, variant, (*arguments.args, *statics), arguments.rename, side)
    lines = [f"inferred: {' '.join(words)}; edit them, or declare them with --arg"] if words else []
    return text, lines if order is None else [*lines, order]


def _text(
    name: str, functions: tuple[str, str], side: str, arguments: InferredArguments, statics: Mapping[str, Any]
) -> str:
    floats = [str(arg.dtype) for arg in arguments.args.values() if "float" in str(arg.dtype)]
    main = (floats or [str(arg.dtype) for arg in arguments.args.values()])[0]
    drawn = [kind.__name__ for kind in (Integers, Uniform)
             if any(isinstance(arg.values, kind) for arg in arguments.args.values())]  # fmt: skip
    file = FILE.format(name=name)
    case = f'Case(id="small"{f", statics={dict(statics)!r}" if statics else ""})'
    imports = ", ".join([*sorted(["Arg", "Case", "Pair", *drawn]), "pair_test"])
    return "\n".join(
        [
            f'"""{functions[1]} in place of {functions[0]}: `samebits check {name}`, or `pytest {file}`."""',
            "",
            f"from samebits import {imports}",
            "",
            "PAIR = Pair(",
            f'    name="{name}",',
            f'    reference="{functions[0]}",',
            f'    variants={{"{side}": "{functions[1]}"}},',
            "    args={",
            *(f'        "{argument}": {_arg(arg, main)},' for argument, arg in arguments.args.items()),
            "    },",
            f"    cases=({case},),",
            f'    dtypes=("{main}",),',
            *_meshes(arguments.args),
            *([f"    rename={_quoted(arguments.rename)},"] if arguments.rename else []),
            *([] if arguments.gradients else ["    gradients=False,"]),
            ")",
            "",
            f"test_{name} = pair_test(PAIR)",
            "",
        ]
    )


def _arg(arg: Arg, main: str) -> str:
    """An argument as it is declared; one of the main dtype takes the dtype of the sweep."""
    parts = [f"shape={arg.shape!r}"]
    parts += [] if arg.dtype == main and not isinstance(arg.values, Integers) else [f'dtype="{arg.dtype}"']
    parts += [f"spec={_quoted(arg.spec)}"] if arg.spec else []
    if isinstance(arg.values, Integers):
        parts.append(f"values=Integers(low={arg.values.low}, high={arg.values.high})")
    if isinstance(arg.values, Uniform):
        parts.append(f"values=Uniform(low={arg.values.low!r}, high={arg.values.high!r})")
    parts += [f"special={_quoted(arg.special)}"] if arg.special else []
    return f"Arg({', '.join(parts)})"


def _meshes(args: Mapping[str, Arg]) -> list[str]:
    """One device, and a mesh of two along each axis that an argument names."""
    entries = [entry for arg in args.values() for entry in arg.spec if entry is not None]
    axes = dict.fromkeys(axis for entry in entries for axis in ((entry,) if isinstance(entry, str) else entry))
    if not axes:
        return []
    mesh = MeshSpec.parse("_".join(f"{axis}2" for axis in axes))
    return [f'    meshes=("none", "{mesh.id}"),']


def _quoted(value: object) -> str:
    return repr(value).replace("'", '"')
