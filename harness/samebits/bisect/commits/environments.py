"""Reads files of pinned packages, and builds virtual environments from them."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from samebits.errors import CouldNotRun, RequestError
from samebits.host.cache_folder import cache_folder
from samebits.host.package import PACKAGE

NEEDED = (
    *("jax", "jaxlib", "numpy", "ml_dtypes", "click", "rich", "protobuf", "platformdirs", "msgspec"),
    *("pytest", "hypothesis"),
)
"""Packages that samebits and the suites import. Every environment has them, at the versions installed here unless a
file pins them."""
NEEDED_FOR_TRAINING = ("flax", "optax")
"""Packages that a full model imports."""

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*==\s*([^\s;#*]+)\s*(;[^#]*)?")

Pins = Mapping[str, tuple[str, ...]]
"""The pins of each package: one line, or one for each version of Python."""


def read_pins(path: Path) -> Pins:
    """The pins of a file, by normalized package name.

    Raises:
        RequestError: it cannot be read, pins nothing, or contains a line that is not a pin.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RequestError(f"--toolchain {path}: cannot be read: {reason}") from None
    pins: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        pin = re.sub(r"(^|\s)#.*", "", line).strip()
        if not pin:
            continue
        match = _PIN.fullmatch(pin)
        if match is None:
            raise RequestError(f"--toolchain {path}:{number}: expected NAME==VERSION, got '{pin}'")
        name = normalized_name(match[1])
        marker = f" {match[4].strip()}" if match[4] else ""
        pins[name] = (*pins.get(name, ()), f"{name}{match[2] or ''}=={match[3]}{marker}")
    if not pins:
        raise RequestError(f"--toolchain {path}: pins nothing; expected lines NAME==VERSION")
    return pins


def normalized_name(name: str) -> str:
    """A package's name as PEP 503 normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned_versions(pins: Pins, name: str) -> str:
    """The pinned versions of a package, in words."""
    lines = pins.get(name)
    if not lines:
        return "none"
    return " or ".join(re.sub(r"^.*?==\s*", "", line) for line in lines)


def required_pins(training: bool) -> Pins:
    """Pins of the packages that samebits imports, at this environment's versions.

    Args:
        training: whether to include the packages of a full model.
    """
    pins = {}
    for name in (*NEEDED, *(NEEDED_FOR_TRAINING if training else ())):
        try:
            pins[normalized_name(name)] = (f"{normalized_name(name)}=={version(name)}",)
        except PackageNotFoundError:
            continue  # the check itself reports a missing package
    return pins


def pins_text(pins: Pins) -> str:
    """Pins in the format of a requirements file."""
    return "".join(f"{line}\n" for name in sorted(pins) for line in pins[name])


def build(pins: Pins, environment: Mapping[str, str]) -> Path:
    """The Python interpreter of a virtual environment with these packages, built once and cached.

    Args:
        pins: the packages to install.
        environment: environment variables of pip.

    Raises:
        CouldNotRun: pip rejects the set or cannot install it; the message is pip's.
    """
    text = pins_text(pins)
    digest = hashlib.sha256(f"{sys.version}\n{text}".encode()).hexdigest()[:24]
    folder = cache_folder("toolchains") / digest
    python = folder / "bin" / "python"
    done = folder / "pins.txt"
    if done.is_file() and done.read_text(encoding="utf-8") == text and python.exists():
        return python
    # Installed with this Python's pip, because ensurepip is not available everywhere.
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], environment)
    draft = folder / "asked.txt"
    draft.write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-input", "--requirement", str(draft)], environment)
    draft.replace(done)  # written last: an environment without this file is incomplete
    return python


def _run(words: list[str], environment: Mapping[str, str]) -> None:
    own = {name: text for name, text in environment.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        ended = subprocess.run(words, env=own, capture_output=True, encoding="utf-8", errors="replace", check=False)
    except OSError as error:
        raise CouldNotRun(f"{words[0]} cannot be started: {error.strerror or error}") from None
    if ended.returncode:
        lines = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR:")]
        # For a contradictory set, the first error names the packages and the last one only links to documentation.
        message = next((line for line in errors if "Cannot install" in line), (errors or lines or ["nothing said"])[-1])
        raise CouldNotRun(" ".join(message.removeprefix("ERROR:").split())[:300])


def package_path(folder: Path) -> Path:
    """A folder from which `samebits` can be imported, without any other package of its environment."""
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "samebits"
    if not link.exists():
        os.symlink(PACKAGE, link, target_is_directory=True)
    return folder
