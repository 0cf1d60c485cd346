"""The planted faults of the pairs as edits of files in a copy of the tree."""

import inspect
from pathlib import Path

from samebits.audit.faults.fault import Fault
from samebits.programs.catalogue import Locator, load
from samebits.programs.implementations import implementation

FOLDERS = ("suites", "reference_impls", "optimized_impls")
"""What a copy has."""


def source_of(fault: Fault, locator: Locator) -> Path:
    pair = load(locator)
    return Path(inspect.getsourcefile(inspect.unwrap(implementation(pair, fault.side))) or "")


def locator_of(fault: Fault, root: Path) -> Locator:
    module, colon, attribute = fault.pair.partition(":")
    if colon:
        return Locator(name=f"{root / Path(*module.split('.'))}.py:{attribute}")
    return Locator(name=fault.pair, root=str(root))


def edited(fault: Fault, text: str) -> str:
    olds, news = ((part,) if isinstance(part, str) else part for part in (fault.old, fault.new))
    for old, new in zip(olds, news, strict=True):
        assert text.count(old) == 1, (fault.name, old)
        text = text.replace(old, new)
    return text
