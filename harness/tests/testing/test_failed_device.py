"""Under pytest a device that fails is named with the test after which it did, and the tests after it are not run."""

from pathlib import Path

import pytest

from tests.support import failing_device
from tests.support.foreign import write_pair
from tests.testing.test_plugin import run_pytest


@pytest.mark.slow
def test_the_tests_after_it_are_not_run(tmp_path: Path) -> None:
    failing_device.write_failing_pair(tmp_path, "bad")
    write_pair(tmp_path, "good", extra="gradients=False,")
    done = run_pytest(tmp_path)
    assert done.returncode == 1 and " failed" in done.stdout, done.stdout
    assert f"not run: device cpu:0 failed: {failing_device.MESSAGE}, in bad: " in done.stdout
    assert "; run it in a new process\n" in done.stdout
    alone = run_pytest(tmp_path, "-k", "good")
    assert alone.returncode == 0, alone.stdout


@pytest.mark.slow
def test_a_result_that_is_right_does_not_hide_it(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", extra="gradients=False,")
    (tmp_path / "conftest.py").write_text(
        "from samebits.testing import session\nsession.device_failure = lambda: 'device cuda:0 failed: planted'\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 1 and "2 failed" in done.stdout
    assert "\ndevice cuda:0 failed: planted, in good: " in done.stdout and "traced ahead)\n" in done.stdout
    assert "not run: device cuda:0 failed: planted, in good: " in done.stdout
