"""The rules about which file imports what, as tables. They read the source; a message says what to edit."""

from __future__ import annotations

import ast
import functools
import graphlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import harness

ROOT = Path(harness.__file__).resolve().parent.parent
HERE = "harness/tests/layering.py"
LONGEST = 320
# A pair is three files that import nothing of each other, so these cannot be split.
LONGEST_OF_A_PAIR = 380
LONGER = {
    "optimized_impls/attention.py": 475,
    "optimized_impls/moe.py": 560,
    "optimized_impls/token_exchange.py": 390,
    "suites/test_attention.py": 480,
    "suites/test_decoder_layer.py": 420,
    "suites/test_remat_policy.py": 390,
    "suites/test_scanned_stack.py": 412,
}

LAYERS = (
    # data: what is declared and what was found; no jax
    ("errors", "assumption", "meshes", "checks", "values", "domain", "contract", "case", "target", "claim"),
    ("documented", "realsize", "pair", "model"),
    ("point", "difference", "result", "argument", "facts", "tuned", "compile_ask", "shaken"),
    # tools, each for one thing
    ("libtpu", "floats", "bits", "seeds", "keys", "captured", "environment", "worktree", "processes", "search"),
    ("shake", "isolation", "modules"),
    ("catalogue", "implementations", "inputs", "programs", "strategies"),
    # compilers, and what they make of programs
    ("hlo", "quiet", "topology", "compile_cache", "compiled", "compile_canary", "side_by_side"),
    # one case on one mesh
    ("interpret", "groups", "sample", "sequential", "violation"),
    ("canary", "placement", "transforms", "widened", "sides", "proofs", "partitioned", "prover", "precision"),
    ("outcome", "ladder", "derived", "expected", "execution", "draws", "evidence", "runner", "traced"),
    ("judgement", "verdict", "agreement"),
    ("shaking",),
    # which cases, in which order, how to see one again, and what the declarations make of all results
    ("selection", "replay", "points", "workers", "sweep", "declared", "proving", "compiling", "tuned_values", "tuning"),
    ("train",),
    ("snapshots",),
    ("faults",),
    ("bisect",),
    # numbers of a layer on a chip, without running it
    ("advise", "claims", "defaults"),
    ("report",),
    # what a user starts
    ("pytest_words", "pytest_session", "pytest_compile", "pytest_plugin", "cli", "__main__"),
)
"""The modules and folders of `harness`, lowest first; one imports from its own layer and from those below."""

DATA = tuple(name for layer in LAYERS[:3] for name in layer)

JAX_AT_IMPORT = (
    "canary",
    "placement",
    "programs",
    "partitioned",
    "proofs",
    "sides",
    "widened",
    "transforms",
    "evidence",
    "interpret/exact",
    "train/running",
    "train/taps",
    "train/tracing",
    "workers",
    "bisect/trainings",
    "cli/checking",
    "cli/snapshots",
    "cli/proofs",
)
"""Modules that run jax. All others import it in a function at most, and these modules too where a user starts, so that
`--help` and collection stay fast and the devices are set first."""

DATA_WITH_JAX = ("meshes",)
"""Data that builds a jax object on demand."""

LOADERS = ("catalogue", "implementations", "train", "defaults", "faults")
"""The only users of `harness.modules`, which imports files by path."""

MODEL = "suites/model/"
MODEL_DATA = ("__init__.py", "settings.py", "data.py", "matrices.py", "documented.py")
"""A package whose files import each other relatively; those named are read where no jax may start, as for lists."""

PACKAGES = {
    "jax": None,
    "ml_dtypes": None,
    "numpy": None,
    "click": ("cli",),
    "hypothesis": ("strategies",),
    "google": ("hlo",),
    "msgspec": ("defaults", "report", "snapshots", "train"),
    "platformdirs": ("compile_cache",),
    "pytest": ("pytest_compile", "pytest_plugin", "pytest_session", "pytest_words"),
    "rich": ("cli", "report"),
    "yaml": ("defaults",),
}
"""Packages that `harness` imports, and the only modules that may; None is all of them."""


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, as `package.module.name`."""

    file: str
    line: int
    target: str
    when: str
    """`import`: with the module; `call`: inside a function; `typing`: only for the type checker."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"

    @property
    def package(self) -> str:
        return self.target.partition(".")[0]


def python_files(root: Path, *folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def machinery(root: Path) -> list[Path]:
    """`harness` without its tests, which may import anything."""
    return [path for path in python_files(root, "harness") if "tests" not in path.relative_to(root).parts]


def unit(path: Path, root: Path) -> str:
    """`harness/cli/check.py` is part of `cli`; `harness/bits.py` is `bits`."""
    return path.relative_to(root / "harness").parts[0].removesuffix(".py")


def imports(path: Path, root: Path) -> list[Import]:
    return list(_imports(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()))


@functools.cache
def _imports(text: str, file: str) -> tuple[Import, ...]:
    return tuple(_walk(ast.parse(text), file, "import"))


def _walk(node: ast.AST, file: str, when: str) -> Iterator[Import]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and when == "import":
        when = "call"
    if isinstance(node, ast.Import):
        yield from (Import(file, node.lineno, alias.name, when) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = "." * node.level + (f"{node.module}." if node.module else "")
        yield from (Import(file, node.lineno, f"{start}{alias.name}", when) for alias in node.names)
    typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    for child in ast.iter_child_nodes(node):
        inside = typing and isinstance(node, ast.If) and child in node.body
        yield from _walk(child, file, "typing" if inside else when)


def harness_units(found: Import) -> list[str]:
    """The unit of `harness` that an import names, if it names one."""
    words = found.target.split(".")
    return words[1:2] if words[0] == "harness" else []


# --- the rules: each takes a tree and returns what is wrong with it -------------------------------------------------


def in_the_table(root: Path) -> list[str]:
    known = [name for layer in LAYERS for name in layer]
    there = {unit(path, root) for path in machinery(root)} - {"__init__"}
    return [f"harness/{name} has no layer: add it to LAYERS in {HERE}" for name in sorted(there - set(known))] + [
        f"harness/{name} does not exist: remove it from LAYERS in {HERE}" for name in sorted(set(known) - there)
    ]


def downward(root: Path) -> list[str]:
    height = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    wrong = []
    for path in machinery(root):
        if unit(path, root) == "__init__":
            continue  # the public list names everything, and loads on first use
        for found in imports(path, root):
            for name in harness_units(found):
                if name in harness.__all__:
                    wrong.append(f"{found}: inside harness, import the module that defines '{name}'")
                elif height.get(name, 0) > height.get(unit(path, root), len(LAYERS)):
                    wrong.append(f"{found}: '{name}' is in a higher layer than '{unit(path, root)}'")
    return wrong


def acyclic(root: Path) -> list[str]:
    graph: dict[str, set[str]] = {}
    for path in machinery(root):
        names = {name for found in imports(path, root) if found.when == "import" for name in harness_units(found)}
        graph.setdefault(unit(path, root), set()).update(names - {unit(path, root)})
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [f"harness imports itself in a circle: {' <- '.join(error.args[1])}"]
    return []


def jax_where_it_runs(root: Path) -> list[str]:
    wrong = []
    for path in machinery(root):
        name, module = unit(path, root), path.relative_to(root / "harness").with_suffix("").as_posix()
        for found in (found for found in imports(path, root) if found.package == "jax" and found.when != "typing"):
            if found.when == "import" and module not in JAX_AT_IMPORT:
                wrong.append(f"{found} when it is imported: do it in the function that needs it, or see JAX_AT_IMPORT")
            elif name in DATA and name not in DATA_WITH_JAX:
                wrong.append(f"{found}: the data layer does without jax")
    return wrong


def packages_in_place(root: Path) -> list[str]:
    wrong = []
    for path in machinery(root):
        for found in imports(path, root):
            users = PACKAGES.get(found.package, ())
            if found.package in sys.stdlib_module_names or found.package == "harness" or users is None:
                continue
            if found.target.startswith("."):
                wrong.append(f"{found}: write the full name")
            elif unit(path, root) not in users:
                wrong.append(f"{found}: {' and '.join(users) or 'nothing'} of harness may use {found.package} ({HERE})")
    return wrong


def no_private_jax(root: Path) -> list[str]:
    paths = machinery(root) + python_files(root, "reference_impls", "optimized_impls", "suites")
    return [
        f"{found}: private to jax, gone with its next version"
        for path in paths
        for found in imports(path, root)
        if found.target.startswith("jax._src")
    ]


def implementations_alone(root: Path) -> list[str]:
    # Flax and YAML too: where modules, or what a file declares, are what is compared.
    others = {"jax", "flax", "numpy", "yaml"}
    return [
        f"{found}: it imports {', '.join(sorted(others))} and the standard library only, no other file of ours"
        for path in python_files(root, "reference_impls", "optimized_impls")
        for found in imports(path, root)
        if found.package not in {*sys.stdlib_module_names, *others}
    ]


def suites_use_the_public_list(root: Path) -> list[str]:
    wrong = []
    for path in python_files(root, "suites"):
        file = path.relative_to(root).as_posix()
        of_model = file.startswith(MODEL)
        may_run_jax = of_model and file.removeprefix(MODEL) not in MODEL_DATA
        for found in imports(path, root):
            sibling = of_model and found.target.startswith(".") and not found.target.startswith("..")
            ours = found.package in ("harness", "reference_impls", "optimized_impls", "suites", "")
            if ours and not sibling and found.target not in {f"harness.{name}" for name in harness.__all__}:
                wrong.append(f"{found}: a suite imports from the public list of `harness`, and nothing else of ours")
            if found.package in ("jax", "flax", "optax") and found.when == "import" and not may_run_jax:
                wrong.append(f"{found} at collection: do it in the test that needs it")
    return wrong


def loaded_in_one_place(root: Path) -> list[str]:
    wrong = []
    for path in machinery(root):
        name = unit(path, root)
        for found in imports(path, root):
            if found.target.startswith("harness.modules") and name not in LOADERS:
                wrong.append(f"{found}: only {' and '.join(LOADERS)} load files")
            if found.package in ("suites", "reference_impls", "optimized_impls"):
                wrong.append(f"{found}: harness knows no component by name")
            if found.target.startswith(("importlib.util", "importlib.import_module")) and name != "modules":
                wrong.append(f"{found}: only harness/modules.py loads by name")
        text = path.read_text(encoding="utf-8")
        if name not in ("modules", "__init__") and ("import_module(" in text or "__import__(" in text):
            wrong.append(f"{path.relative_to(root)} imports by a name made up: only harness/modules.py loads by name")
    return wrong


def short_files(root: Path) -> list[str]:
    wrong = []
    for path in python_files(root, "harness", "reference_impls", "optimized_impls", "suites", "benchmarks"):
        lines = len(path.read_text(encoding="utf-8").splitlines())
        name = path.relative_to(root).as_posix()
        of_a_pair = name.startswith(("reference_impls/", "optimized_impls/", "suites/test_"))
        limit = LONGER.get(name, LONGEST_OF_A_PAIR if of_a_pair else LONGEST)
        if lines > limit:
            wrong.append(f"{name} has {lines} lines, {limit} at most: split it where its ideas part")
    return wrong


Rule = Callable[[Path], list[str]]
RULES: tuple[Rule, ...] = (
    in_the_table,
    downward,
    acyclic,
    jax_where_it_runs,
    packages_in_place,
    no_private_jax,
    implementations_alone,
    suites_use_the_public_list,
    loaded_in_one_place,
    short_files,
)
