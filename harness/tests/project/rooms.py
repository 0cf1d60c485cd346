"""Which test file holds a module of `harness/samebits/`, for modules that no test of their room names.

A module has an obvious test file where one is called after it (`check/judge.py`: `check/test_judge.py`), or where a
test of its room imports it. All others are in `THROUGH`: they are parts of something that is tested as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.project.import_graph import PACKAGE, graph, imports, machinery, module, module_of, python_files, room

HERE = "harness/tests/project/rooms.py"
TESTS = Path("harness") / "tests"
SHARED = ("project", "support")
"""Folders of `harness/tests/` that are not rooms: tests of the repository, and helpers of several rooms."""


@dataclass(frozen=True, slots=True)
class Through:
    """Modules that one test file runs without importing them.

    Args:
        file: the test file, from `harness/tests/`.
        reason: how it runs them.
        modules: their names, as in `cli/check_run`.
    """

    file: str
    reason: str
    modules: tuple[str, ...]


THROUGH = (
    Through("check/test_same_program.py", "programs of toys that are equal", ("check/point_proofs",)),
    Through("cluster/test_process_group.py", "processes that fail and end", ("host/group",)),
    Through("project/test_optional_rooms.py", "hides each room from a process", ("rooms",)),
    Through(
        "cli/test_cli.py",
        "`samebits check`, `list` and `faults`, in this process and in one of its own",
        (
            "__main__",
            "cli/check_run",
            "cli/common",
            "cli/faults_run",
            "cli/list",
            "cli/list_run",
            "cli/select_pairs",
            "report/live",
        ),
    ),
    Through("cli/test_merge.py", "shards as documents and as journals", ("report/shards",)),
    Through("cli/test_compare.py", "`samebits compare` in a folder", ("cli/compare_run",)),
    Through(
        "audit/snapshots/test_snapshots.py",
        "`samebits accept --verdicts`, and a check against what it wrote",
        ("cli/accept", "cli/snapshot_run"),
    ),
    Through(
        "audit/claims/test_jobs.py",
        "`samebits audit claims` on a tree, its jobs in a worker process",
        ("cli/audit", "cli/claims_run"),
    ),
    Through(
        "bisect/test_layered_model.py",
        "`samebits bisect pairs`, `steps` and `tensors` on a model with known culprits",
        (
            "bisect/endpoints",
            "bisect/pairs",
            "bisect/steps",
            "bisect/trainings",
            "train/taps",
        ),
    ),
    Through(
        "interpret/alignment/test_naming.py",
        "the lines of planted slips",
        (),
    ),
    Through("bisect/test_pair_tensors.py", "`samebits bisect tensors` of pairs", ("cli/bisect_tensors",)),
    Through("bisect/test_flags.py", "`samebits bisect flags`", ("cli/bisect_flags",)),
    Through("bisect/test_mesh.py", "`samebits bisect mesh` on a pair", ("cli/bisect_mesh",)),
    Through("cli/test_cache.py", "`samebits cache`", ("cli/cache_run", "host/caches")),
    Through("cli/test_diff.py", "`samebits diff`", ("cli/diff_run",)),
    Through("cli/test_bisect_commits.py", "`samebits bisect commits`", ("cli/bisect",)),
    Through(
        "cli/test_compile.py",
        "`samebits compile`: tables, JSON and Markdown",
        ("cli/compile_run", "compile/request"),
    ),
    Through(
        "cli/test_golden.py",
        "`samebits golden` on a model that is trained",
        ("cli/golden_run", "cli/golden_files_run"),
    ),
    Through(
        "train/golden/test_files.py",
        "damages each field of a file",
        ("host/sealed_file",),
    ),
    Through("train/golden/test_accept.py", "accepts from clean and dirty trees", ("host/permit",)),
    Through("cli/test_prove.py", "`samebits prove`", ("cli/prove_run",)),
    Through("cli/test_prove_all_sizes.py", "`samebits prove --all-sizes`", ("schema/all_sizes",)),
    Through(
        "sizes/proofs/test_family_proof.py",
        "functions with symbols for sizes, and planted faults of them",
        tuple(f"sizes/places/{name}" for name in ("devices", "integers", "lookups", "models", "movement")),
    ),
    Through("train/test_prove_step.py", "`samebits prove model`", ("cli/prove_model_run", "train/trace_step")),
    Through(
        "train/test_trainer.py",
        "`samebits train`",
        ("cli/train", "cli/train_run"),
    ),
    Through(
        "check/test_runner.py",
        "the runner executes with them",
        ("prove/selftest",),
    ),
    Through("check/test_index_values.py", "what is executed at other inputs", ("check/other_inputs",)),
    Through("check/test_prove_points.py", "the proofs of whole points", ("prove/prover",)),
    Through(
        "sizes/proofs/test_same_program.py",
        "two forms, traced with symbols and with numbers",
        ("prove/same_program",),
    ),
    Through("host/test_user_errors.py", "what their code raises, through jax and callbacks", ("user_errors",)),
    Through(
        "cli/test_advise.py",
        "`samebits audit advise`",
        ("audit/guide/block", "cli/advise_run"),
    ),
    Through(
        "cli/test_defaults.py",
        "`samebits audit defaults`",
        ("audit/defaults/compare", "audit/defaults/sources", "cli/defaults_run"),
    ),
    Through(
        "cli/test_compile_model.py",
        "`samebits compile model`",
        ("cli/compile_model_run", "train/compile_step"),
    ),
    Through(
        "interpret/test_labels.py", "labels through one-hot products", ("interpret/jax_evaluation", "interpret/onehot")
    ),
    Through("programs/test_inputs.py", "draws inputs from names", ("numerics/seeds",)),
    Through(
        "programs/test_program_cache.py",
        "programs that are shared, and those that may not be",
        ("host/cache_keys",),
    ),
    Through("testing/test_page.py", "`pytest --report-html` in a tree", ()),
    Through(
        "testing/test_plugin.py",
        "pytest with the plugin, in a process",
        ("testing/pair_tests", "testing/properties", "testing/session"),
    ),
    Through(
        "interpret/field/test_arithmetic.py",
        "random formulas in the fields",
        (
            "interpret/field/folded_constants",
            "interpret/field/infinities",
            "interpret/field/integer_rounding",
        ),
    ),
    Through(
        "interpret/field_proof/test_proof.py",
        "equal and unequal formulas, by the proof as a whole",
        (
            "interpret/inner_equations",
            "interpret/overflow",
        ),
    ),
    Through(
        "interpret/test_interpreter.py",
        "random programs of every primitive",
        (
            "interpret/domain",
            "interpret/dot_general",
        ),
    ),
    Through("check/test_worst_element.py", "differences of every class", ("schema/difference",)),
)


# --- the rules: each takes a tree and returns what is wrong with it -------------------------------------------------


def rooms_with_tests(root: Path) -> list[str]:
    """Every room has a folder of tests, and every folder of tests is a room."""
    rooms = {path.parent.name for path in (root / PACKAGE).glob("*/__init__.py")}
    folders = {path.relative_to(root / TESTS).parts[0] for path in (root / TESTS).rglob("test_*.py")}
    return [f"{PACKAGE}/{name} has no tests in {TESTS}/{name}" for name in sorted(rooms - folders)] + [
        f"{TESTS}/{name} is neither a room of {PACKAGE} nor one of {', '.join(SHARED)}"
        for name in sorted(folders - rooms - {*SHARED})
    ]


def modules_with_tests(root: Path) -> list[str]:
    """Every module has its test file: named after it, importing it from the same room, or listed in `THROUGH`."""
    files = {module(path, root): path for path in machinery(root)}
    known = frozenset(files)
    listed = {name: row for row in THROUGH for name in row.modules}
    obvious = {name for name in files if (root / TESTS / _test_of(name)).is_file()}
    for path in python_files(root, TESTS.as_posix()):
        if path.name.startswith("test_"):
            here = path.relative_to(root / TESTS).parts[0]
            targets = {module_of(found, known) for found in imports(path, root)}
            # `errors` belongs to no room: each error is tested where it is raised.
            obvious |= {target for target in targets if target and room(target) in (here, "errors")}
    wrong = [
        f"{PACKAGE}/{name}.py: no test of its room imports it; write {TESTS}/{_test_of(name)} "
        f"or add it to THROUGH in {HERE}"
        for name, path in files.items()
        if path.name != "__init__.py" and name not in obvious and name not in listed
    ]
    wrong += [f"THROUGH in {HERE} lists '{name}', which does not exist" for name in listed if name not in files]
    wrong += [
        f"THROUGH in {HERE} lists '{name}', which has a test of its own: remove it"
        for name in listed
        if name in obvious
    ]
    return wrong


def listed_tests_reach(root: Path) -> list[str]:
    """A test file of `THROUGH` exists, and its imports lead to the modules that it is listed for."""
    known = frozenset(module(path, root) for path in machinery(root))
    needs: dict[str, set[str]] = {}
    for name, _, target in graph(root):
        needs.setdefault(name, set()).add(target)
    wrong = []
    for row in THROUGH:
        path = root / TESTS / row.file
        if not path.is_file():
            wrong.append(f"THROUGH in {HERE} names {row.file}, which does not exist")
            continue
        there = _closure(_names_of_tests(path, root, known), needs)
        wrong += [f"{TESTS}/{row.file} does not lead to '{name}' ({HERE})" for name in row.modules if name not in there]
    return wrong


def _test_of(name: str) -> str:
    folder, _, last = name.rpartition("/")
    return f"{folder}/test_{last}.py"


def _names_of_tests(path: Path, root: Path, known: frozenset[str]) -> set[str]:
    """The modules that a test file imports, itself or through helpers; helpers that start commands run all of them."""
    todo, seen, names = [path], {path}, set()
    while todo:
        for found in imports(todo.pop(), root):
            if (target := module_of(found, known)) is not None:
                names.add(target or "cli")
            parts = found.target.split(".")
            if parts[0] == "tests":
                files = (root / TESTS / Path(*parts[1:end]).with_suffix(".py") for end in (len(parts), len(parts) - 1))
                fresh = [file for file in files if file.is_file() and file not in seen]
                seen.update(fresh)
                todo += fresh
    if any(file.stem in ("child", "invoke") for file in seen):
        names |= {"__main__", "testing/plugin", "cli"}
    if "cli" in names:  # which imports a command when it is called
        names |= {name for name in known if name.startswith("cli/")}
    return names


def _closure(start: set[str], needs: dict[str, set[str]]) -> set[str]:
    todo, seen = list(start), set(start)
    while todo:
        fresh = needs.get(todo.pop(), set()) - seen
        seen |= fresh
        todo += fresh
    return seen
