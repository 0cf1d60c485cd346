"""What every result of a process depends on: sources, packages, settings; beside what is read meanwhile (`FileReads`).

Coarse on purpose: it changes with any source or setting that a result could depend on. A file too many costs a run; one
too few would be a wrong verdict.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import platform
import re
import sys
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.host.cache_folder import cache_root
from samebits.host.environment import configuration
from samebits.host.file_reads import loaded_files
from samebits.host.installed import distributions_digest, files_below, is_installed, own_digest
from samebits.host.processors import instruction_sets

_PREFIXES = (
    *("JAX_", "XLA_", "LIBTPU_", "TPU_", "SAMEBITS_", "TF_", "PJRT_", "CUDA_", "NVIDIA_", "NCCL_", "ROCM_", "HIP_"),
    *("OMP_", "OPENBLAS_", "MKL_", "KMP_", "NPY_", "EIGEN_", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "LD_", "GLIBC_"),
    *("PYTHONPATH", "HOME"),
)
"""How the environment variables begin that jax, its compilers, NumPy's kernels, Python, the loader or samebits read."""

_NO_EFFECT = ("SAMEBITS_CACHE_DIR", "SAMEBITS_CACHE_LIMIT", "JAX_COMPILATION_CACHE_DIR", "KMP_DUPLICATE_LIB_OK")
"""Variables that say only where something is stored; threadpoolctl sets the last one when it is imported."""

_NO_EFFECT_SETTINGS = ("jax_compilation_cache_dir",)

_ENVIRONMENT = re.compile(rb"environ\b|environb\b|getenvb?\b|expandvars\b")
_IMPORT = re.compile(rb"^[ \t]*from os import [^\n(]*$", re.MULTILINE)
_NAMED = re.compile(
    rb"(?:\benviron\s*\[|\benviron\s*\.\s*(?:get|pop|setdefault)\s*\(|\bgetenv\s*\()\s*[\"'](\w+)[\"']\s*[\]),]"
    rb"|[\"'](\w+)[\"']\s+(?:not\s+)?in\s+os\s*\.\s*environ\b"
)
"""How code reads one variable by a name that is written there."""

_MODULES = (".py", ".pyc", ".so", ".pyd")


@dataclass(frozen=True, slots=True)
class ProcessSources:
    """What every result of a process depends on, as it is now; to be digested as JSON.

    Args:
        sources: digests of modules, and where more may come to stand.
        settings: what else results depend on.
        files: the modules that count in `sources`, by their absolute paths.
    """

    sources: Mapping[str, Any]
    settings: Mapping[str, Any]
    files: frozenset[str]

    @property
    def parts(self) -> dict[str, Any]:
        """All of it, by name."""
        return {**self.sources, **self.settings}


def sources_of_process(*trees: Path, most: int = 2**31) -> ProcessSources:
    """Return what every result of this process depends on.

    Args:
        trees: whose modules count, whether they are loaded or not.
        most: of more files and folders than these nothing is digested; what they have is equal to nothing then.
    """
    folders = {tree.resolve() for tree in trees}
    every = itertools.chain.from_iterable(files_below(folder) for folder in sorted(folders))
    seen = list(itertools.islice(every, most + 1))
    written = sorted({path for path in seen if path.endswith(_MODULES)}) if len(seen) <= most else []
    loaded = loaded_files()
    packages = {folder for file in loaded - set(written) if (folder := _package(file)) is not None}
    beside = {path for folder in packages for path in files_below(folder) if path.endswith(_MODULES)}
    sources = {
        "loaded": _known(sorted((loaded | beside) - set(written))),
        "sources": _known(written) if len(seen) <= most else uuid.uuid4().hex,
        "modules": [(folder, _modules_in(folder)) for folder in _path_outside(*folders)],
        "variables read": _variables_read(loaded, written),
    }
    return ProcessSources(sources, _settings(), frozenset(written) | loaded | beside)


def _settings() -> dict[str, Any]:
    """Return what results depend on beside sources."""
    variables = sorted(os.environ.items())
    return {
        "samebits": own_digest(),
        "distributions": distributions_digest(),
        "python": [sys.version, list(sys.flags), sys.warnoptions, platform.libc_ver(), platform.platform()],
        "processor": [*instruction_sets(), *_processor()],
        "settings": _settings_of_jax(),
        "variables": {n: value for n, value in variables if n.startswith(_PREFIXES) and n not in _NO_EFFECT},
        "flags in a file": _flags_in_a_file(),
        "folder": _folder(),
    }


def variables_in(file: str) -> tuple[tuple[str, ...], bool]:
    """Return the environment variables that a file reads by their names, and whether it may read others."""
    try:
        text = Path(file).read_bytes()
    except OSError:  # removed meanwhile
        return (), False
    if not _ENVIRONMENT.search(text):
        return (), False
    named = [(match[1] or match[2]).decode() for match in _NAMED.finditer(text)]
    rest = _ENVIRONMENT.search(_IMPORT.sub(b"", _NAMED.sub(b"", text)))
    return tuple(dict.fromkeys(named)), rest is not None


def _variables_read(loaded: Iterable[str], written: Iterable[str]) -> dict[str, str | None]:
    """Return the environment variables that files read; all of them where one that is loaded passes the environment on.

    Others of the tree that do are not known to be used, and in most trees there is one.
    """
    known = [variables_in(file) for file in loaded]
    if any(whole for _, whole in known):
        return dict(sorted(os.environ.items()))
    known += [variables_in(file) for file in written]
    return {name: os.environ.get(name) for names, _ in known for name in names}


def _package(file: str) -> Path | None:
    """Return the top-level package that a file lies in; None where it is in none."""
    packages = [folder for folder in Path(file).parents if (folder / "__init__.py").is_file()]
    return packages[-1] if packages else None


def _path_outside(*known: Path) -> list[str]:
    """Return the folders on Python's path that are not installed, nor in these, where modules may come to stand."""
    folders = dict.fromkeys(os.path.realpath(entry or os.curdir) for entry in sys.path)
    return [
        folder
        for folder in folders
        if not is_installed(os.path.join(folder, "")) and not any(map(Path(folder).is_relative_to, known))
    ]


def _modules_in(folder: str) -> list[str]:
    """Return the names of what may be modules and packages in a folder; not of what Python and samebits write there."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # an archive, or a folder that does not exist
        return []
    folders = [e for e in entries if e.name != "__pycache__" and e.name.isidentifier() and e.is_dir()]
    packages = {e.name for e in folders if os.path.abspath(e.path) != os.path.abspath(cache_root())}
    return [e.name for e in entries if e.name.endswith(_MODULES) or e.name in packages]


def _known(files: list[str]) -> str:
    """Return a digest of files with their contents; a file is read again only where its state is another one."""
    digest = hashlib.sha256()
    for file in files:
        try:
            state = os.stat(file)
            digest.update(f"{file}\0".encode() + _content(file, state.st_ino, state.st_size, state.st_ctime_ns))
        except OSError:  # a link to nowhere; what imports it fails anyway
            digest.update(f"{file} cannot be read\0".encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=16384)
def _content(file: str, *_state: int) -> bytes:
    return hashlib.sha256(Path(file).read_bytes()).digest()


def _settings_of_jax() -> list[str]:
    """Return every setting of jax; of one that is an object, its type, since what it prints may hold its address."""
    if "jax" not in sys.modules:
        return []
    return [
        f"{name}={value!r}" if re.search(r" at 0x[0-9a-f]+", repr(value)) is None else f"{name}={type(value)}"
        for name, value in configuration()
        if name not in _NO_EFFECT_SETTINGS
    ]


def _flags_in_a_file() -> str | None:
    """Return the flags of XLA where `XLA_FLAGS` is the name of a file that has them; None where it is not."""
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if not flags or flags.startswith("-"):
        return None
    try:
        return Path(flags).read_text(encoding="utf-8", errors="replace")
    except OSError:  # XLA says what is wrong with it
        return None


def _processor() -> list[str]:
    """Return what Linux says of the processors, without their present frequencies."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # another system
        return [platform.processor()]
    names = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features", "cache size")
    return sorted({line for line in lines if line.partition(":")[0].strip() in names})


def _folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # removed since the command began
        return "a folder that was removed"
