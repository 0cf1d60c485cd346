"""The folders of a repository that Python imports from, and the same folders of another revision of it.

An editable install, a `.pth` file or PYTHONPATH leads to the folders of today: a process that judges an old revision
would import today's code beside the old one, unless the revision's folders come first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class RepositorySources:
    """What Python imports from a repository, by paths relative to its top.

    Args:
        folders: whose modules are imported by their names, in the order of `sys.path`.
        packages: by name, the folders of packages that an editable install finds without a folder of `sys.path`.
    """

    folders: tuple[str, ...] = ()
    packages: tuple[tuple[str, str], ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys([*self.folders, *(folder for _, folder in self.packages)]))

    def in_checkout(self, top: Path, links: Path) -> list[str]:
        """Return the entries of a path on which Python finds them in a checkout, with a folder of links to packages."""
        entries = [str(top / folder) for folder in self.folders if (top / folder).is_dir()]
        packages = [(name, top / folder) for name, folder in self.packages if (top / folder).is_dir()]
        if packages:
            links.mkdir(parents=True)
            for name, folder in packages:
                (links / name).symlink_to(folder, target_is_directory=True)
            entries.append(str(links))
        return entries


def imported_sources(
    top: Path, environment: Mapping[str, str], *, but: Path | None = None, implicit: bool = False
) -> RepositorySources:
    """Return what Python imports from a repository: by `sys.path`, PYTHONPATH, `.pth` files and editable installs.

    What is installed in an environment inside the repository does not count.

    Args:
        environment: environment variables of the processes that import.
        but: a folder of the path that does not count.
        implicit: whether the folder counts that Python puts first on the path of a program, which is the current one or
            that of the program.
    """
    top, prefix = top.resolve(), Path(sys.prefix).resolve()

    def within(folder: Path) -> bool:
        return folder.is_relative_to(top) and not folder.is_relative_to(prefix) and folder.is_dir()

    entries = [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *_path(implicit=implicit)]
    folders = dict.fromkeys(Path(entry).resolve() for entry in entries)
    excluded = None if but is None else but.resolve()
    return RepositorySources(
        folders=tuple(str(each.relative_to(top)) for each in folders if each != excluded and within(each)),
        packages=tuple((name, str(each.relative_to(top))) for name, each in _editable() if within(each)),
    )


def _path(*, implicit: bool) -> Iterator[str]:
    """Yield the entries of `sys.path`, with or without the implicit first one."""
    left_out = ("", os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0])))
    for number, entry in enumerate(sys.path):
        if implicit or number or sys.flags.safe_path or entry not in left_out:
            yield entry or os.curdir


def _editable() -> Iterator[tuple[str, Path]]:
    """Yield the top-level packages with their folders, as the finders of setuptools have them."""
    for name, module in list(sys.modules.items()):
        mapping = getattr(module, "MAPPING", None) if name.startswith("__editable__") else None
        for package, folder in mapping.items() if isinstance(mapping, dict) else ():
            if "." not in package:
                yield package, Path(folder).resolve()
