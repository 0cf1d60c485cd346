"""samebits: two implementations of one component, compared bit for bit on every mesh.

The public list, nothing else. Names are loaded on first use, so that `import samebits` starts nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samebits.audit.faults.fault import Fault
    from samebits.audit.faults.machinery import machinery_faults
    from samebits.compile.compiler import compile_for
    from samebits.compile.devices import target_mesh
    from samebits.errors import DeclarationError, SamebitsError
    from samebits.numerics.bits import Comparison, compare, same_bits
    from samebits.programs.implementations import implementation
    from samebits.programs.plan import Request
    from samebits.schema.case import Arg, AxisSize, Case, Refusal
    from samebits.schema.compile_claim import Claim
    from samebits.schema.compile_statement import REFERENCE, VARIANT, compiled_side
    from samebits.schema.contract import Contract, Direction, Exemption
    from samebits.schema.document_claim import Documented
    from samebits.schema.domain import Domain
    from samebits.schema.meshes import MeshSpec
    from samebits.schema.model import Config, Defect, Matrix, Model, Parts, Preset, Training
    from samebits.schema.pair import Pair
    from samebits.schema.program_facts import Facts
    from samebits.schema.real_size import RealSize
    from samebits.schema.values import Integers, Normal
    from samebits.testing.asserts import assert_same_bits
    from samebits.testing.plugin import compile_test, pair_test

_HOME = {
    "Direction": "samebits.schema.contract",
    "Fault": "samebits.audit.faults.fault",
    "Request": "samebits.programs.plan",
    "machinery_faults": "samebits.audit.faults.machinery",
    "Config": "samebits.schema.model",
    "Defect": "samebits.schema.model",
    "Matrix": "samebits.schema.model",
    "Model": "samebits.schema.model",
    "Parts": "samebits.schema.model",
    "Preset": "samebits.schema.model",
    "Training": "samebits.schema.model",
    "target_mesh": "samebits.compile.devices",
    "compile_test": "samebits.testing.plugin",
    "compile_for": "samebits.compile.compiler",
    "RealSize": "samebits.schema.real_size",
    "Facts": "samebits.schema.program_facts",
    "Claim": "samebits.schema.compile_claim",
    "REFERENCE": "samebits.schema.compile_statement",
    "VARIANT": "samebits.schema.compile_statement",
    "compiled_side": "samebits.schema.compile_statement",
    "Arg": "samebits.schema.case",
    "AxisSize": "samebits.schema.case",
    "Case": "samebits.schema.case",
    "Comparison": "samebits.numerics.bits",
    "Contract": "samebits.schema.contract",
    "DeclarationError": "samebits.errors",
    "Documented": "samebits.schema.document_claim",
    "Domain": "samebits.schema.domain",
    "Exemption": "samebits.schema.contract",
    "Integers": "samebits.schema.values",
    "MeshSpec": "samebits.schema.meshes",
    "Normal": "samebits.schema.values",
    "Pair": "samebits.schema.pair",
    "Refusal": "samebits.schema.case",
    "SamebitsError": "samebits.errors",
    "assert_same_bits": "samebits.testing.asserts",
    "compare": "samebits.numerics.bits",
    "implementation": "samebits.programs.implementations",
    "pair_test": "samebits.testing.plugin",
    "same_bits": "samebits.numerics.bits",
}

__all__ = [
    "REFERENCE",
    "VARIANT",
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
    "assert_same_bits",
    "compare",
    "compile_for",
    "compile_test",
    "compiled_side",
    "implementation",
    "machinery_faults",
    "pair_test",
    "same_bits",
    "target_mesh",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'samebits' has no attribute '{name}'; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
