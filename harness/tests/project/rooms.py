"""Which test file holds a module of `harness/samebits/`, for modules that no test of their room names.

A module has an obvious test file where one is called after it (`check/judge.py`: `check/test_judge.py`), or where a
test of its room imports it. All others are in `THROUGH`: they are parts of something that is tested as a whole.
"""

from pathlib import Path

from tests.project.import_graph import PACKAGE, graph, imports, machinery, module, module_of, python_files, room

HERE = "harness/tests/project/rooms.py"
TESTS = Path("harness") / "tests"
SHARED = ("project", "support")
"""Folders of `harness/tests/` that are not rooms: tests of the repository, and helpers of several rooms."""


THROUGH = {
    "kernel_gate/test_gate.py": (
        "cli/gate",
        "kernel_gate/elsewhere",
        "kernel_gate/judged",
        "schema/gate_row",
    ),
    "check/test_budget.py": ("host/time_limit",),
    "cluster/test_process_group.py": ("host/group",),
    "project/test_optional_rooms.py": ("rooms",),
    "properties/test_named.py": (
        "properties/call",
        "properties/index_text",
        "properties/relations",
    ),
    "cli/test_cli.py": (
        "__main__",
        "cli/common",
        "cli/faults_run",
        "cli/list",
        "cli/select_pairs",
    ),
    "cli/test_merge.py": ("report/shards",),
    "cli/test_compare.py": ("cli/compare_run",),
    "audit/snapshots/test_snapshots.py": ("cli/accept", "cli/snapshot_run"),
    "audit/claims/test_jobs.py": ("cli/audit", "cli/claims_run"),
    "bisect/test_layered_model.py": (
        "bisect/endpoints",
        "bisect/pairs",
        "bisect/steps",
        "bisect/trainings",
        "train/taps",
    ),
    "cli/test_compile.py": ("cli/compile_run", "compile/request"),
    "cli/test_golden.py": ("cli/golden_run",),
    "train/golden/test_files.py": ("host/sealed_file",),
    "train/golden/test_accept.py": ("host/permit",),
    "cli/test_prove.py": ("cli/prove_run",),
    "cli/test_prove_all_sizes.py": ("schema/all_sizes",),
    "sizes/proofs/test_family_proof.py": (
        "sizes/places/devices",
        "sizes/places/integers",
        "sizes/places/movement",
    ),
    "train/test_prove_step.py": ("cli/prove_model_run",),
    "train/test_trainer.py": ("cli/train", "cli/train_run"),
    "check/test_runner.py": ("prove/selftest",),
    "check/test_prove_points.py": ("prove/prover",),
    "sizes/proofs/test_same_program.py": ("prove/same_program",),
    "host/test_user_errors.py": ("user_errors",),
    "cli/test_advise.py": ("audit/guide/block", "cli/advise_run"),
    "cli/test_defaults.py": ("audit/defaults",),
    "cli/test_compile_options.py": ("cli/compile_model_run", "train/compile_step"),
    "programs/test_inputs.py": ("numerics/seeds",),
    "programs/test_program_cache.py": ("host/cache_keys",),
    "testing/test_plugin.py": ("testing/pair_tests", "testing/properties", "testing/session"),
    "properties/test_batch_invariance.py": ("properties/row_batch", "properties/row_movement"),
    "interpret/field_proof/test_proof.py": ("interpret/inner_equations",),
    "interpret/test_interpreter.py": ("interpret/domain", "interpret/dot_general"),
    "check/test_worst_element.py": ("schema/difference",),
}
"""Modules that a test file, from `harness/tests/`, runs without importing them; names as in `cli/check_run`."""


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
    listed = {name for names in THROUGH.values() for name in names}
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
    wrong += [f"THROUGH in {HERE} lists '{name}', which does not exist" for name in listed - files.keys()]
    wrong += [f"THROUGH in {HERE} lists '{name}', which has a test of its own: remove it" for name in listed & obvious]
    return wrong


def listed_tests_reach(root: Path) -> list[str]:
    """A test file of `THROUGH` exists, and its imports lead to the modules that it is listed for."""
    known = frozenset(module(path, root) for path in machinery(root))
    needs: dict[str, set[str]] = {}
    for name, _, target in graph(root):
        needs.setdefault(name, set()).add(target)
    wrong = []
    for file, names in THROUGH.items():
        path = root / TESTS / file
        if not path.is_file():
            wrong.append(f"THROUGH in {HERE} names {file}, which does not exist")
            continue
        there = _closure(_names_of_tests(path, root, known), needs)
        wrong += [f"{TESTS}/{file} does not lead to '{name}' ({HERE})" for name in names if name not in there]
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
