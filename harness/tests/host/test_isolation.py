"""Side effects of user code (settings, variables, patched modules) are undone and reported."""

import contextlib
import importlib
import io
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np
import pytest

from samebits.host import isolation
from samebits.host.environment import configuration
from samebits.host.isolation import take_notes, undone
from samebits.host.loading import load_file
from samebits.report.check import read_document
from samebits.schema.case import Case
from tests.support.adversarial import SIZES, pair_of, points_of, results_of
from tests.support.foreign import write_pair
from tests.support.invoke import samebits

CHANGES: dict[str, tuple[Callable[[], Any], str]] = {
    "setting": (
        lambda: jax.config.update("jax_numpy_dtype_promotion", "strict"),
        "the setting jax_numpy_dtype_promotion from standard to strict",
    ),
    "mesh": (lambda: jax.set_mesh(jax.make_mesh((2,), ("data",))), "the mesh in context to {'data': 2}"),
    "variable": (
        lambda: os.environ.__setitem__("XLA_FLAGS", "--xla_some=1"),
        "the environment variable XLA_FLAGS from",
    ),
    "patch": (lambda: setattr(jnp, "tanh", jnp.sin), "what jax.numpy.tanh stands for"),
    "removal": (lambda: delattr(jax.nn, "gelu"), "what jax.nn.gelu stands for"),
    "addition": (lambda: setattr(jax.lax, "my_op", len), "jax.lax, by adding my_op"),
    "numpy": (lambda: setattr(np, "einsum", None), "what numpy.einsum stands for"),
    "errors": (lambda: np.seterr(all="raise"), "NumPy's error handling to"),
    "folder": (lambda: os.chdir("/"), "the working directory to /"),
    "stdout": (lambda: setattr(sys, "stdout", io.StringIO()), "sys.stdin, sys.stdout or sys.stderr"),
    "stderr": (lambda: setattr(sys, "stderr", io.StringIO()), "sys.stdin, sys.stdout or sys.stderr"),
    "signal": (lambda: signal.signal(signal.SIGINT, lambda *_: None), "how the process handles signals"),
    "warnings": (lambda: warnings.simplefilter("error", category=BytesWarning), "which warnings are exceptions"),
    "seed": (lambda: random.seed(0), "the state of Python's random numbers"),
    "NumPy's seed": (lambda: np.random.seed(0), "the state of NumPy's global random numbers"),
}


def _everything() -> Any:
    names = {name: dict(vars(sys.modules[name])) for name in isolation.WATCHED if name in sys.modules}
    streams = sys.stdin, sys.stdout, sys.stderr
    return (
        configuration(),
        jax.sharding.get_abstract_mesh(),
        dict(os.environ),
        np.geterr(),
        os.getcwd(),
        streams,
        {number: signal.getsignal(number) for number in signal.valid_signals()},
        list(warnings.filters),
        (random.getstate(), str(np.random.get_state())),
        list(sys.argv),
        names,
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_undone_and_told(name: str) -> None:
    change, words = CHANGES[name]
    before = _everything()
    with undone("importing somebody's file"):
        change()
    after = _everything()
    assert all(one == other for one, other in zip(before[:-1], after[:-1], strict=True))
    assert all(
        after[-1][module][name] is value for module, names in before[-1].items() for name, value in names.items()
    )
    assert all(len(after[-1][module]) == len(names) for module, names in before[-1].items())
    (told,) = take_notes()
    assert told.startswith("importing somebody's file changed ") and words in told
    assert told.endswith("It was undone: no other code ran with it")
    assert take_notes() == []


@pytest.mark.filterwarnings("ignore:os.fork\\(\\) was called:RuntimeWarning")
@pytest.mark.parametrize(
    ("ends", "code"), [(None, 0), (SystemExit(), 0), (SystemExit(5), 5), (SystemExit("no"), 1), (ValueError(), 1)]
)
def test_a_forked_child_ends_where_their_code_ends(ends: BaseException | None, code: int) -> None:
    """It would go on as a second samebits, whose results its parent takes for those of the first."""
    child = -1
    with contextlib.suppress(BaseException), undone("somebody's function"):
        child = os.fork()
        if child == 0 and ends is not None:
            raise ends
    if child == 0:
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code


def test_a_closed_stream_is_opened_again(capfd: pytest.CaptureFixture[str]) -> None:
    with (
        contextlib.redirect_stdout(open(1, "w", closefd=False)),
        contextlib.redirect_stderr(open(2, "w", closefd=False)),
    ):
        with undone("somebody's function"):
            sys.stdout.close()
            sys.stderr.close()
        print("still there")
        print("and here", file=sys.stderr)
    assert capfd.readouterr() == ("still there\n", "and here\n")
    (told,) = take_notes()
    assert told == (
        "somebody's function changed sys.stdin, sys.stdout or sys.stderr. It was undone: no other code ran with it"
    )


@pytest.mark.parametrize("count", [1, 3, 300])
def test_numbers_drawn_while_importing_are_no_news(count: int) -> None:
    before = random.getstate()
    with undone("importing somebody's file", importing=True):
        for _ in range(count):
            random.random()
            random.getrandbits(24)
    assert random.getstate() == before
    assert take_notes() == []


@pytest.mark.parametrize("change", [lambda: random.seed(7), lambda: random.gauss(0, 1), lambda: np.random.seed(7)])
def test_a_seed_while_importing_is(change: Callable[[], Any]) -> None:
    with undone("importing somebody's file", importing=True):
        change()
    (told,) = take_notes()
    assert "random numbers" in told


def test_numbers_drawn_in_a_call_are() -> None:
    with undone("pair, while it was traced,"):
        random.random()
    (told,) = take_notes()
    assert "the state of Python's random numbers" in told


def test_two_calls_draw_numbers_of_their_own() -> None:
    """From one state both sides of a pair would draw equal numbers, and be equal by chance alone."""
    before = random.getstate(), str(np.random.get_state())
    draws = []
    for _ in range(2):
        with undone("pair, while it was traced,"):
            draws.append((random.random(), np.random.rand()))
    assert draws[0][0] != draws[1][0]
    assert draws[0][1] != draws[1][1]
    assert (random.getstate(), str(np.random.get_state())) == before


def test_their_code_sees_the_name_of_the_program_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that parses `sys.argv`, as absl's flags do on their first use, must not meet the options of others."""
    ours = ["samebits", "check", "--full"]
    monkeypatch.setattr(sys, "argv", ours)
    with undone("importing somebody's file"):
        assert sys.argv == ["samebits"]
        sys.argv += ["--theirs"]
    assert sys.argv is ours == ["samebits", "check", "--full"]
    assert take_notes() == []


def test_an_exception_leaves_nothing_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _everything()

    def raising() -> None:
        with undone("importing somebody's file"):
            sys.argv.clear()
            os.chdir("/")
            raise SystemExit(0)

    with pytest.raises(SystemExit):
        raising()
    assert _everything() == before
    assert "the working directory to /" in take_notes()[0]


def test_filters_that_silence_a_warning_stay() -> None:
    """They change what is printed, and modules that set them when they are imported rely on them later."""
    with warnings.catch_warnings():
        with undone("importing somebody's file"):
            warnings.filterwarnings("ignore", message="theirs")
            warnings.filterwarnings("error", message="ours")
        kept = [(action, str(message)) for action, message, *_ in warnings.filters]
        assert [one for one in kept if "theirs" in one[1]] and not [one for one in kept if "ours" in one[1]]
        take_notes()


def test_another_thread_leaves_signals_alone() -> None:
    """Only the main thread may set them."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_undone_nothing).result()
    assert take_notes() == []


def _undone_nothing() -> None:
    with undone("a thread"):
        pass


def test_what_changes_nothing_is_not_told() -> None:
    with undone("importing somebody's file"), jax.enable_x64(True):
        jax.jit(jnp.tanh)(1.0)
    assert take_notes() == []


def test_a_patch_does_not_stay_in_what_jax_has_traced() -> None:
    """`jnp.var` is jitted: traced while its mean was patched, it would keep the patch."""
    honest = jnp.var(jnp.arange(4.0))
    with undone("a side"):
        jnp.mean = lambda x, *args, **kwargs: jnp.zeros((1,))
        jnp.var(jnp.arange(4.0))
    take_notes()
    assert jnp.var(jnp.arange(4.0)) == honest


def test_a_side_that_patches_while_it_is_traced_changes_no_other() -> None:
    """The variant replaces the function that the reference calls: the second case must be as wrong as the first."""

    def reference(x: Any) -> Any:
        return jnp.tanh(x)

    def patching(x: Any) -> Any:
        jnp.tanh = jnp.sin
        return jnp.sin(x)

    pair = pair_of(
        "patching",
        reference,
        {"patching": patching},
        cases=(Case(id="first", sizes=SIZES), Case(id="second", sizes={"rows": 4, "columns": 8})),
        gradients=False,
    )
    results = [one for one in results_of(pair, points_of(pair)) if one.place.variant == "patching"]
    assert [one.ruling.verdict for one in results] == ["different", "different"]
    assert take_notes() == [
        "patching: 'patching', while it was traced, changed what jax.numpy.tanh stands for. "
        "It was undone: no other code ran with it"
    ]


WIDE = """
    import jax
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")

    def fast(x):
        return 2 * x
    """
PATCHING = """
    import jax.numpy as jnp
    jnp.sum = lambda x, **named: jnp.zeros(())

    def fast(x):
        return 2 * x
    """
USING = """
    import jax.numpy as jnp

    def plain(x):
        return x + jnp.sum(x * x, axis=1, keepdims=True)
    """
USED = """
    import jax.numpy as jnp

    def fast(x):
        return jnp.sum(x * x, axis=1, keepdims=True) + x
    """


def test_a_module_that_changes_jax_reaches_no_other_pair(tmp_path: Path) -> None:
    write_pair(tmp_path, "a_wide", optimized=WIDE)
    write_pair(tmp_path, "b_patching", optimized=PATCHING)
    write_pair(tmp_path, "using", reference=USING, optimized=USED)
    alone, together = tmp_path / "alone.json", tmp_path / "together.json"
    samebits("check", "using", "--root", tmp_path, "--json", alone)
    ended = samebits("check", "--root", tmp_path, "--json", together, "--verbose")
    documents = [read_document(file) for file in (alone, together)]
    found = [
        {one.place.leaf + one.place.direction: one.ruling.verdict for one in d.results if one.place.pair == "using"}
        for d in documents
    ]
    assert found[0] == found[1] and "error" not in found[0].values()
    assert documents[1].environment == documents[0].environment
    assert (
        documents[1].environment.settings["jax_enable_x64"] == "False" == str(dict(configuration())["jax_enable_x64"])
    )
    notes = [one for one in documents[1].summary.notes if "importing" in one]
    assert [one.split(" changed ")[0] for one in notes] == [
        f"importing {tmp_path / 'optimized_impls' / name}.py" for name in ("a_wide", "b_patching")
    ]
    assert "jax_enable_x64 from False to True (to run with it, set JAX_ENABLE_X64)" in notes[0]
    assert "jax_default_matmul_precision from None to highest" in notes[0]
    assert "what jax.numpy.sum stands for" in notes[1]
    assert "jax_enable_x64 from False to True" in ended.out


HELPERS = """
class Norm:
    def __call__(self, x):
        return x

def scale(x):
    return x * 2
"""
REPLACING = """
import jax.scipy.stats
import shared_helpers

def fast(x, *_):
    return x * 3

jax.scipy.stats.norm.logpdf = fast
shared_helpers.scale = fast
shared_helpers.Norm.__call__ = fast
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "shared_helpers.py").write_text(HELPERS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("shared_helpers", None)


def test_an_import_that_replaces_functions_is_undone_and_noted(folder: Path) -> None:
    helpers = importlib.import_module("shared_helpers")
    before = helpers.scale, helpers.Norm.__call__, jax.scipy.stats.norm.logpdf
    (folder / "patching.py").write_text(REPLACING, encoding="utf-8")
    take_notes()
    load_file(folder / "patching.py")
    assert (helpers.scale, helpers.Norm.__call__, jax.scipy.stats.norm.logpdf) == before
    (text,) = take_notes()
    assert "what shared_helpers.scale stands for" in text
    assert "what shared_helpers.Norm.__call__ stands for" in text
    assert "what jax.scipy.stats.norm.logpdf stands for" in text
    assert text.endswith("It was undone: no other code ran with it")


def test_a_submodule_may_take_the_name_of_a_function(folder: Path) -> None:
    package = folder / "shared_package"
    package.mkdir()
    (package / "__init__.py").write_text("def train():\n    pass\n", encoding="utf-8")
    (package / "train.py").write_text("", encoding="utf-8")
    parent = importlib.import_module("shared_package")
    with undone("importing it", importing=True) as changed:
        module = importlib.import_module("shared_package.train")
    assert changed == []
    assert parent.train is module
