"""What a gate is asked: the files of a kernel and of its reference, and how both are called."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from samebits.errors import RequestError
from samebits.schema.argument_text import EXAMPLES

KERNELS = ("kernel", "workload")
REFERENCES = ("reference", "workload")
SIZES = ("blocks", "all", "given")
INPUTS = ("inputs", "create_inputs")
"""What functions are called where only the file is given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRequest:
    """A kernel and its reference.

    Args:
        kernel, reference: `FILE.py:FUNCTION`; of a file alone, its function `kernel`, `reference` or `workload`.
        inputs: `FILE.py:FUNCTION` that returns what both are called with; of the reference's file, `inputs` or
            `create_inputs`, where there is no `arg` either.
        arg: what both are called with, as `--arg` of `samebits compare`, by position.
        gradient: whether gradients are compared; None, the default, compares them where the kernel has some.
        sizes: which other sizes the kernel must be right at, or reject: `blocks` for those that every block divides
            which divides the sizes of the inputs, `all`, or `given` for none.
        accuracy: how many times its reference's error it may have.
        seconds: that each of its processes may take.
    """

    kernel: str
    reference: str
    inputs: str | None = None
    arg: tuple[str, ...] = ()
    gradient: bool | None = None
    sizes: str = "blocks"
    accuracy: float = 8.0
    seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.sizes not in SIZES:
            raise RequestError(f"sizes={self.sizes!r}; expected one of {', '.join(SIZES)}")
        if not self.seconds > 0:
            raise RequestError(f"seconds={self.seconds}; expected a number of seconds above 0")

    def words(self) -> list[str]:
        """Return it as words of the command line."""
        words = [self.kernel, "--reference", self.reference, "--sizes", self.sizes, "--seconds", f"{self.seconds:g}"]
        words += [] if self.inputs is None else ["--inputs", self.inputs]
        words += ["--accuracy", f"{self.accuracy:g}"]
        words += [word for arg in self.arg for word in ("--arg", arg)]
        return words + ([] if self.gradient is None else ["--gradient" if self.gradient else "--forward"])

    def resolved(self) -> GateRequest:
        """Return it with every function named; no file is executed."""
        reference = _named(self.reference, REFERENCES, "reference")
        inputs = self.inputs
        if inputs is None and not self.arg:
            file = split(reference)[0]
            chosen = [name for name in INPUTS if name in _functions(file)]
            if not chosen:
                raise RequestError(
                    f"{file}: no function {' or '.join(INPUTS)} says what both are called with; give --inputs "
                    f"FILE.py:FUNCTION, or --arg as in {EXAMPLES}"
                )
            inputs = f"{file}:{chosen[0]}"
        kernel = _named(self.kernel, KERNELS, "kernel")
        if kernel == reference:
            raise RequestError(f"{kernel} is both the kernel and its reference; nothing would be compared")
        inputs = None if inputs is None else _named(inputs, INPUTS, "inputs")
        return replace(self, kernel=kernel, reference=reference, inputs=inputs)


def read_request(text: str, folder: Path) -> GateRequest:
    """Read a request in JSON, and write the sources that it holds to files in a folder."""
    try:
        raw = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise RequestError(f"standard input: not a JSON object: {error}") from None
    for name in ("kernel", "reference"):
        source = raw.pop(f"{name}_source", None)
        if source is not None:
            file = folder / name / f"{name}.py"  # in folders of their own, so that neither lies beside the other
            file.parent.mkdir()
            file.write_text(str(source), encoding="utf-8")
            raw[name] = f"{file}:{raw[name]}" if raw.get(name) else str(file)
    known = [each.name for each in fields(GateRequest)]
    unknown = [name for name in raw if name not in known]
    if unknown:
        names = ", ".join([*known, "kernel_source"])
        raise RequestError(f"standard input: the key '{unknown[0]}' is unknown; expected {names} or reference_source")
    try:
        return msgspec.convert(raw, GateRequest, strict=True)
    except msgspec.ValidationError as error:
        raise RequestError(f"standard input: {error}") from None


def split(named: str) -> tuple[Path, str]:
    """Return the file and the function of `FILE.py:FUNCTION`."""
    file, _, function = named.rpartition(":")
    return Path(file), function


def _named(text: str, usual: tuple[str, ...], what: str) -> str:
    parts = re.fullmatch(r"(.+\.py)(?::(.+))?", text)
    if parts is None:
        raise RequestError(f"{what} {text!r}: expected FILE.py or FILE.py:FUNCTION")
    file, function = Path(parts[1]).resolve(), parts[2]
    known = _functions(file)
    has = f"has {', '.join(known) or 'none'}"
    if function and function not in known:
        raise RequestError(f"{file} has no function '{function}'; it {has}")
    chosen = [name for name in usual if name in known] or [name for name in known if not name.startswith("_")]
    if not function and len(chosen) != 1 and chosen[:1] != [usual[0]]:
        raise RequestError(f"{file}: which function is the {what}? It {has}; write {file.name}:NAME")
    return f"{file}:{function or chosen[0]}"


def _functions(file: Path) -> list[str]:
    """Return the names that a file gives to functions, or to what may be one."""
    try:
        tree = ast.parse(file.read_bytes())
    except OSError as error:
        raise RequestError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise RequestError(f"{file}{f':{line}' if line else ''}: is not Python: {error}") from None
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    bound = [node for node in tree.body if isinstance(node, ast.Assign)]
    bound = [node for node in bound if isinstance(node.value, ast.Call | ast.Lambda | ast.Attribute)]
    return names + [target.id for node in bound for target in node.targets if isinstance(target, ast.Name)]
