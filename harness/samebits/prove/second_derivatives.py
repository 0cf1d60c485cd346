"""Second derivatives, tried by themselves where a rule or a `stop_gradient` stands on one side alone.

A gradient may be right and its own gradient wrong: a rule stops gradients on the way back, or cannot be differentiated.
Training that uses only first derivatives is not affected, so this is a note, and never fails a contract.
"""

from __future__ import annotations

from dataclasses import replace

from samebits.errors import SamebitsError
from samebits.interpret.float64_differences import differences, values_of
from samebits.programs.alone import baseline, on_mesh_of
from samebits.programs.asked import Asked, record_all, recorded
from samebits.programs.inputs import records
from samebits.programs.own_rules import own_rules, own_stops
from samebits.programs.program_cache import Program
from samebits.programs.sides import Site, TracedSides
from samebits.programs.transforms import SECOND
from samebits.prove.problem import cotangents_of, questions
from samebits.schema.assumption import Assumption
from samebits.schema.meshes import MeshSpec


class SecondDerivatives:
    """Compares the second derivatives of a pair's variants with the reference's, each once.

    Args:
        sides: the programs.
        platform: whose branches run.
    """

    def __init__(self, sides: TracedSides, platform: str | None) -> None:
        self._sides = sides
        self._platform = platform
        self._by_variant: dict[str, dict[str, str] | str] = {}
        self._asked: dict[str, Asked] = {}

    def assumption(self, variant: str, argument: str) -> Assumption | None:
        """Return the assumption that only first derivatives are used, where second ones differ or cannot be compared.

        Args:
            variant: the side that is compared with the reference.
            argument: whose gradient is taken.
        """
        if variant not in self._by_variant:
            with recorded(self._asked.setdefault(variant, Asked())):
                try:
                    self._by_variant[variant] = self._tried(variant)
                except SamebitsError as error:
                    self._by_variant[variant] = f"the gradient is differentiated again, which fails: {error}"
        record_all(self._asked[variant])
        known = self._by_variant[variant]
        why, shown = (known, None) if isinstance(known, str) else ("the gradient is differentiated again", known)
        if shown is not None and argument not in shown:
            return None
        text = "first derivatives alone are used"
        return Assumption("derivatives", text, why, counterexample=None if shown is None else shown[argument])

    def _tried(self, variant: str) -> dict[str, str] | str:
        """Say by argument how second derivatives differ, or why they cannot be compared.

        Raises:
            CouldNotRun: the variant cannot be differentiated twice.
        """
        sides, pair = self._sides, self._sides.pair
        reference, case = pair.reference_name, next((case for case in pair.cases if not case.refuses), pair.cases[0])
        if variant == reference or "second_derivative" in pair.transforms or case.transform is not None:
            return {}
        dtype = "float32" if "float32" in pair.dtypes else pair.dtypes[0]
        mesh, mode = MeshSpec.parse((*pair.meshes, *pair.wide_meshes)[0]), pair.modes[0]
        site = Site(case=case, dtype=dtype, mesh=mesh, mode=mode, built=mesh.abstract(mode))
        on_mesh = on_mesh_of(sides, variant, site)
        alone = baseline(sides, on_mesh, runs=False)[0]
        first, second = (sides.forward(*end) for end in ((reference, alone), (variant, on_mesh)))
        if any(program.error is not None for program in (first, second)) or _rules(first) == _rules(second):
            return {}
        alone, on_mesh = (replace(at, case=case.under(SECOND)) for at in (alone, on_mesh))
        if sides.gradient(reference, alone).error is not None:  # then there is none to be kept
            return {}
        inputs = next(iter(records(pair, case, dtype, mesh).values())), cotangents_of(sides, reference, alone)
        question = questions(
            sides,
            direction="gradient",
            reference=(reference, alone),
            variant=(variant, on_mesh),
            inputs={SECOND: inputs},
            platform=self._platform,
        )[SECOND]
        if any(values_of(question, name) is None for name in question.outputs):
            return "the gradient is differentiated again, which cannot be interpreted"
        return differences(question, question.outputs)


def _rules(program: Program) -> frozenset[str]:
    """List what may change a second derivative and leave the first one as it is."""
    return frozenset((*own_rules(program.traced.jaxpr), *own_stops(program.traced.jaxpr)))
