"""Every planted fault of samebits itself changes all keys, so that no result is remembered with it."""

import importlib
import shutil
from pathlib import Path

from samebits.audit.faults.fault import all_faults
from samebits.host import installed
from samebits.host.installed import PACKAGE
from tests.support.invoke import REPOSITORY


def test_every_fault_of_samebits_itself_is_in_the_key(tmp_path: Path) -> None:
    """The modules that these faults patch count with their content, where they lie in samebits."""
    targets = {fault.patch[0].partition(":")[0] for fault in all_faults(REPOSITORY) if fault.patch is not None}
    assert len(targets) > 5
    package, modules = tmp_path / "samebits", {}
    for target in targets:
        file = Path(str(importlib.import_module(target).__file__)).resolve()
        modules[target] = path = package / file.relative_to(PACKAGE)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, path)
    honest = installed.own_digest(package)
    for target, path in modules.items():
        text = path.read_text()
        path.write_text(text + "\n# patched\n")
        assert installed.own_digest(package) != honest, target
        path.write_text(text)
    assert installed.own_digest(package) == honest
