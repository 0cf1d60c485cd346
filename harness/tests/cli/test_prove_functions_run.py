"""`samebits prove MODULE:FUNCTION MODULE:FUNCTION --arg ...`: with the options of `samebits compare`."""

from pathlib import Path

import pytest

from tests.support.invoke import samebits

FUNCTIONS = """\
import jax.numpy as jnp


def clipped(x, *, low=0.0):
    return 2 * jnp.maximum(x, low)


def selected(x, *, low=0.0):
    return jnp.where(x > low, x, low) * 2


def thrice(x, *, low=0.0):
    return 3 * jnp.maximum(x, low)


def signs(x):
    return (x > 0).astype(jnp.int32)


def masked(x, mask):
    return jnp.where(mask, x, 2 * x)


def unmasked(x, mask):
    return x * 1.0
"""
X = ("--arg", "x=f32[4,8]")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gates.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)


def test_two_functions_are_proved() -> None:
    done = samebits("prove", "gates.py:clipped", "gates.py:selected", *X, "--forward")
    assert done.code == 0
    assert "selected, out: SAME FORMULAS" in done.out and "assumes    the defaults low=0.0" in done.out
    assert "1 of 1 results hold under assumptions that other values could break (" in done.out


def test_a_refutation_names_the_line_and_itself() -> None:
    done = samebits("prove", "gates.py:clipped", "gates.py:thrice", *X, "--forward", "--static", "low=0.5")
    assert done.code == 1 and "gates.py:13 has `3 * jnp.maximum(x, low)`" in done.out
    replay = "samebits prove gates.py:clipped gates.py:thrice --arg 'x=f32[4,8]' --static low=0.5"
    assert replay in done.out


def test_outputs_without_gradients_are_no_error() -> None:
    """As in `samebits compare`: one judgement."""
    done = samebits("prove", "gates.py:signs", "gates.py:signs", *X)
    assert done.code == 2  # both functions are one
    (Path("other.py")).write_text(FUNCTIONS)
    done = samebits("prove", "gates.py:signs", "other.py:signs", *X)
    assert done.code == 0 and "has no float output: no gradient" in done.out


def test_all_sizes_and_no_assumptions() -> None:
    every = samebits("prove", "gates.py:clipped", "gates.py:selected", *X, "--forward", "--all-sizes")
    assert every.code == 0 and "SAME FORMULAS FOR ALL SIZES" in every.out
    without = samebits("prove", "gates.py:clipped", "gates.py:selected", *X, "--forward", "--no-assumptions")
    assert without.code == 3 and "hold under assumptions" not in without.out


def test_the_platform_is_that_of_its_branches() -> None:
    Path("here.py").write_text(
        "from jax import lax\n\n\n"
        "def twice(x):\n    return x * 2\n\n\n"
        "def on_tpu(x):\n    return lax.platform_dependent(x, tpu=lambda x: x * 3, default=lambda x: x + x)\n"
    )
    for more in ((), ("--all-sizes",)):
        words = "prove", "here.py:twice", "here.py:on_tpu", *X, "--forward", *more
        assert samebits(*words).code == 0
        assert samebits(*words, "--platform", "tpu").code == 1


def test_a_mask_that_is_true_everywhere() -> None:
    words = "gates.py:masked", "gates.py:unmasked", *X, "--forward", "--arg"
    assert samebits("prove", *words, "mask=bool[4,8]:true").code == 0
    assert samebits("prove", *words, "mask=bool[4,8]:false").code == 1
    assert samebits("prove", *words, "mask=bool[4,8]").code == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("rms_norm", *X), "--arg is of two functions; write `samebits prove MODULE:FUNCTION MODULE:FUNCTION --arg"),
        (
            ("gates.py:clipped", "gates.py:selected", *X, "--case", "a"),
            "--case narrows pairs; of two functions give one",
        ),
        (("gates.py:clipped", "gates.py:selected", "--forward"), "no --arg: nothing would be compared"),
        (("gates.py:clipped", "gates.py:selected", *X, "--config", "a"), "--config is of a full model"),
        (
            ("gates.py:clipped", "gates.py:selected", *X, "--mesh", "dp2", "--mesh", "tp2"),
            "--mesh narrows pairs; of two",
        ),
        (("gates.py:clipped", "gates.py:selected", *X, "--workers", "2"), "--workers is about worker processes"),
        (("rms_norm", "--accuracy", "4"), "--accuracy is of two functions"),
        (("model", "--seeds", "2"), "--seeds is of two functions"),
    ],
)
def test_words_that_do_not_fit(words: tuple[str, ...], text: str) -> None:
    done = samebits("prove", *words)
    assert done.code == 2 and text in done.err + done.out
