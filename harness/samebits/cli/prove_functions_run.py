"""`samebits prove` of two functions, as `samebits compare` takes them. To be imported after `environment.prepare`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from samebits.check.contract_audit import ANY_DEVICES
from samebits.check.prove_points import prove_points
from samebits.check.size_points import prove_sizes
from samebits.cli.compare_options import CompareFunctionsOptions, in_options
from samebits.cli.compare_run import anything_drawn, functions_as_pair
from samebits.cli.pipeline import CommandRun
from samebits.cli.prove_run import ProveCommand, ProveInputs
from samebits.errors import DeclarationError
from samebits.functions.call_assumptions import with_call_assumptions
from samebits.functions.run import function_plan, to_prove
from samebits.host.isolation import take_notes
from samebits.programs.catalogue import Locator
from samebits.programs.plan import LoadedPair
from samebits.report.prove import show_pair
from samebits.schema.proof import ProofResult


@dataclass(frozen=True, kw_only=True)
class ProveFunctionsCommand(ProveCommand):
    """Prove two functions, in this process.

    Args:
        chosen: the functions and their arguments.
    """

    chosen: CompareFunctionsOptions

    def load(self, run: CommandRun) -> ProveInputs:
        """The functions as a pair, without the gradients that there are none of, with notes about those."""
        pair = functions_as_pair(self.chosen)
        here = run.start_backend(shown=True, workers=0, ray=None)
        try:
            pair, notes = to_prove(pair, "all" if self.all_sizes else None)
        except DeclarationError as error:
            raise DeclarationError(in_options(str(error))) from error
        run.notes += notes
        again = self.chosen.words("prove") + (" --all-sizes" if self.all_sizes else "")
        locator = Locator(name=f"{self.chosen.reference} {self.chosen.variant}", rerun=again)
        return ProveInputs(
            loaded=[LoadedPair(locator=locator, pair=pair, plan=function_plan(pair, ANY_DEVICES))], environment=here
        )

    def execute(self, run: CommandRun, inputs: ProveInputs, results: list[ProofResult]) -> None:
        """Prove all points, and say what they leave at its default."""
        (item,) = inputs.loaded
        points = item.pair, item.locator, item.plan, self.platform
        proofs = prove_sizes(*points) if self.all_sizes else prove_points(*points, assuming=self.assuming)
        for row in with_call_assumptions([*proofs], item.pair, assuming=self.assuming):
            results.append(replace(row, reason=None if row.reason is None else in_options(row.reason)))
        run.notes += take_notes()
        if not all(row.ok for row in results):
            run.notes += anything_drawn(self.chosen.arg)
        if self.verbose:
            show_pair(run.console, item.pair.name, results)
