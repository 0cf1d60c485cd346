"""Import of files and modules named by the user, with one clear line when it fails."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from samebits.errors import DeclarationError, SamebitsError
from samebits.host.interrupts import Stop
from samebits.host.isolation import undone, watch
from samebits.user_errors import described, retain


def load_file(path: Path) -> ModuleType:
    """Import a file in a folder of a tree once; it may import what lies beside that folder.

    A file that is already reachable under its package's name (our own tree) is imported under it; a file of
    somebody else's tree, where the folders have the same names, gets a name of its own.
    """
    path = path.resolve()
    if _is_at(f"{path.parent.name}.{path.stem}", path):
        return load_module(f"{path.parent.name}.{path.stem}")
    with _first_on_path(str(path.parent.parent)):
        return _load_at(path, f"{_own_name(path.parent)}_{path.stem}")


def load_standalone_file(path: Path) -> ModuleType:
    """Import any file once as pytest would: its folder, and the current one, can be imported from.

    A file in a package is imported under its full name, so that it can import relatively.
    """
    path = path.resolve()
    top = next(folder for folder in path.parents if not (folder / "__init__.py").is_file())
    parts = path.relative_to(top).with_suffix("").parts
    with _first_on_path(str(top), str(Path.cwd())):
        if len(parts) > 1 and _is_at(".".join(parts), path):
            return load_module(".".join(parts))
        return load_file(path)


def load_package(folder: Path) -> ModuleType:
    """Import the package in a folder once, with the modules that it imports relatively.

    Our own tree's is imported under its name; that of somebody else's tree gets a name of its own, as in `load_file`.
    """
    path = folder.resolve() / "__init__.py"
    name = f"{path.parent.parent.name}.{path.parent.name}"
    if _is_at(name, path):
        return load_module(name)
    return _load_at(path, _own_name(path.parent), [str(path.parent)])


def _own_name(folder: Path) -> str:
    """Return the name of a package in a folder of somebody else's tree, where folders have the same names."""
    return f"samebits_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}_{folder.name}"


def _load_at(path: Path, name: str, folders: list[str] | None = None) -> ModuleType:
    """Import a file once under a name; its modules are in `folders` where it is a package."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with undone(f"importing {path}", importing=True):
            spec.loader.exec_module(module)
    except BaseException as error:  # `sys.exit()` and pytest's own skip are no `Exception`
        for known in [known for known in sys.modules if known == name or known.startswith(f"{name}.")]:
            del sys.modules[known]
        if _is_ours(error):
            raise
        raise DeclarationError(_why(str(path), error)) from error
    if folders is None:
        watch(module)
    return module


def load_module(name: str, root: Path | None = None) -> ModuleType:
    """Import a module by its dotted name, from a tree, the current folder or the environment."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        folders = [*([] if root is None else [str(root)]), str(Path.cwd())]
        with _first_on_path(*folders), undone(f"importing module '{name}'", importing=True):
            module = importlib.import_module(name)
    except BaseException as error:  # as above
        if _is_ours(error):
            raise
        raise DeclarationError(_why(f"module '{name}'", error)) from error
    watch(module)
    return module


@contextlib.contextmanager
def _first_on_path(*folders: str) -> Iterator[None]:
    """Put folders first on the path inside, as under `python -m`; nothing stays there."""
    sys.path[:0] = folders
    try:
        yield
    finally:
        for folder in folders:
            with contextlib.suppress(ValueError):  # the module took it away itself
                sys.path.remove(folder)


def _is_ours(error: BaseException) -> bool:
    """Return whether samebits itself raised what ended an import, or Ctrl-C did."""
    return isinstance(error, SamebitsError) or Stop.caused(error)


def _is_at(name: str, path: Path) -> bool:
    if name in sys.modules:
        return Path(getattr(sys.modules[name], "__file__", None) or "").resolve() == path
    try:
        spec = importlib.util.find_spec(name)
    except (Exception, SystemExit):  # no such package, or one that raises: `typo/typo.py` is found as its own parent
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path


def _why(what: str, error: BaseException) -> str:
    """Return one line: what does not import, the error, and the user's own line where it happened."""
    retain(error)
    return f"{what} does not import: {described(error)}"
