"""The rules about which file imports what, as tables. They read the source; a message says what to edit."""

import graphlib
import sys
from collections.abc import Callable
from pathlib import Path

import samebits
from samebits.rooms import ROOMS
from tests.project.import_graph import PACKAGE, graph, imports, machinery, module, python_files, room

HERE = "harness/tests/project/layering.py"
LONGEST = 800
# A pair is three files that import nothing of each other, so these cannot be split.
LONGEST_OF_A_PAIR = 380
LONGER = {
    "optimized_impls/attention.py": 475,
    "optimized_impls/moe.py": 560,
    "optimized_impls/token_exchange.py": 390,
    "suites/test_attention.py": 486,
    "suites/test_decoder_layer.py": 421,
    "suites/test_remat_policy.py": 391,
    "suites/test_scanned_stack.py": 412,
}

FLOORS = (
    ("errors",),
    ("rooms", "user_errors"),
    ("schema", "numerics", "host", "hlo"),
    ("interpret",),
    ("programs",),
    ("prove",),
    ("check",),
    ("sizes",),
    ("compile",),
    ("train",),
    ("audit", "bisect"),
    ("engine",),
    ("cluster",),
    ("report",),
    ("functions",),
    ("properties", "kernel_gate"),
    ("cli", "testing"),
    ("__main__",),
)
"""The rooms of `harness/samebits/`, lowest first. A module imports from its own room and from the floors below; from
another room of its floor only as `BESIDE` says."""

BESIDE = (("numerics", "schema"), ("host", "schema"))
"""Rooms of one floor of which the first imports from the second."""

CORE = ("schema", "numerics", "hlo", "interpret", "programs", "prove", "check", "functions", "testing")
"""What a newcomer must know; it works where the rooms of `samebits.rooms.ROOMS` are absent."""

JAX_AT_IMPORT = (
    "compile/blame",
    "kernel_gate/alone",
    "kernel_gate/arguments",
    "kernel_gate/judged",
    "compile/executed",
    "hlo/as_jax",
    "hlo/collectives",
    "hlo/convolutions",
    "hlo/layouts",
    "hlo/operations",
    "hlo/partition_axes",
    "hlo/products",
    "hlo/sorting",
    "interpret/kernel_rules",
    "prove/selftest",
    "programs/host_trees",
    "programs/placement",
    "programs/program_digest",
    "programs/program_cache",
    "cluster/spanning",
    "prove/partitioned_gather",
    "prove/problem",
    "prove/mesh_queries",
    "sizes/proofs/operators",
    "prove/same_program",
    "sizes/proofs/tracing",
    "sizes/proofs/number_forms",
    "programs/sides",
    "check/evidence",
    "interpret/complex_pairs",
    "interpret/composite_primitives",
    "interpret/control_flow",
    "interpret/jax_evaluation",
    "interpret/kernels",
    "train/trainer",
    "train/taps",
    "properties/row_movement",
    "engine/check_work",
    "bisect/smallest_program",
    "bisect/target_sides",
    "bisect/trainings",
    "cli/check_run",
    "cli/snapshot_run",
    "cli/prove_run",
)
"""Modules that run jax. All others import it in a function at most, and these modules too where a user starts, so that
`--help` and collection stay fast and the devices are set first."""

DATA = "schema"
DATA_WITH_JAX = ("schema/meshes", "schema/argument_trees")
"""Data that builds a jax object on demand."""

PRIVATE_JAX = ("interpret/kernel_rules", "interpret/kernels")
"""Modules that import what is private to jax, for which there is no public name, and do without where it is gone."""

LOADING = "host/loading"
TABLE = "rooms"
LOADERS = (
    "programs/catalogue",
    "programs/implementations",
    "train/request",
    "audit/defaults",
    "audit/faults/fault",
)
"""The only users of `LOADING`, which imports files by path."""

FINDERS = ("host/file_reads",)
"""What finds the sources of modules without loading them."""

MODEL = "suites/model/"
MODEL_DATA = ("__init__.py", "settings.py", "data.py", "matrices.py", "documented.py")
"""A package whose files import each other relatively; those named are read where no jax may start, as for lists."""

PACKAGES = {
    "altair": ("report",),
    "jax": None,
    "jinja2": ("report/html/sections",),
    "markupsafe": ("report/html",),
    "ml_dtypes": None,
    "numpy": None,
    "click": ("cli",),
    "junitparser": ("audit/claims/jobs", "report/continuous_integration"),
    "hypothesis": ("testing/strategies",),
    "google": ("hlo",),
    "msgspec": (
        "kernel_gate",
        "audit/defaults",
        "audit/snapshots",
        "check/point_memory",
        "cluster",
        "engine",
        "host/fingerprint",
        "host/sealed_file",
        "report",
        "testing/page",
        "train",
    ),
    "platformdirs": ("host/cache_folder",),
    "psutil": ("host/memory",),
    "pytest": ("testing",),
    "ray": ("cluster",),
    "rich": ("cli", "report"),
    "threadpoolctl": ("host/numpy_threads",),
    "vl_convert": ("report/html/charts",),
    "yaml": ("audit/defaults",),
    "z3": ("sizes/places/linear_questions", "sizes/proofs/witnesses", "interpret/other_values"),
}
"""Packages that `samebits` imports, and the only rooms or modules that may; None is all of them."""


# --- the rules: each takes a tree and returns what is wrong with it -------------------------------------------------


def in_a_room(root: Path) -> list[str]:
    known = {name for floor in FLOORS for name in floor}
    there = {room(module(path, root)) for path in machinery(root)} - {""}
    return [f"{PACKAGE}/{name} is not a room: see FLOORS in {HERE}" for name in sorted(there - known)] + [
        f"{PACKAGE}/{name} does not exist: remove it from FLOORS in {HERE}" for name in sorted(known - there)
    ]


def downward(root: Path) -> list[str]:
    floor = {name: number for number, rooms in enumerate(FLOORS) for name in rooms}
    wrong = []
    for name, found, target in graph(root):
        here, there = room(name), room(target)
        if not there:
            wrong.append(f"{found}: inside the package, import the module that defines it")
        elif here != there and floor.get(there, 0) >= floor.get(here, len(FLOORS)) and (here, there) not in BESIDE:
            wrong.append(f"{found}: the room '{there}' is not below '{here}'")
    return wrong


def core_without_rooms(root: Path) -> list[str]:
    """Find imports of an optional room by the core, which asks `rooms.door` for it."""
    wrong = []
    for name, found, target in graph(root):
        optional = next(
            (r.name for r in ROOMS for f in r.folders if f"{target}/".startswith(f"{f.replace('.', '/')}/")), None
        )
        if room(name) in CORE and optional:
            wrong.append(f"{found}: {optional} may be absent; import it with `samebits.rooms.door`")
    return wrong


def acyclic(root: Path) -> list[str]:
    """No circle of modules; imports inside functions and for the type checker count too."""
    needs: dict[str, set[str]] = {}
    for name, _, target in graph(root):
        needs.setdefault(name, set()).update({target} - {name})
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        return [f"samebits imports itself in a circle: {' <- '.join(error.args[1])}"]
    return []


def jax_where_it_runs(root: Path) -> list[str]:
    wrong = []
    for path in machinery(root):
        name = module(path, root)
        for found in (found for found in imports(path, root) if found.package == "jax" and found.when != "typing"):
            if found.when == "import" and name not in JAX_AT_IMPORT:
                wrong.append(f"{found} when it is imported: do it in the function that needs it, or see JAX_AT_IMPORT")
            elif room(name) == DATA and name not in DATA_WITH_JAX:
                wrong.append(f"{found}: the data layer does without jax")
    return wrong


def packages_in_place(root: Path) -> list[str]:
    wrong = []
    for path in machinery(root):
        name = module(path, root)
        for found in imports(path, root):
            users = PACKAGES.get(found.package, ())
            if found.package in sys.stdlib_module_names or found.package == "samebits" or users is None:
                continue
            if found.target.startswith("."):
                wrong.append(f"{found}: write the full name")
            elif not any(name == user or name.startswith(f"{user}/") for user in users):
                wrong.append(
                    f"{found}: {' and '.join(users) or 'nothing'} of samebits may use {found.package} ({HERE})"
                )
    return wrong


def no_private_jax(root: Path) -> list[str]:
    paths = machinery(root) + python_files(root, "reference_impls", "optimized_impls", "suites")
    allowed = [root / PACKAGE / f"{name}.py" for name in PRIVATE_JAX]
    return [
        f"{found}: private to jax, gone with its next version"
        for path in paths
        for found in imports(path, root)
        if found.target.startswith("jax._src") and path not in allowed
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
            ours = found.package in ("samebits", "harness", "reference_impls", "optimized_impls", "suites", "")
            if ours and not sibling and found.target not in {f"samebits.{name}" for name in samebits.__all__}:
                wrong.append(f"{found}: a suite imports from the public list of `samebits`, and nothing else of ours")
            if found.package in ("jax", "flax", "optax") and found.when == "import" and not may_run_jax:
                wrong.append(f"{found} at collection: do it in the test that needs it")
    return wrong


def loaded_in_one_place(root: Path) -> list[str]:
    wrong = []
    loading = f"samebits.{LOADING.replace('/', '.')}"
    for path in machinery(root):
        name = module(path, root)
        for found in imports(path, root):
            if found.target.startswith(f"{loading}.") and name not in LOADERS:
                wrong.append(f"{found}: only {' and '.join(LOADERS)} load files")
            if found.package in ("suites", "reference_impls", "optimized_impls"):
                wrong.append(f"{found}: samebits knows no component by name")
            by_name = found.target.startswith(("importlib.util", "importlib.import_module"))
            if by_name and name not in (LOADING, TABLE, *FINDERS):
                wrong.append(f"{found}: only {LOADING} and {TABLE} load by name")
        text = path.read_text(encoding="utf-8")
        if name not in (LOADING, TABLE, "") and ("import_module(" in text or "__import__(" in text):
            wrong.append(f"{path.relative_to(root)} imports by a name made up: only {LOADING} and {TABLE} load by name")
    return wrong


def one_name(root: Path) -> list[str]:
    """The package needs neither its tests nor the folder that it lies in."""
    tests = python_files(root, "harness/tests")
    # Most tests do not have the word: what they import need not be known.
    paths = machinery(root) + [path for path in tests if "harness" in path.read_text(encoding="utf-8")]
    return [
        f"{found}: write samebits" for path in paths for found in imports(path, root) if found.package == "harness"
    ] + [
        f"{found}: the package does without its tests"
        for path in machinery(root)
        for found in imports(path, root)
        if found.package == "tests"
    ]


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
    in_a_room,
    downward,
    core_without_rooms,
    acyclic,
    jax_where_it_runs,
    packages_in_place,
    no_private_jax,
    implementations_alone,
    suites_use_the_public_list,
    loaded_in_one_place,
    one_name,
    short_files,
)
