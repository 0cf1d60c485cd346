"""`samebits prove`: what can be shown without running anything."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from samebits.cli import engine_options, options
from samebits.cli.compare import CompareFunctionsOptions, FunctionsOptions, TwoFunctions
from samebits.cli.declared import argument, given, option, spelled
from samebits.errors import RequestError
from samebits.schema.target import Target

PROPERTY_TAKES = ("--arg", "--static", "--forward", "--mesh", "--no-assumptions")
"""What may be given with --property."""

MODEL = "model"
"""In place of a pair: a training step of the full model."""


@dataclass(frozen=True, kw_only=True)
class ModelSteps:
    """Which steps of the full model are proved."""

    HEADING = "With model"

    shard_mode: Annotated[tuple[str, ...], option("The sharding mode.", "auto|explicit")] = ()
    choice: Annotated[tuple[str, ...], option("Another side of a pair.", "PAIR=SIDE")] = ()
    matrix: Annotated[str | None, option("All configurations of a matrix.", "NAME")] = None
    config: Annotated[str | None, option("One configuration (samebits train --list shows them).", "NAME")] = None
    defect: Annotated[str | None, option("Plant this defect; it must be refuted.", "NAME")] = None


@dataclass(frozen=True, kw_only=True)
class ProveOptions(
    ModelSteps,
    FunctionsOptions,
    options.SizedFilters,
    engine_options.EngineOptions,
    options.ContinuousIntegration,
    options.ReportOptions,
):
    """The options of `samebits prove`."""

    pairs: Annotated[
        tuple[str, ...], argument("[PAIR]... | MODULE:FUNCTION MODULE:FUNCTION | MODULE:FUNCTION --property P | model")
    ] = ()
    property_: Annotated[
        tuple[str, ...],
        option("What one function must not read, as in causal, 'window(size=4)', 'packed(segment_ids=ids)'.", "P"),
    ] = ()
    platform: Annotated[
        Literal["cpu", "tpu", "gpu"] | None,
        option(
            "The platform whose lax.platform_dependent branches are taken; by default that of `samebits check` here."
        ),
    ] = None
    no_assumptions: options.NoAssumptions = False
    all_sizes: Annotated[
        bool,
        option(
            "Prove for every size of the cases at once, in auto mode where a case has it; where code asks for the "
            "mesh, for each number of devices up to 16."
        ),
    ] = False
    compiled: Annotated[bool, option("Prove what the compiler of --target made of each side.")] = False
    target: Annotated[str | None, option("With --compiled: a slice such as v5p:2x2x1.", "T")] = None
    verbose: options.Verbose = False
    root: options.AnyTree = None

    def of_pairs(self) -> list[str]:
        """Return the options of declared pairs that were given."""
        return given(self, options.Filters, options.SizedFilters)

    def of_functions(self) -> CompareFunctionsOptions | None:
        """Return the two functions, in the options of `samebits compare`; None where pairs are proved."""
        names = given(self, TwoFunctions, FunctionsOptions)
        if self.property_:
            return self._of_property(names)
        if not names:
            return None  # a pair may be named MODULE:PAIR too
        if len(self.pairs) != 2 or any(":" not in name for name in self.pairs):
            raise RequestError(
                f"{names[0]} is of two functions; write `samebits prove MODULE:FUNCTION "
                "MODULE:FUNCTION --arg x=f32[8,16]`"
            )
        single = [f"--{name}" for name in ("mesh", "mode") if len(getattr(self, name)) <= 1]
        wrong = [name for name in self.of_pairs() if name not in single]
        if wrong:
            raise RequestError(f"{wrong[0]} narrows pairs; of two functions give one --mesh, one --mode")
        self.require_no_engine("prove MODULE:FUNCTION MODULE:FUNCTION")
        return self._functions()

    def _of_property(self, names: list[str]) -> CompareFunctionsOptions:
        """Return the one function of which a property is proved, in the place of both."""
        if len(self.pairs) != 1 or ":" not in self.pairs[0]:
            raise RequestError(
                "--property is of one function; write `samebits prove MODULE:FUNCTION --property causal --arg "
                "x=f32[2,16,32]`, or declare Pair(properties=(Property('causal'),))"
            )
        more = [f"--{spelled(name)}" for name in ("all_sizes", "compiled", "platform") if getattr(self, name)]
        wrong = [name for name in (*names, *self.of_pairs(), *more) if name not in PROPERTY_TAKES]
        if wrong or len(self.mesh) > 1:
            name = next(iter(wrong), "a second --mesh")
            raise RequestError(f"{name} does not go with --property, which takes {', '.join(PROPERTY_TAKES)}")
        self.require_no_engine("prove MODULE:FUNCTION --property")
        return self._functions()

    def _functions(self) -> CompareFunctionsOptions:
        return CompareFunctionsOptions(
            reference=self.pairs[0],
            variant=self.pairs[-1],
            mesh=next(iter(self.mesh), "none"),
            mode=next(iter(self.mode), "auto"),
            no_assumptions=self.no_assumptions,
            platform=self.platform,
            **{field.name: getattr(self, field.name) for field in fields(FunctionsOptions)},
        )


@options.command(ProveOptions)
def prove(chosen: ProveOptions) -> int:
    """Prove that variants are their reference: the same movement of data, or the same formulas.

    Both programs are interpreted in NumPy, on meshes of any size, without devices and without compiling. Each proof is
    printed with method, assumptions and error probability, or as one line if they do not fit on one screen. Exit code 0
    when every leaf reaches its contract by proof: output tree, dtypes and weak types, the formulas, and accuracy as far
    as it can be derived; 1 when one is refuted and no exemption covers it; 3 when proof alone cannot decide
    (`samebits check` then runs both sides).

    With --compiled, what the compiler of --target made of each side is proved against what was written: on every
    partition, forward and gradient, on each mesh of the target's size.

    Two functions, MODULE:FUNCTION each, are proved with --arg and the other options of `samebits compare`.

    One function with --property is proved not to read what it must not, forward and gradient; exit code 1 where two
    runs that differ in what must not be read give other outputs, 3 where it is undecided. P is `causal`, `window`,
    `batch_rows`, `microbatches`, `packed`, `padding`, `gradient_stops`, `gradient_reaches` or `independent(of='out[:,
    t]', on='x[:, t+1:]')`, with the options of `samebits.causal` and so on; it can be repeated.

    `samebits prove model` interprets one whole training step of the full model, and compares it with the step of all
    references on one device. Like points, steps are proved in worker processes: one that crashes or hangs is
    undecided, and the others are proved.
    """
    _require_consistent(chosen)
    if chosen.compiled != (chosen.target is not None):
        raise RequestError("--compiled and --target go together: --compiled --target v5p:2x2x1")
    functions = chosen.of_functions()
    if chosen.compiled and (functions is not None or MODEL in chosen.pairs or chosen.all_sizes):
        raise RequestError(
            "--compiled is of declared pairs at their sizes: leave out two functions, model, --all-sizes"
        )
    from samebits.host import environment

    target = None if chosen.target is None else Target(name=chosen.target)
    environment.prepare(platform=chosen.driver_platform(None), devices=None if target is None else target.cpu_devices)
    settings = chosen.engine_settings()
    if MODEL in chosen.pairs:
        return options.run("prove_model_run:prove_model", chosen, settings)
    if chosen.property_:
        return options.run("prove_property_run:prove_properties", chosen, functions)
    if functions is not None:
        return options.run("compare_run:prove_functions", chosen, functions)
    return options.run("prove_run:prove_pairs", chosen, settings)


def _require_consistent(chosen: ProveOptions) -> None:
    """Reject options of pairs for the model, and options of the model for pairs."""
    if MODEL not in chosen.pairs:
        for name in given(chosen, ModelSteps):
            raise RequestError(f"{name} is of a full model; write `samebits prove {MODEL} {name} ...`")
        if chosen.all_sizes and chosen.no_assumptions:
            raise RequestError("--all-sizes prints what it assumes of sizes; it does not go with --no-assumptions")
        return
    if len(chosen.pairs) > 1:
        raise RequestError(f"'{MODEL}' is proved alone; give the pairs in a command of their own")
    if chosen.platform is not None:
        raise RequestError(f"--platform is the target of pairs; it does not go with '{MODEL}'")
    more = [f"--{spelled(name)}" for name in ("no_assumptions", "all_sizes") if getattr(chosen, name)]
    for name in [*chosen.of_pairs(), *more]:
        if name != "--mesh":
            raise RequestError(f"{name} narrows pairs; it does not go with '{MODEL}'")
    chosen.require_none("prove model")
