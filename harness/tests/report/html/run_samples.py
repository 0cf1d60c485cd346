"""Documents of compilations, trainings and goldens, made by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from samebits.report.compile import CompileDocument, summarise
from samebits.report.compile_model import CompiledStep, StepsDocument
from samebits.report.golden import GoldenCheckDocument
from samebits.report.train import TrainDocument, TrainSummary, envelope_record
from samebits.report.tune import TuneDocument, summarise_tuned
from samebits.schema.program_facts import (
    ClaimResult,
    CompiledSide,
    Facts,
    ProgramRegion,
    RegionLevel,
    RegionLine,
    SideBySide,
    ratio,
)
from samebits.schema.tuning import TuningTrial, best
from samebits.train.compare import clusters, judge_runs
from samebits.train.envelope import Envelope
from samebits.train.golden.check import check_golden
from samebits.train.record import RunRecord
from tests.support.documents import ENVIRONMENT
from tests.support.golden_samples import ELSEWHERE, HERE, golden, run_record

REGION = ProgramRegion(
    levels=(
        RegionLevel(
            name="entry computation",
            reference_instructions=9,
            variant_instructions=8,
            reference_only=3,
            variant_only=2,
        ),
        RegionLevel(
            name="body of while.1", reference_instructions=6, variant_instructions=6, reference_only=2, variant_only=2
        ),
    ),
    lines=(
        RegionLine(kind="same", reference="param.0 = f32[8] parameter(0)", variant="param.0 = f32[8] parameter(0)"),
        RegionLine(kind="moved", variant="iota.1 = s32[8] iota()"),
        RegionLine(
            kind="changed",
            reference="constant.1 = f32[] constant(2.5)",
            variant="constant.2 = f32[] constant(2.25)",
        ),
        RegionLine(
            kind="changed",
            reference="multiply.1 = f32[8] multiply(param.0, constant.1)",
            variant="multiply.2 = f32[8] multiply(param.0, constant.2)",
            reference_source="jit(f)/mul; scaled in norm.py",
            variant_source="jit(f)/mul; fused in norm.py",
        ),
        RegionLine(kind="reference", reference="copy.1 = f32[8] copy(multiply.1)"),
        RegionLine(kind="variant", variant="negate.1 = f32[8] negate(multiply.2)"),
        RegionLine(
            kind="changed",
            reference="fusion.1 = f32[8] fusion(copy.1)",
            variant="fusion.2 = f32[8] fusion(copy.1)",
            note="backend_config differs in window_config",
        ),
    ),
    more=3,
)


def side(name: str = "gather", **given: Any) -> CompiledSide:
    usual: dict[str, Any] = {
        "pair": "reorder",
        "side": name,
        "case": "layer",
        "dtype": "bfloat16",
        "mesh": "context4",
        "mode": "auto",
        "direction": "forward",
        "target": "v5p:2x2x1",
        "shapes": ("x bfloat16[8]",),
        "options": {},
        "compiler": "0.0.42",
        "replay": f"samebits compile reorder --variant {name}",
        **facts_values(),
    }
    return CompiledSide(**{**usual, **given})


def facts_values(**given: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "while_loops": 0,
        "loop_turns": 0,
        "gathers": 0,
        "scatters": 0,
        "copies": 2,
        "collectives": {},
        "wire_bytes": 0,
        "sparsecore": 0,
        "sparsecore_operations": {},
        "custom_calls": {},
        "operations": {},
        "temp_bytes": 7_026_100_000,
        "peak_bytes": 8_405_500_000,
        "argument_bytes": 1000,
        "output_bytes": 1000,
        "bytes_accessed": 2.25e10,
        "flops": 1e9,
        "optimal_seconds": 1e-3,
        "compile_seconds": 1.0,
        "cached": False,
        "program": "95d4b459aaaa",
        "unordered": "95d4b459aaaa",
    }
    return {**usual, **given}


def beside(variant: CompiledSide, reference: CompiledSide, **given: Any) -> SideBySide:
    usual: dict[str, Any] = {
        **{name: getattr(variant, name) for name in ("pair", "case", "dtype", "mesh", "direction", "target")},
        "variant": variant.side,
        "reference": reference.side,
        "same_program": False,
        "same_order": False,
        "verdict": None,
        "reason": "another program: copy 2 -> 1",
        "temp_ratio": ratio(variant.temp_bytes, reference.temp_bytes),
        "peak_ratio": None,
        "bytes_ratio": None,
        "wire_ratio": None,
        "operations": {"copy": (2, 1)},
        "expectations": (),
        "region": REGION,
    }
    return SideBySide(**{**usual, **given})


def claim(**given: Any) -> ClaimResult:
    usual: dict[str, Any] = {
        "shows": "while_loops == 0",
        "source": "us",
        "finding": None,
        "holds": True,
        "ok": True,
        "got": "0",
    }
    return ClaimResult(**{**usual, **given})


def compiled_document(
    programs: Sequence[CompiledSide], comparisons: Sequence[SideBySide], **given: Any
) -> CompileDocument:
    usual: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "results": tuple(programs),
        "comparisons": tuple(comparisons),
        "options": (),
        "problems": (),
        "notes": (),
        "summary": summarise(programs, comparisons, 1.0, False),
    }
    return CompileDocument(**{**usual, **given})


def two_sides(*claims: ClaimResult, **given: Any) -> CompileDocument:
    """A reference with a loop and an all-gather, and a variant with neither."""
    loops: dict[str, Any] = {
        "while_loops": 3,
        "loop_turns": 12,
        "collectives": {"all-gather": 1},
        "wire_bytes": 3_000_000,
    }
    reference, variant = side(**loops), side("permute", temp_bytes=1_610_700_000, program="e25dc3deaaaa", **given)
    return compiled_document([reference, variant], [beside(variant, reference, expectations=tuple(claims))])


def steps_document(*names: str, **given: Any) -> StepsDocument:
    steps = tuple(
        CompiledStep(
            config=name,
            mesh="fsdp8",
            shard_mode="auto",
            choice={},
            target="v5p:2x2x2",
            compiler="1",
            published_bytes=9e9 * place,
            facts=Facts(**facts_values(peak_bytes=8_000_000_000 * place)),
        )
        for place, name in enumerate(names, 1)
    )
    usual: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "preset": "llama",
        "about": "a model",
        "source": "a paper",
        "results": steps,
        "problems": (),
        "notes": (),
        "seconds": 1.0,
    }
    return StepsDocument(**{**usual, **given})


def trial(value: str, **given: Any) -> TuningTrial:
    usual: dict[str, Any] = {
        **{"pair": "matmul", "side": "tiled", "case": "real", "direction": "forward", "target": "v5p:2x2x1"},
        "compiler": "1",
        "argument": "tile",
        "value": value,
        "declared": False,
        "program": f"{value}{value}",
        "equal": True,
        "verdict": "bitwise",
        "while_loops": 0,
        "loop_turns": 0,
        "temp_bytes": 1000 * int(value),
        "peak_bytes": 5000,
        "bytes_accessed": 1e6,
        "optimal_seconds": 1e-6,
    }
    return TuningTrial(**{**usual, **given})


def tuned_document(*trials: TuningTrial) -> TuneDocument:
    return TuneDocument(
        environment=ENVIRONMENT,
        trials=trials,
        best=(best(trials),) if trials else (),
        problems=(),
        notes=(),
        summary=summarise_tuned(trials, 1.0, False),
    )


def run(name: str, steps: int = 4, **given: Any) -> RunRecord:
    """A run as `golden_samples.run_record` makes it."""
    return replace(run_record(steps, **given), config=name)


def trained(*runs: RunRecord, expected: Mapping[str, str] | None = None, noise: int = 2, **given: Any) -> TrainDocument:
    """Every run beside the first one; the envelope has the same noise at every step."""
    steps = len(runs[0].steps)
    envelope = Envelope(config=runs[0].config, loss=[noise] * steps, leaves={"gradient/w": 1e-7}, rewrites={"x": noise})
    comparisons = tuple(
        judge_runs(runs[0], other, {}, envelope, (expected or {}).get(other.config, "rounding"), "by hand")  # type: ignore[arg-type]
        for other in runs[1:]
    )
    failed = sum(not comparison.ok for comparison in comparisons)
    summary = TrainSummary(
        runs=len(runs), steps=steps, comparisons=len(comparisons), failed=failed, verdicts={}, seconds=1.0
    )
    usual: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "matrix": "toy",
        "about": "toys",
        "columns": ("loss",),
        "results": runs,
        "comparisons": comparisons,
        "clusters": tuple(map(tuple, clusters(runs))),
        "envelope": envelope_record(envelope),
        "problems": (),
        "summary": summary,
    }
    return TrainDocument(**{**usual, **given})


def checked_goldens(*names: str, elsewhere: bool = False, **given: Any) -> GoldenCheckDocument:
    """Goldens of one recorded run, held against a run that was changed."""
    here = ELSEWHERE if elsewhere else HERE
    results = tuple(replace(check_golden(golden(), run_record(**given), here), name=name) for name in names)
    return GoldenCheckDocument(environment=here, results=results)
