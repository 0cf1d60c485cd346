"""The project's own files agree with each other; each check is shown to be able to fail."""

import importlib
import os
import re
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.child import ROOT

_NOT_OURS = {"__pycache__", "build", "dist"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def pyproject() -> dict[str, Any]:
    return tomllib.loads(read("pyproject.toml"))


def text_files(root: Path) -> Iterator[Path]:
    """The project's files, without what tools leave behind."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _NOT_OURS and not name.endswith(".egg-info")]
        if Path(folder) == root:
            folders[:] = [name for name in folders if not name.startswith(".") or name in (".ci", ".github")]
        yield from (Path(folder) / name for name in files if name != ".git")


# --- Python versions -------------------------------------------------------------------------------------------------


def pythons(project: dict[str, Any]) -> list[str]:
    pattern = re.compile(r"Programming Language :: Python :: (\d+\.\d+)")
    return [match[1] for line in project["project"]["classifiers"] if (match := pattern.fullmatch(line))]


def untested_pythons(project: dict[str, Any], workflow: str) -> list[str]:
    lists = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    everywhere = {version for text in lists for version in re.findall(r"[\d.]+", text)}
    return [
        f"Python {v} is declared in pyproject.toml: add it to ci.yml" for v in pythons(project) if v not in everywhere
    ]


def test_every_python_version_is_tested() -> None:
    project = pyproject()
    assert untested_pythons(project, read(".github/workflows/ci.yml")) == []
    assert project["project"]["requires-python"] == f">={pythons(project)[0]}"
    assert len(pythons(project)) >= 3


def test_an_untested_python_version_is_found() -> None:
    project = {"project": {"classifiers": ["Programming Language :: Python :: 3.14"]}}
    workflow = read(".github/workflows/ci.yml")
    assert untested_pythons(project, workflow) == ["Python 3.14 is declared in pyproject.toml: add it to ci.yml"]


# --- dependencies ----------------------------------------------------------------------------------------------------


def requirements(project: dict[str, Any]) -> list[Requirement]:
    """Of the package and of all its extras, without the references to itself."""
    lists = [project["project"]["dependencies"], *project["project"].get("optional-dependencies", {}).values()]
    found = [Requirement(text) for texts in lists for text in texts]
    return [requirement for requirement in found if requirement.name != project["project"]["name"]]


def wrong_pins(project: dict[str, Any], constraints: str) -> list[str]:
    """What is amiss between the lower bounds and the exact versions."""
    wrong = []
    pins = []
    for line in constraints.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pin = Requirement(line)
        if not re.fullmatch(r"==[\w.+]+", str(pin.specifier)) or pin.url or pin.extras:
            wrong.append(f"constraints.txt: '{line}' is not of the form name==version")
        pins.append(pin)
    for python in pythons(project):
        for requirement in requirements(project):
            named = [pin for pin in pins if canonicalize_name(pin.name) == canonicalize_name(requirement.name)]
            valid = [pin for pin in named if pin.marker is None or pin.marker.evaluate({"python_version": python})]
            if len(valid) != 1:
                wrong.append(f"{requirement.name} has {len(valid)} pins in constraints.txt on Python {python}, not 1")
            for pin in valid:
                version = str(pin.specifier).removeprefix("==")
                if not requirement.specifier.contains(version):
                    wrong.append(f"constraints.txt pins {pin.name} {version}, pyproject.toml wants {requirement}")
    return wrong


def test_every_dependency_is_pinned_within_its_bounds() -> None:
    assert wrong_pins(pyproject(), read("constraints.txt")) == []
    assert {"jax", "jaxlib", "numpy"} <= {requirement.name for requirement in requirements(pyproject())}


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ("numpy>=2", "constraints.txt: 'numpy>=2' is not of the form name==version"),
        ("numpy==2.*", "constraints.txt: 'numpy==2.*' is not of the form name==version"),
        ("numpy @ https://example.org/numpy.whl", "is not of the form name==version"),
        ("numpy==1.0", "constraints.txt pins numpy 1.0, pyproject.toml wants numpy>=2"),
        ("", "numpy has 0 pins in constraints.txt on Python 3.12, not 1"),
        ('numpy==2.0 ; python_version < "3.12"', "numpy has 0 pins in constraints.txt on Python 3.12, not 1"),
        ("numpy==2.0\nnumpy==2.1", "numpy has 2 pins in constraints.txt on Python 3.12, not 1"),
    ],
)
def test_a_wrong_pin_is_found(constraints: str, message: str) -> None:
    classifiers = ["Programming Language :: Python :: 3.12"]
    project = {"project": {"name": "x", "classifiers": classifiers, "dependencies": ["numpy>=2"]}}
    assert message in "\n".join(wrong_pins(project, constraints))


def test_nothing_names_where_packages_come_from() -> None:
    """A lock file with a registry's address works for those alone who reach it."""
    for name in ("constraints.txt", "pyproject.toml", "Makefile"):
        assert "://" not in read(name), name


def test_the_wheel_holds_one_package_and_the_pairs_as_data() -> None:
    wheel = pyproject()["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["harness/samebits"]
    trees = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert wheel["force-include"] == {name: f"samebits/builtin/{name}" for name in trees}


def wrong_names(wheel: Path) -> set[str]:
    """What a wheel would put into site-packages beside the package, and tests inside of it."""
    with zipfile.ZipFile(wheel) as held:
        files = [Path(name) for name in held.namelist()]
    outside = {file.parts[0] for file in files if not re.fullmatch(r"samebits(-.*\.dist-info)?", file.parts[0])}
    return outside | {str(file) for file in files if "tests" in file.parts}


def test_the_wheel_as_it_is_built_has_one_name(tmp_path: Path) -> None:
    builder = importlib.import_module("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    (wheel,) = [Path(path) for path in builder.build(directory=str(tmp_path), versions=["standard"])]
    assert wrong_names(wheel) == set()
    with zipfile.ZipFile(wheel, "a") as held:
        held.writestr("suites/test_rope.py", "")
        held.writestr("samebits/tests/test_bits.py", "")
    assert wrong_names(wheel) == {"suites", "samebits/tests/test_bits.py"}


# --- commands --------------------------------------------------------------------------------------------------------


def unknown_targets(text: str, makefile: str) -> list[str]:
    """The targets that a text tells to make and that the Makefile does not have; of Markdown only its code counts."""
    there = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    code = re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL)
    targets = re.findall(r"(?:^|[`$&:|]) *make (?:--\S+ )*([a-z]+)", "\n".join(code or [text]), re.MULTILINE)
    return sorted(set(targets) - there)


@pytest.mark.parametrize(
    "name",
    ["README.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/ci.yml", ".pre-commit-config.yaml", "Makefile"],
)
def test_every_make_command_exists(name: str) -> None:
    assert unknown_targets(read(name), read("Makefile")) == []


def test_a_command_that_does_not_exist_is_found() -> None:
    markdown = "`make tests`, `make check`\nmake sure\n```\nmake chekc PYTHON=python3.12\ncd x && make al\n```\n"
    assert unknown_targets(markdown, read("Makefile")) == ["al", "chekc", "tests"]
    assert unknown_targets("  - run: make lin\nmake tset\nmake lint", read("Makefile")) == ["lin", "tset"]


def test_two_commands_do_everything() -> None:
    readme = read("README.md")
    assert "make check" in readme
    assert "make test" in readme
    script = read(".ci/run").splitlines()
    assert script.index("make lint") < script.index("make test")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


# --- the changelog ---------------------------------------------------------------------------------------------------

_KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def wrong_changelog(text: str, version: str) -> list[str]:
    """What is not as Keep a Changelog 1.1 has it, and a newest version that is not this one.

    Changes since that version stand above it, under `[Unreleased]`.
    """
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    heads = heads[1:] if heads[:1] == ["[Unreleased]"] else heads
    wrong = [f"'{head}' is not '[VERSION] - YYYY-MM-DD'" for head in heads
             if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head)]  # fmt: skip
    if not heads or not heads[0].startswith(f"[{version}]"):
        wrong.append(f"the newest version is {heads[:1]}, not {version}")
    sections = re.findall(r"^### (.*)$", text, re.MULTILINE)
    wrong += [f"'{name}' is not one of {', '.join(_KINDS)}" for name in sections if name not in _KINDS]
    loose = re.sub(r"^### .*?(?=^## |\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    return wrong + [f"an entry without a section: {line}" for line in re.findall(r"^- .*$", loose, re.MULTILINE)]


def test_the_changelog_has_its_form() -> None:
    assert wrong_changelog(read("CHANGELOG.md"), pyproject()["project"]["version"]) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("## [0.2.0] - 2026-11-22", "## 0.2.0 (unreleased)", "'0.2.0 (unreleased)' is not"),
        ("## [0.2.0]", "## [0.3.0]", "the newest version is ['[0.3.0] - 2026-11-22'], not 0.2.0"),
        ("### Added", "### New", "'New' is not one of Added"),
        ("### Added\n", "- An entry.\n", "an entry without a section: - An entry."),
        ("- A site.\n", "- A site.\n\n## [Unreleased]\n", "'[Unreleased]' is not '[VERSION] - YYYY-MM-DD'"),
    ],
)
def test_a_wrong_changelog_is_found(old: str, new: str, message: str) -> None:
    text = "# Changelog\n\n## [0.2.0] - 2026-11-22\n\n### Added\n\n- A site.\n"
    assert wrong_changelog(text, "0.2.0") == []
    newer = text.replace("## ", "## [Unreleased]\n\n### Fixed\n\n- A bug.\n\n## ", 1)
    assert wrong_changelog(newer, "0.2.0") == []
    assert message in "\n".join(wrong_changelog(text.replace(old, new), "0.2.0"))


# --- no machine in particular ----------------------------------------------------------------------------------------

_OF_ONE_MACHINE = re.compile(r"""(?:^|[\s"'(=`:])(/(?:work|tmp|home|root|Users)/\S*)""", re.MULTILINE)


def paths_of_one_machine(root: Path) -> list[str]:
    """Absolute paths that exist only on the machine of their author."""
    wrong = []
    for path in text_files(root):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        wrong += [f"{path.relative_to(root)}: {match[1]}" for match in _OF_ONE_MACHINE.finditer(text)]
    return wrong


def test_no_file_names_a_path_of_one_machine() -> None:
    assert paths_of_one_machine(ROOT) == []
    assert {"pyproject.toml", "run", "ci.yml", "bits.py"} <= {path.name for path in text_files(ROOT)}


def test_a_path_of_one_machine_is_found(tmp_path: Path) -> None:
    planted = "/".join(("", "home", "me", "tree"))
    (tmp_path / "file.py").write_text(f'ROOT = "{planted}"\nURL = "https://example.org{planted}"\n')
    assert paths_of_one_machine(tmp_path) == [f'file.py: {planted}"']
