"""Failing claims under pytest: what is said of them, and the command that shows the same again."""

import shlex
from pathlib import Path

import pytest

from samebits.programs.catalogue import Locator, load
from samebits.testing.compile_claims import check_compiled_claims
from tests.support.invoke import samebits
from tests.support.real_tree import OPTIMIZED, write_real_pair

pytestmark = pytest.mark.usefixtures("own_cache")


def test_the_replay_shows_the_failing_claim(tmp_path: Path) -> None:
    claims = ['variant="turned", shows=VARIANT.program == compiled_side("again").program']
    optimized = OPTIMIZED.replace("return jnp.flip(x, axis=0) * 0.5", "return jnp.flip(x, axis=0) * 0.25", 1)
    tree = write_real_pair(tmp_path, claims=claims, optimized=optimized, variants=("turned", "again"))
    pair = load(Locator(name="reorder", root=str(tree)))
    with pytest.raises(pytest.fail.Exception) as failed:
        check_compiled_claims(pair, "real", "cpu:8", "forward")
    *lines, replay = str(failed.value).splitlines()
    assert replay.startswith("  replay    samebits compile reorder --target cpu:8 --case real --direction forward")
    ended = samebits(*shlex.split(replay)[2:])
    assert ended.code == 1 and all(line in ended.out for line in lines), ended.out


def test_a_side_that_asks_for_the_devices_of_the_process_fails(tmp_path: Path) -> None:
    optimized = OPTIMIZED.replace("return jnp.flip(x, axis=0) * 0.5", "return jnp.flip(x, axis=0) * (4 / DEVICES)", 1)
    optimized = optimized.replace("DEVICES", "__import__('jax').device_count()")
    tree = write_real_pair(tmp_path, claims=["shows=VARIANT.gathers >= 0"], optimized=optimized, variants=("turned",))
    pair = load(Locator(name="reorder", root=str(tree)))
    with pytest.raises(pytest.fail.Exception, match="which is 8 here, and 4 on cpu:4"):
        check_compiled_claims(pair, "real", "cpu:4", "forward")
    check_compiled_claims(pair, "real", "cpu:8", "forward")
