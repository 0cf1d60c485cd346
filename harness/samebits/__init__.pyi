"""The public names: this file is the one list of them, for type checkers and at run time."""

from samebits.audit.faults.fault import Fault as Fault
from samebits.audit.faults.machinery import machinery_faults as machinery_faults
from samebits.compile.compiler import compile_for as compile_for
from samebits.compile.devices import target_mesh as target_mesh
from samebits.errors import DeclarationError as DeclarationError
from samebits.errors import SamebitsError as SamebitsError
from samebits.numerics.bits import Comparison as Comparison
from samebits.numerics.bits import compare as compare
from samebits.numerics.bits import same_bits as same_bits
from samebits.programs.implementations import implementation as implementation
from samebits.programs.plan import Request as Request
from samebits.schema.case import Arg as Arg
from samebits.schema.case import AxisSize as AxisSize
from samebits.schema.case import Case as Case
from samebits.schema.case import ContextMesh as ContextMesh
from samebits.schema.case import Refusal as Refusal
from samebits.schema.compile_claim import Claim as Claim
from samebits.schema.compile_statement import REFERENCE as REFERENCE
from samebits.schema.compile_statement import VARIANT as VARIANT
from samebits.schema.compile_statement import compiled_side as compiled_side
from samebits.schema.contract import Contract as Contract
from samebits.schema.contract import Direction as Direction
from samebits.schema.contract import Exemption as Exemption
from samebits.schema.document_claim import Documented as Documented
from samebits.schema.domain import Domain as Domain
from samebits.schema.meshes import MeshSpec as MeshSpec
from samebits.schema.model import Config as Config
from samebits.schema.model import Defect as Defect
from samebits.schema.model import Matrix as Matrix
from samebits.schema.model import Model as Model
from samebits.schema.model import Parts as Parts
from samebits.schema.model import Preset as Preset
from samebits.schema.model import Training as Training
from samebits.schema.pair import Pair as Pair
from samebits.schema.program_facts import Facts as Facts
from samebits.schema.real_size import RealSize as RealSize
from samebits.schema.values import Integers as Integers
from samebits.schema.values import Normal as Normal
from samebits.testing.asserts import assert_same_bits as assert_same_bits
from samebits.testing.plugin import compile_test as compile_test
from samebits.testing.plugin import pair_test as pair_test

__all__: list[str]
