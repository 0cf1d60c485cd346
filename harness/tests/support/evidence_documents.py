"""Documents of proofs, searches, claims and the smaller commands, made by hand for the tests of their readers."""

from collections.abc import Sequence
from typing import Any

from samebits.audit.claims.row import ClaimRow, Saving
from samebits.audit.faults.fault import FaultRow
from samebits.audit.guide.advice import Advice, BlockCost
from samebits.bisect.search.history import first_failing
from samebits.bisect.search.minimal_sets import minimal_sets
from samebits.bisect.search.trials import (
    Judgement,
    SearchFinding,
    SearchSpace,
    Trials,
    failed,
    passed,
    space_of_sets,
    untestable,
)
from samebits.report.advise import AdviseDocument
from samebits.report.bisect import BisectDocument
from samebits.report.claims import ClaimsDocument, Ran, summarise
from samebits.report.prove import ProofDocument
from samebits.report.prove_model import StepDocument
from samebits.schema.assumption import Assumption
from samebits.schema.finding import Finding
from samebits.schema.line_difference import AlignedTensor, LineDifference
from samebits.schema.result import Problem
from samebits.train.prove_request import StepLeaf
from tests.support.documents import ENVIRONMENT
from tests.support.findings import finding

PROBLEM = Problem(pair="broken", message="its file does not import", exit_code=2)
LINE = LineDifference(
    change="moved",
    variant="optimized_impls/norm.py:4",
    variant_code="x[::-1]",
    reference="reference_impls/norm.py:3",
    reference_code="x",
    primitive="rev",
)


def proof(**given: Any) -> Finding:
    """A proof that reaches its contract, but for what is given."""
    usual: dict[str, Any] = {
        "pair": "norm",
        "variant": "multiply",
        "case": "small",
        "dtype": "float32",
        "mesh": "data2",
        "mode": "auto",
        "direction": "forward",
        "leaf": "out",
        "verdict": "rounding",
        "required": "rounding",
        "ok": True,
        "method": "fields",
        "elements": 40,
        "log2_error": -80.5,
        "points": 2,
        "degree": 7,
        "assumptions": (Assumption("shapes", "these shapes", "a program branches on its shapes", inherent=True),),
        "replay": "samebits prove norm --variant multiply --case small",
    }
    return finding("prove", **{**usual, **given})


def refuted(**given: Any) -> Finding:
    """A proof that refutes its contract."""
    usual = {"verdict": "different", "ok": False, "method": "labels", "witness": "out[0] is x[0] and x[5]"}
    return proof(**{**usual, "lines": (LINE,), **given})


def proofs(*results: Finding, problems: Sequence[Problem] = (), **given: Any) -> ProofDocument:
    """A document of `samebits prove`."""
    usual = {"environment": ENVIRONMENT, "results": results, "problems": tuple(problems), "seconds": 1.5}
    return ProofDocument(**{**usual, **given})


def step_leaf(**given: Any) -> StepLeaf:
    """One output of a step that is the same formula."""
    usual: dict[str, Any] = {
        "config": "ring",
        "mesh": "data2",
        "shard_mode": "auto",
        "choice": {"moe": "ring"},
        "defect": None,
        "sizes": {"embed": 4},
        "leaf": "loss",
        "verdict": "rounding",
        "elements": 1,
        "log2_error": -190.0,
        "points": 12,
        "replay": "samebits prove model --config ring --mesh data2",
    }
    return StepLeaf(**{**usual, **given})


def steps(*leaves: StepLeaf, problems: Sequence[Problem] = ()) -> StepDocument:
    """A document of `samebits prove model`."""
    return StepDocument(environment=ENVIRONMENT, model="toy", results=leaves, problems=tuple(problems), seconds=2.0)


def bisected(finding: SearchFinding) -> BisectDocument:
    """A document of `samebits bisect`."""
    return BisectDocument(environment=ENVIRONMENT, finding=finding)


def commit_search(candidates: int = 12, culprit: int = 9, broken: int = 6) -> SearchFinding:
    """A search over a line of commits, of which one does not build."""

    def judge(number: int) -> Judgement:
        if number == broken:
            return untestable("does not import")
        return failed("norm/multiply, out: different") if number >= culprit else passed("bitwise")

    names = [f"{number:012d} change {number}" for number in range(1, candidates + 1)]
    trials = Trials(judge, label=lambda number: names[number - 1] if number else "start")
    trials.space = SearchSpace(candidates=tuple(names), taken=lambda number: (number - 1,) if number else ())
    trials.ends(0, candidates)
    graph = {number: (number - 1,) for number in range(1, candidates + 1)}
    first_failing(graph, candidates, trials, trials.narrowed)
    return trials.finding(
        what="commits",
        found=True,
        sentence=f"commit {culprit:012d} 'change {culprit}' introduced it",
        culprits=((f"{culprit:012d}".ljust(40, "0"),),),
        witness="before: bitwise; at it: different",
        replay="samebits bisect commits --good a --bad b -- check norm",
        least=6,
        skipped=(f"change {broken}: does not import",),
        notes=("12 commits between",),
        detail={
            "culprit": {"subject": f"change {culprit}", "author": "Ada", "date": "2026-01-10"},
            "signature": "norm/multiply, out: different",
            "diff": "--- a/norm.py\n+++ b/norm.py\n-    return x\n+    return x[::-1]",
        },
    )


def set_search() -> SearchFinding:
    """A search over choices, of which one alone fails."""
    names = ["moe@layer2", "norm", "rope", "loss"]
    trials = Trials[frozenset[str]](
        lambda point: failed("step 1: loss") if "rope" in point else passed(),
        key=lambda point: " ".join(sorted(point)),
        label=lambda point: ", ".join(sorted(point)) or "no change",
    )
    trials.space = space_of_sets(names)
    trials.ends(frozenset(), frozenset(names))
    minimal_sets(names, trials.fails)
    return trials.finding(
        what="pairs",
        found=True,
        sentence="rope (half in place of full) alone makes the training part: step 1: loss",
        culprits=(("rope",),),
        replay="samebits bisect pairs --only rope",
    )


def size_search() -> SearchFinding:
    """A search for the smallest mesh: it fails on two devices or more."""
    trials = Trials[int](lambda devices: failed("out: different") if devices > 1 else passed("proved"))
    trials.space = SearchSpace(measures=lambda devices: {"devices": devices, "batch": 2})
    trials.end(8)
    for devices in (1, 2):
        trials(devices)
    return trials.finding(
        what="mesh",
        found=True,
        sentence="'multiply' of norm still fails (out: different) on data2; it passes on data1",
        culprits=(("data2", "batch=2"),),
        replay="samebits bisect mesh norm --mesh data2 --only",
        detail={"input_search": {"input": "special", "elements": 4, "left": 1, "tried": 19}},
    )


def tensor_search() -> SearchFinding:
    """An alignment of two programs, whose third value differs."""
    values = [AlignedTensor(primitive="add", type=f"float32[{n}]", variant="norm.py:4", code="x + y") for n in (1, 2)]
    return SearchFinding(
        what="tensors",
        found=True,
        sentence="norm/multiply: 'out' differs: norm.py:4",
        culprits=(("norm.py:4",),),
        replay="samebits bisect tensors norm",
        detail={
            "leaf": "out",
            "lines": (LINE,),
            "tensors": (*values, AlignedTensor(primitive="rev", type="float32[3]", first=True)),
        },
    )


def nothing_fails() -> SearchFinding:
    """A search whose bad end passes."""
    return SearchFinding(
        what="mesh", found=False, sentence="the bad end, data8, passes; there is nothing to search for"
    )


def claim(**given: Any) -> ClaimRow:
    """A claim that holds, but for what is given."""
    usual: dict[str, Any] = {
        "id": "norm-1",
        "document": "norms.md",
        "says": "a multiply in place of an einsum saves memory",
        "subject": "norm",
        "variants": ("multiply",),
        "values": "same mathematics",
        "verdicts": {"rounding": 12},
        "exempt": 0,
        "skipped": 0,
        "failed": 0,
        "figure": "temp_bytes",
        "saved": "saves",
        "savings": (saving("cpu", 0.5), saving("v5p:2x2x1", 0.25)),
        "conditions": ("the table is finite",),
        "reasons": ("summed in another order",),
        "findings": (),
        "witness": None,
        "shown_by": {"test_norm": True},
        "said": None,
        "commands": ("samebits check norm --json norm.json",),
        "holds": "holds but for rounding",
        "ok": True,
    }
    return ClaimRow(**{**usual, **given})


def saving(target: str, ratio: float) -> Saving:
    """A figure of a variant beside the reference's."""
    return Saving(
        target=target,
        case="large",
        direction="forward",
        variant="multiply",
        reference_value=1000.0,
        value=1000.0 * ratio,
        ratio=ratio,
        same_program=False,
    )


def claims(*rows: ClaimRow, problems: Sequence[Problem] = ()) -> ClaimsDocument:
    """A document of `samebits audit claims`."""
    return ClaimsDocument(
        environment=ENVIRONMENT,
        compilers={"v5p:2x2x1": "0.0.42"},
        results=rows,
        commands=(Ran(command="samebits check norm", exit_code=0, seconds=4.0),),
        problems=tuple(problems),
        summary=summarise(rows, 5.0, interrupted=False),
    )


def advice(**given: Any) -> Advice:
    """A parallelism that is bound by compute, but for what is given."""
    usual: dict[str, Any] = {
        "axis": "fsdp",
        "size": 16,
        "over": "1 ICI axis",
        "sends": "weights, all-gather",
        "formula": "B k / X",
        "intensity": 16384.0,
        "needed": 11535.0,
        "dimension": "tokens per device",
        "has": 16384,
        "wants": 11535.0,
        "verdict": "compute-bound",
        "block": BlockCost(
            flops=1e12,
            bytes=1e8,
            intensity=17000.0,
            wants=10814.0,
            verdict="compute-bound",
            compute_seconds=0.01,
            communication_seconds=0.006,
        ),
        "source": "the guide",
    }
    return Advice(**{**usual, **given})


def advised(*results: Advice, exit_code: int = 0) -> AdviseDocument:
    """A document of `samebits audit advise`."""
    return AdviseDocument(
        model="llama",
        target="tpu7x",
        mesh="fsdp16",
        batch=32,
        seq=8192,
        dtype="bfloat16",
        layers_per_stage=1,
        dimensions={"embed": 8192, "source": "a configuration"},
        figures={"peak": {"value": 2.3e15, "source": "a page"}, "HBM": None},
        derived={"peak": 1.1e15},
        results=results,
        compiled=None,
        assumes=("rings are closed",),
        findings=("the whole block wants less",),
        exit_code=exit_code,
    )


def fault(**given: Any) -> FaultRow:
    """A planted fault that is caught, but for what is given."""
    usual: dict[str, Any] = {
        "pair": "norm",
        "side": "multiply",
        "fault": "epsilon dropped",
        "expected": "different",
        "caught": True,
        "honest": True,
        "said": "data2 forward out: different",
        "results": 2,
        "failed": 1,
    }
    return FaultRow(**{**usual, **given})
