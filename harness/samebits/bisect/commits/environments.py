"""Pinned packages: files of pins, and the virtual environments that are made of them."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from samebits.compile.cache import cache_folder
from samebits.errors import CouldNotRun, RequestError
from samebits.host.package import PACKAGE

NEEDED = (
    *("jax", "jaxlib", "numpy", "ml_dtypes", "click", "rich", "protobuf", "platformdirs", "msgspec"),
    *("pytest", "hypothesis"),
)
"""What the harness and suites import: in every environment, at the versions of this one unless a file pins them."""
NEEDED_FOR_TRAINING = ("flax", "optax")
"""What a full model imports."""

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*==\s*([^\s;#*]+)\s*(;[^#]*)?")

Pins = Mapping[str, tuple[str, ...]]
"""Of each package its lines: one, or one for each version of Python."""


def read_pins(path: Path) -> Pins:
    """The pins of a file, by the packages' normal names.

    Raises:
        RequestError: it cannot be read, pins nothing, or has a line that is no pin.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise RequestError(f"--toolchain {path}: cannot be read: {said}") from None
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        pin = re.sub(r"(^|\s)#.*", "", line).strip()
        if not pin:
            continue
        match = _PIN.fullmatch(pin)
        if match is None:
            raise RequestError(f"--toolchain {path}:{number}: expected NAME==VERSION, got '{pin}'")
        name = normalized_name(match[1])
        marker = f" {match[4].strip()}" if match[4] else ""
        found[name] = (*found.get(name, ()), f"{name}{match[2] or ''}=={match[3]}{marker}")
    if not found:
        raise RequestError(f"--toolchain {path}: pins nothing; expected lines NAME==VERSION")
    return found


def normalized_name(name: str) -> str:
    """The one way of writing a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned_versions(pins: Pins, name: str) -> str:
    """What is pinned of a package, in words."""
    lines = pins.get(name)
    if not lines:
        return "none"
    return " or ".join(re.sub(r"^.*?==\s*", "", line) for line in lines)


def required_pins(training: bool) -> Pins:
    """Pins of what the harness imports, as they are here."""
    found = {}
    for name in (*NEEDED, *(NEEDED_FOR_TRAINING if training else ())):
        try:
            found[normalized_name(name)] = (f"{normalized_name(name)}=={version(name)}",)
        except PackageNotFoundError:
            continue  # then the check itself says what is missing
    return found


def pins_text(pins: Pins) -> str:
    """Pins as a file."""
    return "".join(f"{line}\n" for name in sorted(pins) for line in pins[name])


def build(pins: Pins, environment: Mapping[str, str]) -> Path:
    """The Python of a virtual environment with these packages; made once, and kept in the cache.

    Args:
        pins: its packages.
        environment: of pip.

    Raises:
        CouldNotRun: pip refuses the set, or cannot install it; with its own words.
    """
    text = pins_text(pins)
    digest = hashlib.sha256(f"{sys.version}\n{text}".encode()).hexdigest()[:24]
    folder = cache_folder("toolchains") / digest
    python = folder / "bin" / "python"
    done = folder / "pins.txt"
    if done.is_file() and done.read_text(encoding="utf-8") == text and python.exists():
        return python
    # The pip of this Python fills it: not every Python comes with the one that a new environment gets.
    _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], environment)
    draft = folder / "asked.txt"
    draft.write_text(text, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "--no-input", "--requirement", str(draft)], environment)
    draft.replace(done)  # last of all: without it the environment is not taken for whole
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
        # Of a set that contradicts itself the first error names the packages, the last one a web page.
        said = next((line for line in errors if "Cannot install" in line), (errors or lines or ["nothing said"])[-1])
        raise CouldNotRun(" ".join(said.removeprefix("ERROR:").split())[:300])


def package_path(folder: Path) -> Path:
    """A folder from which `samebits` can be imported, and nothing else of the environment that it lies in."""
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "samebits"
    if not link.exists():
        os.symlink(PACKAGE, link, target_is_directory=True)
    return folder
