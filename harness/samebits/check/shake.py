"""A point repeated under each compiler option that changes rounding: do equal bits stay equal?

Programs are compiled again, not traced again. Whether an option did anything is read from the optimised HLO, the
machine code and the bits, since XLA accepts options that it then ignores.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from samebits.check.execution import PendingPoint
from samebits.check.judge import SAME_PROGRAM
from samebits.check.outcome import ProgramOutputs, compare_outputs
from samebits.check.runner import Runner
from samebits.check.verdict import judge_run
from samebits.errors import CouldNotRun
from samebits.hlo.canonical import identity
from samebits.hlo.module import HloModule
from samebits.numerics.bits import same_bits
from samebits.programs.program_cache import Program
from samebits.schema.finding import Finding
from samebits.schema.result import Outcome, ShakenLeaf
from samebits.user_errors import one_line

# Compiler options that change rounding and no mathematics, by platform; and the excluded options with their reasons.
TOGETHER = "all together"
"""The name of the combination of all options that do not hide each other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShakeOption:
    """One way to shake the compiler.

    Args:
        settings: options of XLA with their values, set together.
        moves: what it changes, in words.
        aside: kinds of difference (`samebits.numerics.difference_kinds.KINDS`) that this option may make and that are
            not counted.
        combines: whether it is part of the combination of all; not where it hides what the others do.
        title: a name in place of the settings.
    """

    settings: tuple[tuple[str, Any], ...]
    moves: str
    aside: tuple[str, ...] = ()
    combines: bool = True
    title: str = ""

    @property
    def name(self) -> str:
        """As it is shown: the title, or `xla_allow_excess_precision=false`, of several settings the first."""
        if self.title:
            return self.title
        (name, value), *more = self.settings
        return f"{name}={_text(value)}" + (f" (and {len(more)} more)" if more else "")


def _one(name: str, value: Any, moves: str, *, combines: bool = True) -> ShakeOption:
    return ShakeOption(settings=((name, value),), moves=moves, combines=combines)


_EVERYWHERE = (_one("xla_allow_excess_precision", False, "narrow formats are rounded after every operation"),)

OPTIONS: dict[str, tuple[ShakeOption, ...]] = {
    "cpu": (
        *_EVERYWHERE,
        _one(
            "xla_backend_optimization_level",
            0,
            "no LLVM optimisation: no fused multiply-add, no vectorised sums",
            combines=False,
        ),
        _one("xla_cpu_prefer_vector_width", "128", "vector width, and with it the order of sums"),
        _one("xla_cpu_prefer_vector_width", "512", "vector width, and with it the order of sums", combines=False),
        _one("xla_llvm_disable_expensive_passes", True, "no vectorisation by LLVM", combines=False),
        _one("xla_cpu_enable_platform_dependent_math", False, "generic code for division, roots and functions"),
        _one("xla_reduce_window_rewrite_base_length", 0, "cumulative sums are not split into blocks"),
        _one("xla_cpu_multi_thread_eigen", False, "one thread for products and convolutions"),
        _one("xla_cpu_use_onednn", True, "products by oneDNN"),
        _one("xla_cpu_use_xnnpack", True, "products by XNNPACK", combines=False),
        _one("xla_cpu_strict_dot_conv_math", True, "products and convolutions without fast approximations"),
        _one("xla_cpu_use_fusion_emitters", False, "other loops, with other chances of contraction"),
        _one("xla_cpu_parallel_codegen_split_count", 32, "many pieces of machine code instead of one"),
        ShakeOption(
            settings=(
                ("xla_cpu_enable_fast_math", True),
                ("xla_cpu_fast_math_honor_nans", True),
                ("xla_cpu_fast_math_honor_infs", True),
                ("xla_cpu_fast_math_honor_division", True),
                ("xla_cpu_fast_math_honor_functions", True),
            ),
            moves="sums are reassociated; NaN, infinity, division and functions stay; the sign of zero is set aside",
            aside=("sign of zero",),
        ),
    ),
    "gpu": (
        *_EVERYWHERE,
        _one("xla_gpu_enable_triton_gemm", False, "products by libraries instead of Triton"),
        _one("xla_gpu_enable_cublaslt", True, "products by cuBLASLt"),
        _one("xla_gpu_autotune_level", 0, "the default algorithm of each product, not the fastest"),
        _one("xla_gpu_exclude_nondeterministic_ops", True, "no operation whose order of sums varies"),
        _one("xla_backend_optimization_level", 0, "no LLVM optimisation", combines=False),
    ),
    "tpu": (
        *_EVERYWHERE,
        _one("xla_tpu_scoped_vmem_limit_kib", "8192", "smaller tiles, and with them another order of sums"),
    ),
}
"""By platform, the likeliest to move bits first. What this XLA does not accept is said to be so."""

FLAGS: dict[str, tuple[ShakeOption, ...]] = {
    "cpu": (
        _one("xla_cpu_max_isa", "AVX2", "no AVX-512"),
        _one("xla_cpu_max_isa", "AVX", "no AVX2 and no fused multiply-add"),
    )
}
"""Options that XLA reads once per process: as options of a compilation they are accepted, and do nothing."""

LEFT_OUT: dict[str, str] = {
    "xla_cpu_enable_fast_math without the honor options": "assumes that no value is NaN or infinite",
    "xla_cpu_fast_math_honor_division=false": "replaces division by a product with an approximate reciprocal",
    "xla_cpu_fast_math_honor_functions=false": "replaces functions by approximations of unstated accuracy",
    "xla_cpu_enable_fast_min_max=true": "min and max may return either operand where one is NaN",
    "xla_cpu_ftz=true": "subnormal numbers become zero",
    "xla_gpu_enable_fast_min_max=true": "min and max may return either operand where one is NaN",
    "xla_gpu_ftz=true": "subnormal numbers become zero",
    "xla_disable_hlo_passes": "some passes are needed for a program to be right; see `samebits bisect flags --passes`",
    "jax_default_matmul_precision": "changes the program as it is written, not how it is compiled",
}
"""Options that change mathematics, or more than rounding, with the reason why they are not evidence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedOptions:
    """The options of a platform that this XLA accepts, the combination last; and why it does not accept the others."""

    options: tuple[ShakeOption, ...]
    refused: tuple[tuple[str, str], ...]


@functools.cache
def accepted(platform: str) -> AcceptedOptions:
    """Return what can be tried on a platform; starts the backend."""
    options, refused = [], []
    for option in OPTIONS.get({"cuda": "gpu", "rocm": "gpu"}.get(platform, platform), ()):
        why = why_not(option)
        if why is None:
            options.append(option)
        else:
            refused.append((option.name, why))
    both = together(options)
    return AcceptedOptions(options=(*options, *both), refused=tuple(refused))


def together(options: Sequence[ShakeOption]) -> tuple[ShakeOption, ...]:
    """Return the combination of all options that can be combined; empty where that is one option or none."""
    combined = [option for option in options if option.combines]
    if len(combined) < 2:
        return ()
    settings = {name: value for option in combined for name, value in option.settings}
    aside = tuple(dict.fromkeys(kind for option in combined for kind in option.aside))
    return (
        ShakeOption(settings=tuple(settings.items()), moves="all that can be combined", aside=aside, title=TOGETHER),
    )


def why_not(option: ShakeOption) -> str | None:
    """Explain why this XLA does not accept an option; None where it does."""
    import jax

    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=dict(option.settings))
    except RuntimeError as error:
        return one_line(error)
    return None


def flag_options(platform: str, instruction_sets: Sequence[str]) -> tuple[ShakeOption, ...]:
    """Return the options of a process that can do something on this processor."""
    has = {"AVX2": "avx512f", "AVX": "fma"}  # an instruction set that is lacking cannot be taken away
    return tuple(option for option in FLAGS.get(platform, ()) if has[str(option.settings[0][1])] in instruction_sets)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_COMPARED = ("alone", "variant")
"""The programs that are compared; the reference on the mesh only explains a difference."""

_ELF = b"\x7fELF"


@dataclass(frozen=True, slots=True)
class ShakenPoint:
    """A point whose programs are being compiled under each option."""

    job: PendingPoint
    under: Mapping[ShakeOption, PendingPoint]


def worth_shaking(result: Finding) -> bool:
    """Return whether a result's bits came out equal, without a proof that holds for every compiler."""
    verdict, evidence = result.ruling.verdict, result.ruling.evidence
    observed = verdict == "bitwise" or (verdict == "proved" and evidence == SAME_PROGRAM)
    return observed and not result.comparison.mismatches


class Shaker:
    """Shakes the points of one pair."""

    def __init__(self, runner: Runner, options: Sequence[ShakeOption]) -> None:
        self.runner, self.options = runner, options
        self._codes: WeakKeyDictionary[Program, str | None] = WeakKeyDictionary()

    def start(self, job: PendingPoint, results: Sequence[Finding]) -> ShakenPoint | None:
        """Have the programs of a point compiled under each option; None where no leaf is worth it."""
        if not any(worth_shaking(result) for result in results):
            return None
        programs = self.runner.sides.programs
        under = {}
        for option in self.options:
            recompiled = {
                name: programs.recompiled(self.runner.pair.name, program, option.settings)
                for name, program in job.programs.items()
            }
            for name in _COMPARED:
                programs.start(recompiled[name])
            under[option] = replace(job, programs=recompiled)
        return ShakenPoint(job, under)

    def finish(self, started: ShakenPoint, results: Sequence[Finding]) -> list[Finding]:
        """Return the results of a point with what each option did to their leaves; a broken contract fails."""
        shaken: dict[str, list[ShakenLeaf]] = {result.place.leaf: [] for result in results}
        usual = self._alone(started.job)
        for option, job in started.under.items():
            for leaf, shaken_leaf in self._under(option, started.job, job, usual, results).items():
                shaken[leaf].append(shaken_leaf)
        return [with_shaken(result, shaken[result.place.leaf]) for result in results]

    def _under(
        self,
        option: ShakeOption,
        usual_job: PendingPoint,
        job: PendingPoint,
        usual: ProgramOutputs,
        results: Sequence[Finding],
    ) -> dict[str, ShakenLeaf]:
        try:
            alone = self._alone(job)
            differ = self._differing(alone, job, results)
            under = self._judged(job, differ) if differ else {}
            changed = any(self._code(job.programs[name]) != self._code(usual_job.programs[name]) for name in _COMPARED)
        except CouldNotRun as error:
            return _errors(option, results, str(error))
        except Exception as error:  # whatever XLA raises under an option; the usual results stand
            return _errors(option, results, one_line(error))
        return outcomes_under(option, results, under, _moved(usual, alone), changed)

    def _differing(self, alone: ProgramOutputs, job: PendingPoint, results: Sequence[Finding]) -> set[str]:
        """Return the leaves whose bits are equal as usual and not here; all where an output has another tree."""
        execution, point = self.runner.execution, job.point
        variant = execution.run(job.programs["variant"], point.variant, job.on_mesh, point.direction)
        compared = compare_outputs(reference=alone, optimized=variant)
        equal = {leaf for leaf, (comparison, _) in compared.items() if comparison.equal}
        unstable = not (alone.repeats and variant.repeats) or variant.replicas
        leaves = {result.place.leaf for result in results if worth_shaking(result)}
        return leaves if unstable else leaves - equal

    def _judged(self, job: PendingPoint, leaves: set[str]) -> dict[str, Finding]:
        """Return the verdicts on some leaves; only now is it asked what the mesh alone does."""
        if "reference" in job.programs:
            self.runner.sides.programs.start(job.programs["reference"])
        run = self.runner.finish(job, leaves)
        return {result.place.leaf: result for result in judge_run(self.runner.pair, job.point, run, "")}

    def _alone(self, job: PendingPoint) -> ProgramOutputs:
        """Return what the reference gave on one device."""
        pair = self.runner.pair
        return self.runner.execution.run(job.programs["alone"], pair.reference_name, job.alone, job.point.direction)

    def _code(self, program: Program) -> str | None:
        if program not in self._codes:
            self._codes[program] = code_digest(program.result())
        return self._codes[program]


def outcomes_under(
    option: ShakeOption,
    usual: Sequence[Finding],
    under: Mapping[str, Finding],
    moved: Mapping[str, bool],
    changed: bool,
) -> dict[str, ShakenLeaf]:
    """Return what an option did, by leaf.

    Args:
        usual: the results without it.
        under: the results with it, of leaves that differ under it.
        moved: by leaf, whether the reference's own bits are other ones.
        changed: whether it changed a program of the point.
    """
    shaken = {}
    for before in usual:
        if not worth_shaking(before):
            continue
        after = under.get(before.place.leaf)
        if after is not None and after.ruling.verdict in ("proved", "bitwise"):
            after = None  # the mesh moves both sides alike
        outcome: Outcome = "robust" if changed or moved.get(before.place.leaf) else "no effect"
        if after is not None and after.ruling.verdict == "error":
            outcome = "error"
        elif after is not None and not (after.comparison.kind in option.aside and after.ruling.verdict == "different"):
            outcome = "fragile" if after.ruling.ok else "broken"
        shown = after if after is not None and outcome in ("fragile", "broken", "error") else None
        shaken[before.place.leaf] = ShakenLeaf(
            option=option.name,
            outcome=outcome,
            verdict="bitwise" if shown is None else shown.ruling.verdict,
            mismatches=0 if shown is None else shown.comparison.mismatches,
            reference_moved=moved.get(before.place.leaf),
            why=None if shown is None else shown.ruling.reason if outcome == "error" else shown.ruling.evidence,
        )
    known = {result.place.leaf for result in usual}
    for leaf in [leaf for leaf, result in under.items() if result.failed and leaf not in known]:
        after, owner = under[leaf], leaf.split(" (replica")[0]  # replicas that differ are leaves of their own
        shaken[owner] = ShakenLeaf(
            option=option.name,
            outcome="broken",
            verdict=after.ruling.verdict,
            mismatches=after.comparison.mismatches,
            why=f"'{leaf}': {after.ruling.evidence}",
        )
    return {leaf: shaken_leaf for leaf, shaken_leaf in shaken.items() if leaf in known}


def with_shaken(result: Finding, shaken: Sequence[ShakenLeaf]) -> Finding:
    """Return a result with what was seen under options; one whose contract an option breaks fails."""
    broken = [leaf for leaf in shaken if leaf.outcome == "broken"]
    if not broken:
        return replace(result, shaken=(*result.shaken, *shaken))
    first = broken[0]
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    reason = (
        f"{result.ruling.verdict} as usual, {first.verdict} under {first.option}{more} ({first.mismatches} of "
        f"{result.comparison.elements} elements differ): the contract requires '{result.ruling.required}', which only "
        "this compiler gives"
    )
    return replace(result.with_ruling(ok=False, reason=reason), shaken=(*result.shaken, *shaken))


def code_digest(compiled: Any) -> str | None:
    """Return a digest of a compiled program: its optimised HLO, and its machine code where the backend hands it out.

    None where the backend hands out neither. Options themselves are not in it, only what they did.
    """
    digest = hashlib.sha256()
    try:
        executable = compiled.runtime_executable()
        (module,) = executable.hlo_modules()
        digest.update(str(identity(HloModule(module.as_serialized_hlo_module_proto())).ordered).encode())
    except (CouldNotRun, RuntimeError, ValueError):  # a backend without HLO: the bits show what an option did
        return None
    try:
        for piece in sorted(object_files(executable.serialize())):  # their order is that of the threads
            digest.update(piece)
    except (RuntimeError, AttributeError):  # noqa: S110
        pass  # without machine code the bits have to show what an option did
    return digest.hexdigest()[:16]


def object_files(serialised: bytes) -> list[bytes]:
    """Return the ELF object files inside a serialised CPU executable; their sizes are read from their own headers."""
    pieces = []
    start = serialised.find(_ELF)
    while start >= 0:
        head = serialised[start : start + 64]
        if len(head) < 64:
            break
        table, entry, count = (int.from_bytes(head[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62)))
        end = start + table + entry * count
        if not 64 <= end - start <= len(serialised) - start:
            break
        pieces.append(serialised[start:end])
        start = serialised.find(_ELF, end)
    return pieces


def _moved(usual: ProgramOutputs, under: ProgramOutputs) -> dict[str, bool]:
    """Return by leaf whether bits are other ones on any input."""
    moved: dict[str, bool] = {}
    for label, tree in usual.trees.items():
        for path, leaf in tree.leaves.items():
            other = under.trees.get(label)
            if other is not None and path in other.leaves:
                moved[path] = moved.get(path, False) or not same_bits(leaf.array, other.leaves[path].array)
    return moved


def _errors(option: ShakeOption, results: Sequence[Finding], why: str) -> dict[str, ShakenLeaf]:
    return {
        result.place.leaf: ShakenLeaf(option=option.name, outcome="error", verdict="error", why=why)
        for result in results
        if worth_shaking(result)
    }
