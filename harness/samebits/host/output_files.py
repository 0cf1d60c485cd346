"""Files that a run writes at its end: known to be writable before it begins, and written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from samebits.errors import RequestError
from samebits.host.own_output import is_stdout, own_stdout


def require_writable(option: str, path: Path | None) -> None:
    """Reject a report file that could not be written, before anything runs."""
    if path is None or is_stdout(path):
        return
    if path.is_dir():
        raise RequestError(f"{option} {path}: is a directory; give the name of a file")
    if not path.parent.is_dir():
        raise RequestError(f"{option} {path}: the folder '{path.parent}' does not exist; create it first")
    try:
        if path.exists() and not path.is_file():
            return  # a device such as /dev/stdout
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
        # Only writing shows it: permission bits mean nothing for root, nor on a read-only file system.
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise RequestError(f"{option} {path}: cannot be written: {error.strerror or error}") from None


def require_regular(option: str, path: Path | None) -> None:
    """Reject a file that a run goes back to, and that is a device or a pipe."""
    require_writable(option, path)
    if path is not None and path.exists() and not path.is_file():
        raise RequestError(f"{option} {path}: is a device or a pipe, from which nothing can be resumed; give a file")


def require_reports(files: Mapping[str, Path | None], documents: Iterable[Path] = ()) -> None:
    """Reject report files that could not be written, of which two are one file, or one is a document that is read."""
    read = {path.resolve() for path in documents}
    seen: dict[Path, str] = {}
    for option, path in files.items():
        require_writable(option, path)
        if path is None:
            continue
        if path.resolve() in read and path.is_file() and not is_stdout(path):
            raise RequestError(f"{option} {path}: is one of the documents; give another file")
        other = seen.setdefault(path.resolve(), option)
        if other != option:
            raise RequestError(f"{other} and {option} both name {path}; give two files")


def write_text(path: Path, text: str) -> None:
    """Write a report whole or not at all; standard output, or another device, is written in place."""
    if is_stdout(path):
        own_stdout().write(text)
        own_stdout().flush()
        return
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
