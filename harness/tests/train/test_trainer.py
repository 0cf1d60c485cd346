"""Training runs recorded and compared, on a model of two parameters: what counts as equal, and where runs diverge."""

import gc
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samebits.errors import CouldNotRun, DeclarationError, RequestError, SamebitsError
from samebits.host import environment
from samebits.programs import program_cache
from samebits.schema.model import Config, Matrix, Model
from samebits.train.compare import Uncompared, clusters, judge_runs
from samebits.train.distance import loss_ulps, relative, step_distances
from samebits.train.envelope import FORCED, distances, forced_steps
from samebits.train.matrix import MatrixResult, compared_runs, run_matrix, uncompared_runs
from samebits.train.record import leaf_record
from samebits.train.request import TrainRequest, load_model, select
from samebits.train.trainer import Trainer
from tests.report.html.run_samples import run, trained
from tests.support.child import ROOT
from tests.support.invoke import samebits
from tests.support.toy_model import MATRIX, toy, training, write_tree

environment.prepare()

HERE = Path(__file__).parent


def _run(model: Model, matrix: Matrix | None = None, steps: int = 20) -> MatrixResult:
    return run_matrix(model, matrix or model.matrices[0], HERE, steps)


@pytest.fixture(scope="module")
def healthy() -> MatrixResult:
    return _run(toy(HERE))


def test_healthy_runs_are_inside_the_envelope(healthy: MatrixResult) -> None:
    (one,) = healthy.comparisons
    assert (one.a, one.b) == ("one", "two")
    assert one.ok and one.verdict in ("bitwise", "rounding")
    assert sorted(name for names in healthy.clusters for name in names) == ["one", "two"]
    assert healthy.envelope is not None
    assert set(healthy.envelope.rewrites) == {"repeated", "rows permuted", "one ulp of dither"}
    assert healthy.envelope.rewrites["repeated"] == 0 < healthy.envelope.rewrites["one ulp of dither"]


def test_a_trace_records_every_gradient_and_parameter_exactly(healthy: MatrixResult) -> None:
    run = healthy.runs["one"].run
    assert [step.step for step in run.steps] == list(range(1, 21))
    for step in run.steps:
        assert set(step.digests) == {"gradient/w", "gradient/b", "parameter/w", "parameter/b"}
        assert float.fromhex(step.loss_hex) == step.loss
    for number, arrays in healthy.forced["one"].items():
        step = run.steps[number - 1]
        gradients = {name: array.astype(np.float64) for name, array in arrays.items() if name.startswith("gradient/")}
        squares = sum(np.square(array).sum() for array in gradients.values())
        assert step.grad_norm == pytest.approx(np.sqrt(squares), rel=1e-12)
        assert step.digests["gradient/w"].l2 == pytest.approx(np.linalg.norm(gradients["gradient/w"]))
        assert step.digests["gradient/w"].digest == leaf_record(arrays["gradient/w"]).digest


def _judged(found: MatrixResult, model: Model, change: dict[str, Any] | None = None) -> Any:
    """The second run of a model held against the healthy first."""
    from samebits.train.envelope import forced
    from samebits.train.trainer import pool

    threads = pool()
    trainer = Trainer(model, MATRIX.runs[0], HERE, threads)
    base = found.runs["one"]
    run = trainer.run(20)
    threads.shutdown()
    assert found.envelope is not None
    return judge_runs(
        base.run, run.run, distances(found.forced["one"], forced(trainer, base.states)), found.envelope, "rounding", ""
    )


def test_a_gradient_too_large_by_a_thousandth_is_found_at_once(healthy: MatrixResult) -> None:
    """The first loss is bit-equal, and a loss with three decimals never shows it."""
    wrong = _judged(healthy, toy(HERE, scale=1.001))
    assert (wrong.verdict, wrong.ok, wrong.first_step) == ("different", False, 1)
    assert wrong.first_leaf in ("gradient/w", "gradient/b")


def test_a_gradient_one_ulp_off_is_rounding(healthy: MatrixResult) -> None:
    near = _judged(healthy, toy(HERE, scale=1 + 2.0**-23))
    assert (near.verdict, near.ok) == ("rounding", True)
    assert (near.first_step, near.first_leaf and near.first_leaf.split("/")[0]) == (1, "gradient")
    assert near.headroom is not None and near.headroom > 1


def test_one_ulp_of_loss_is_rounding_and_a_hundred_are_different(healthy: MatrixResult) -> None:
    one = _judged(healthy, toy(HERE, nudge={20: 1}))
    assert (one.verdict, one.first_step, one.first_leaf, one.max_ulp) == ("rounding", 20, "loss", 1)
    many = _judged(healthy, toy(HERE, nudge={20: 100}))
    assert (many.verdict, many.first_step, many.first_leaf, many.max_ulp) == ("different", 20, "loss", 100)


def test_equal_losses_do_not_hide_an_unequal_parameter(healthy: MatrixResult) -> None:
    run = healthy.runs["one"].run
    leaf = replace(run.steps[-1].digests["parameter/b"], digest="0" * 16)
    last = replace(run.steps[-1], digests={**run.steps[-1].digests, "parameter/b": leaf})
    other = replace(run, config="other", steps=(*run.steps[:-1], last))
    assert loss_ulps(run, other) == [0] * 20
    assert clusters([run, other]) == [["one"], ["other"]]
    assert healthy.envelope is not None
    found = judge_runs(run, other, {}, healthy.envelope, "bitwise", "a test")
    assert (found.verdict, found.ok, found.first_step, found.first_leaf) == ("rounding", False, 20, "parameter/b")


def test_a_run_that_stops_early_is_different(healthy: MatrixResult) -> None:
    run = healthy.runs["one"].run
    short = replace(run, config="short", steps=run.steps[:-1])
    assert healthy.envelope is not None
    found = judge_runs(run, short, {}, healthy.envelope, "rounding", "a test")
    assert (found.verdict, found.ok, found.first_step) == ("different", False, 20)
    assert found.first_leaf == "number of steps: 20 and 19"


def test_a_model_without_finite_loss_has_no_envelope() -> None:
    with pytest.raises(CouldNotRun, match="config 'one': the loss is not finite at step 2"):
        _run(toy(HERE, scale=float("nan")))


def test_a_model_that_does_not_repeat_itself_has_no_envelope(monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest twin of it is `healthy`."""
    model = toy(HERE)
    seeds = iter(range(1000))

    def build(config: Config, parts: Any) -> Any:
        made = training(config, {}, 1.0)

        def batch(number: int) -> Any:
            rng = np.random.default_rng(next(seeds))
            return {
                name: array + rng.normal(size=array.shape).astype("f4") for name, array in made.batch(number).items()
            }

        return replace(made, batch=batch)

    with pytest.raises(CouldNotRun, match="config 'one' does not repeat its own bits: loss differs at step 1"):
        _run(replace(model, build=build))


def test_only_runs_on_one_mesh_are_compared_in_bfloat16() -> None:
    runs = tuple(run.having(dtype="bfloat16") for run in MATRIX.runs)
    matrix = replace(MATRIX, runs=(*runs, runs[0].having(name="again")))
    assert [(a.name, b.name) for a, b in compared_runs(matrix)] == [("one", "again")]
    wide = replace(matrix, runs=tuple(run.having(dtype="float32") for run in matrix.runs))
    assert [(a.name, b.name) for a, b in compared_runs(wide)] == [("one", "two"), ("one", "again")]


def test_relative_distances_of_zeros_and_infinities() -> None:
    one, zero = np.ones(3), np.zeros(3)
    assert (relative(one, one), relative(zero, zero), relative(zero, one)) == (0, 0, np.inf)
    assert relative(one, np.array([1, 1, np.nan])) == np.inf
    assert relative(np.array([np.inf, 1]), np.array([np.inf, 1])) == 0
    assert step_distances({"a": one, "b": one}, {"a": one, "c": one}) == {
        "a": 0, "b (only in the first run)": np.inf, "c (only in the second run)": np.inf,
    }  # fmt: skip
    with pytest.raises(DeclarationError, match="the two runs have different parameters: a has 3 elements on one side"):
        step_distances({"a": one}, {"a": one[:2]})


def test_single_steps_are_judged_at_the_first_tenth_and_last() -> None:
    assert forced_steps(20) == FORCED == forced_steps(30)
    assert forced_steps(12) == (1, 10, 12)
    assert forced_steps(1) == (1,)


def test_steps_are_freed_once_their_runs_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    def count_live(progress: str) -> None:
        gc.collect()
        live[progress] = len(jax.devices()[0].client.live_executables())

    live: dict[str, int] = {}
    runs = tuple(Config(name=mesh, mesh=mesh) for mesh in ("data1", "data2", "data4", "data8"))
    options = environment.compile_options()
    monkeypatch.setattr(Trainer, "_compile", lambda trainer, lowered: lowered.compile(options))  # else tests keep some
    program_cache.release()
    count_live("before")
    run_matrix(toy(HERE), Matrix(name="toy", about="four meshes", runs=runs), HERE, 3, count_live)
    assert live["data8 on data8"] <= live["before"] + 1, "at most the step that is about to run"


def test_the_command_prints_writes_and_ends_with_zero(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "tree")
    document, tables = tmp_path / "train.json", tmp_path / "train.md"
    files = ("--json", document, "--markdown", tables)
    done = samebits("train", "--matrix", "toy", "--root", root, "--no-cache", *files)
    assert done.code == 0, done.out + done.err
    read = json.loads(document.read_text())
    assert set(read) == {
        "schema", "command", "environment", "matrix", "about", "columns", "against", "results", "comparisons",
        "clusters", "envelope", "problems", "notes", "summary", "detection", "twins", "written",
        "uncompared",
    }  # fmt: skip
    assert (read["schema"], read["command"]) == ("samebits/2", "train")
    run, pairing = read["results"][0], read["comparisons"][0]
    assert {
        "config", "mesh", "shard_mode", "choice", "dtype", "steps", "tokens_per_second_per_device", "step_seconds",
        "temp_bytes",
    } <= set(run)  # fmt: skip
    assert {
        "step", "loss", "loss_hex", "perplexity", "grad_norm", "param_norm", "digests",
    } <= set(run["steps"][0])  # fmt: skip
    assert {
        "a", "b", "expected", "verdict", "first_step", "first_leaf", "max_ulp", "envelope", "ok",
    } <= set(pairing)  # fmt: skip
    assert len(run["steps"]) == 20 and all(isinstance(names, list) for names in read["clusters"])
    assert "| one " in tables.read_text() and "all as expected" in tables.read_text()
    assert "#1" in done.out and "envelope: one against itself" in done.out


WRONG = (
    (("--matrix", "toys"), "matrix 'toys' is unknown; did you mean toy?"),
    (("--config", "twos"), "config 'twos' is unknown"),
    ((), "give --matrix NAME or --config NAME, one of them; matrices are toy"),
    (("--matrix", "toy", "--config", "alone"), "give --matrix NAME or --config NAME, one of them"),
    (("--matrix", "toy", "--mesh", "data4"), "--mesh changes one configuration; give it with --config"),
    (("--config", "alone", "--choice", "moe"), "--choice moe: expected PAIR=SIDE, as in moe=sparse"),
    (("--config", "alone", "--choice", "moe=sparse"), "choice 'moe' is not a pair of the model; it has none"),
    (("--config", "alone", "--mesh", "rows2"), "mesh axis 'rows' is in no configuration of the model; expected some"),
    (("--matrix", "toy", "--against", "nothing"), "'nothing' is not a revision of"),
)


@pytest.mark.parametrize(("words", "message"), WRONG)
def test_wrong_requests_get_one_line_and_exit_2(
    tmp_path_factory: pytest.TempPathFactory, words: tuple[str, ...], message: str
) -> None:
    root = write_tree(tmp_path_factory.mktemp("tree"))
    done = samebits("train", "--root", root, "--no-cache", *words)
    assert done.code == 2, done.out + done.err
    assert message in done.err
    assert len(done.lines) == 1


def test_on_the_cpu_compiled_steps_are_not_kept() -> None:
    """A step read back from disk deadlocks in its collectives, jaxlib 0.10.2: see `kept`."""
    import jax

    from samebits.train.cache import persistent_compile_cache

    assert jax.default_backend() == "cpu"
    with persistent_compile_cache():
        assert jax.config.values["jax_compilation_cache_dir"] is None


# --- the runs that the options of `samebits train` select ------------------------------------------------------------

CALLED_REFERENCE = """
from dataclasses import replace

from samebits import Config

MODEL = replace(MODEL, configs=(Config(name="reference", mesh="data2"), Config(name="other", mesh="data2")))
"""


def test_a_configuration_may_be_called_reference(tmp_path: Path) -> None:
    """It is held against all references on one device, as any other, whose run then has another name."""
    root = write_tree(tmp_path)
    file = root / "suites" / "model" / "__init__.py"
    file.write_text(file.read_text() + CALLED_REFERENCE)
    for name, first in (("reference", "reference_on_one_device"), ("other", "reference")):
        _, matrix = select(TrainRequest(config=name, root=root))
        assert [(run.name, run.mesh) for run in matrix.runs] == [(first, "data1"), (name, "data2")]


# --- the full model of a tree is found, and every reason why there is none is one clear line -------------------------

HEAD = "from __future__ import annotations\nfrom pathlib import Path\nfrom samebits import Model\n"
BODY = (
    "from .parts import CONFIGS\n"
    "def _build(config, parts):\n    from .late import THERE\n    return THERE\n"
    "MODEL = Model(name='other', configs=CONFIGS, matrices=(), build=_build, check=print, pairs=(), "
    "origin=Path(__file__).parent)\n"
)


def tree(root: Path, text: str) -> Path:
    folder = root / "suites" / "model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(text)
    (folder / "parts.py").write_text("from samebits import Config\nCONFIGS = (Config(name='only'),)\n")
    (folder / "late.py").write_text("from .parts import CONFIGS\nTHERE = CONFIGS\n")
    return root


def test_our_own_model_has_its_own_name() -> None:
    model = load_model(ROOT)
    assert isinstance(model, Model)
    assert sys.modules["suites.model"].MODEL is model


def test_a_model_of_another_tree_imports_relatively(tmp_path: Path) -> None:
    model: Any = load_model(tree(tmp_path, HEAD + BODY))
    assert model.origin == tmp_path / "suites" / "model"
    assert model.build(model.configs[0], {}) is model.configs
    assert load_model(tmp_path) is model


def test_two_trees_do_not_mix(tmp_path: Path) -> None:
    one, two = (load_model(tree(tmp_path / name, HEAD + BODY)) for name in ("a", "b"))
    assert one is not two
    assert one.configs is not two.configs


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (None, RequestError, "has no full model: write suites/model/__init__.py with MODEL = Model(...)"),
        ("", DeclarationError, "has nothing under the name 'MODEL'; expected MODEL = Model(...)"),
        ("MODEL = 3", DeclarationError, "has a int under the name 'MODEL'; expected MODEL = Model(...)"),
        ("from .missing import x", DeclarationError, "does not import: ModuleNotFoundError: No module named"),
        ("1 +", DeclarationError, "does not import: SyntaxError: invalid syntax ("),
        ("from .parts import nothing", DeclarationError, "does not import: ImportError: cannot import name 'nothing'"),
    ],
)
def test_each_mistake_is_one_line(text: str | None, error: type[SamebitsError], message: str, tmp_path: Path) -> None:
    if text is not None:
        tree(tmp_path, text)
    before = set(sys.modules)
    with pytest.raises(error) as said:
        load_model(tmp_path)
    assert message in str(said.value)
    assert "\n" not in str(said.value)
    assert said.value.exit_code == 2
    if "does not import" in message:  # half a package must not be found by the next look
        assert not [name for name in set(sys.modules) - before if name.startswith("samebits_")]


# --- which runs of a matrix are compared with which, and what is said of those that say nothing ----------------------


def test_a_run_without_a_twin_is_compared_with_the_first() -> None:
    assert [(a.name, b.name) for a, b in compared_runs(MATRIX)] == [("one", "two")]


def test_runs_in_no_comparison_are_named_with_the_reason() -> None:
    """But the first one, which the others are held against."""
    runs = tuple(run.having(dtype="bfloat16") for run in MATRIX.runs)
    matrix = replace(
        MATRIX, runs=(*runs, runs[0].having(name="again"), runs[0].having(name="x", shard_mode="explicit"))
    )
    (pairing,) = trained(run("one"), run("two")).comparisons
    names = [run.name for run in matrix.runs]
    assert uncompared_runs(matrix, names, [replace(pairing, b="again")]) == [
        Uncompared(run="two", reason="bfloat16 on another mesh"),
        Uncompared(run="x", reason="bfloat16 in another shard mode"),
    ]
    assert uncompared_runs(matrix, ["one", "x"], [replace(pairing, a="x of earlier", b="x")]) == []
    assert uncompared_runs(MATRIX, ["one", "two"], []) == [
        Uncompared(run="two", reason="the comparison with one could not be made")
    ]
    assert uncompared_runs(MATRIX, ["one"], []) == []


@pytest.mark.slow
def test_a_configuration_that_is_its_reference_says_so(tmp_path: Path) -> None:
    """Its comparison is one of the bits of a run with those of the same run."""
    done = samebits("train", "--config", "toy/one", "--steps", "2", "--no-cache", "--root", write_tree(tmp_path))
    assert done.code == 0, done.out + done.err
    assert "bitwise 1 (1 of the same configuration, run twice); " in done.out
    assert "one is reference once more: that shows that its bits repeat, and nothing else" in done.out
    wide = samebits("train", "--config", "toy/two", "--steps", "2", "--no-cache", "--root", tmp_path)
    assert wide.code == 0 and "run twice" not in wide.out and "once more" not in wide.out
