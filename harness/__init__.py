"""samebits: two implementations of one component, compared bit for bit on every mesh.

The public list, nothing else. Names are loaded on first use, so that `import harness` starts nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.bits import Comparison, compare, same_bits
    from harness.case import Arg, AxisSize, Case, Refusal
    from harness.claim import Claim
    from harness.compiled import compile_for
    from harness.contract import Contract, Direction, Exemption
    from harness.documented import Documented
    from harness.domain import Domain
    from harness.errors import DeclarationError, SamebitsError
    from harness.facts import Facts
    from harness.faults.fault import Fault
    from harness.faults.machinery import machinery_faults
    from harness.implementations import implementation
    from harness.meshes import MeshSpec
    from harness.model import Config, Defect, Matrix, Model, Parts, Preset, Training
    from harness.pair import Pair
    from harness.pytest_plugin import compile_test, pair_test
    from harness.realsize import RealSize
    from harness.selection import Request
    from harness.topology import target_mesh
    from harness.values import Integers, Normal

_HOME = {
    "Direction": "harness.contract",
    "Fault": "harness.faults.fault",
    "Request": "harness.selection",
    "machinery_faults": "harness.faults.machinery",
    "Config": "harness.model",
    "Defect": "harness.model",
    "Matrix": "harness.model",
    "Model": "harness.model",
    "Parts": "harness.model",
    "Preset": "harness.model",
    "Training": "harness.model",
    "target_mesh": "harness.topology",
    "compile_test": "harness.pytest_plugin",
    "compile_for": "harness.compiled",
    "RealSize": "harness.realsize",
    "Facts": "harness.facts",
    "Claim": "harness.claim",
    "Arg": "harness.case",
    "AxisSize": "harness.case",
    "Case": "harness.case",
    "Comparison": "harness.bits",
    "Contract": "harness.contract",
    "DeclarationError": "harness.errors",
    "Documented": "harness.documented",
    "Domain": "harness.domain",
    "Exemption": "harness.contract",
    "Integers": "harness.values",
    "MeshSpec": "harness.meshes",
    "Normal": "harness.values",
    "Pair": "harness.pair",
    "Refusal": "harness.case",
    "SamebitsError": "harness.errors",
    "compare": "harness.bits",
    "implementation": "harness.implementations",
    "pair_test": "harness.pytest_plugin",
    "same_bits": "harness.bits",
}

__all__ = [
    "Arg",
    "AxisSize",
    "Case",
    "Claim",
    "Comparison",
    "Config",
    "Contract",
    "DeclarationError",
    "Defect",
    "Direction",
    "Documented",
    "Domain",
    "Exemption",
    "Facts",
    "Fault",
    "Integers",
    "Matrix",
    "MeshSpec",
    "Model",
    "Normal",
    "Pair",
    "Parts",
    "Preset",
    "RealSize",
    "Refusal",
    "Request",
    "SamebitsError",
    "Training",
    "compare",
    "compile_for",
    "compile_test",
    "implementation",
    "machinery_faults",
    "pair_test",
    "same_bits",
    "target_mesh",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'harness' has no attribute '{name}'; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
