"""`samebits audit`: the claims of documents, planted faults, defaults of configurations, and advice from figures."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

from samebits.cli import engine_options, options
from samebits.cli.declared import argument, option
from samebits.rooms import door

if TYPE_CHECKING:
    from samebits.cli.pipeline import CommandRun
    from samebits.report.defaults import DefaultsDocument


@dataclass(frozen=True, kw_only=True)
class ClaimsOptions(options.ReportOptions):
    """The options of `samebits audit claims`."""

    pairs: Annotated[tuple[str, ...], argument("[PAIR]...")] = ()
    claim: Annotated[tuple[str, ...], option("Only this claim, such as 3922.5 or '3922.*'.", "ID")] = ()
    list_: Annotated[bool, option("Say what would run, and run nothing.")] = False
    workers: Annotated[
        int | None, option("How many processes at once; one per processor by default.", "N", least=1)
    ] = None
    no_cache: options.NoCache = False
    whole: options.Whole = False
    root: options.AnyTree = None


@options.command(ClaimsOptions)
def claims(chosen: ClaimsOptions) -> int:
    """Run every claim of the design documents: is it the same, under which condition, and what do compilers save?

    A claim is declared by its pair (documented=...). Its row is filled by `check`, `compile` and tests of that pair,
    run as processes. A claim that is not true is not a failure where a finding says so, with its numbers; a row that is
    otherwise than declared is.

    Exit codes: 0 every row is as declared, 1 one is not, 2 the request or a declaration is wrong, 3 undecided.
    """
    if chosen.list_:
        listed: int = door("cli.claims_run").list_jobs(chosen)
        return listed
    return options.run("claims_run:judge_claims", chosen)


@dataclass(frozen=True, kw_only=True)
class FaultsOptions(engine_options.EngineOptions, options.ReportOptions):
    """The options of `samebits audit faults`."""

    patterns: Annotated[tuple[str, ...], argument("[PAIR]...")] = ()
    fault: Annotated[tuple[str, ...], option("Only the fault of this name; shell patterns allowed.", "NAME")] = ()
    root: options.AnyTree = None
    verbose: options.Verbose = False
    platform: options.Platform = None
    shard: engine_options.ShardOption = None


@options.command(FaultsOptions)
def faults(chosen: FaultsOptions) -> int:
    """Plant the faults of a tree's `suites/faults/` in its pairs and in samebits itself; show what the check says.

    PAIR limits the table to some pairs, shell patterns allowed. Each fault is checked in a worker process: one that
    crashes or hangs has no answer, and the others go on. Exit code 1 when a fault is not caught, or when an honest
    implementation fails where its fault is planted; 3 when one has no answer.
    """
    return options.run("faults_run:plant_faults", chosen, chosen.prepared(shard=chosen.shard))


@dataclass(frozen=True, kw_only=True)
class DefaultsOptions(options.ReportOptions):
    """The options of `samebits audit defaults`."""

    first: Annotated[str, argument()]
    second: Annotated[str, argument()]
    ignore: Annotated[tuple[str, ...], option("Leave a key out; takes shell patterns ('run_*').", "KEY")] = ()


@options.command(DefaultsOptions)
def defaults(chosen: DefaultsOptions) -> int:
    """Compare the defaults of two sources: a schema in Python and a YAML file, or any two.

    FIRST and SECOND are files (.yml, .yaml, .json, .toml) or module:Name of a dataclass, a pydantic model, a msgspec
    struct or a mapping. Keys, types and values must agree; a key given twice in a file is an error.

    Exit codes: 0 they agree, 1 they do not, 2 the request is wrong, 3 nothing was compared.
    """
    return options.run("audit:compare_defaults", chosen)


def compare_defaults(chosen: DefaultsOptions, run: CommandRun) -> DefaultsDocument:
    """Compare the defaults of two sources."""
    from samebits.audit.defaults import compare_sources, read_source
    from samebits.report.defaults import DefaultsDocument

    agreement = compare_sources(read_source(chosen.first), read_source(chosen.second), chosen.ignore)
    return DefaultsDocument(first=chosen.first, second=chosen.second, results=agreement)


SEQ = 8192
"""The default length of a sequence, in tokens: that of the guide's examples."""


@dataclass(frozen=True, kw_only=True)
class ModelSizes:
    """The options that replace a size of the model."""

    HEADING = "Sizes of the model"

    embed: Annotated[int | None, option("Width of the activations.", "N")] = None
    mlp: Annotated[int | None, option("Width inside the MLP, or of one expert.", "N")] = None
    heads: Annotated[int | None, option("Query heads.", "N")] = None
    kv_heads: Annotated[int | None, option("Heads of keys and values; as many by default.", "N")] = None
    head_dim: Annotated[int | None, option("Width of a head; embed over heads by default.", "N")] = None
    layers: Annotated[int | None, option("Decoder layers; 1 by default.", "N")] = None
    experts: Annotated[int | None, option("Experts; 1 is a dense model.", "N")] = None
    experts_per_token: Annotated[int | None, option("How many of them a token goes to.", "N")] = None


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(ModelSizes, options.ReportOptions):
    """The options of `samebits audit advise`."""

    model: Annotated[str | None, option("Such as llama3-70b; its sizes may be replaced one by one.", "NAME")] = None
    target: Annotated[str, option("A chip such as tpu7x, or a slice such as tpu7x:2x2x1.", "T")]
    mesh: Annotated[str, option("Such as tensor4 or fsdp16_tensor2, in devices.", "MESH")]
    axis: Annotated[tuple[str, ...], option("What an axis of the mesh is here, such as tp=tensor.", "OWN=GUIDE")] = ()
    batch: Annotated[int | None, option("Sequences in all; one per device by default.", "N")] = None
    seq: Annotated[int, option("Tokens of a sequence.", "N")] = SEQ
    dtype: Annotated[str, option("Of what is communicated.", "bfloat16|float8")] = "bfloat16"
    layers_per_stage: Annotated[int, option("Of a pipeline.", "N")] = 1
    over: Annotated[tuple[str, ...], option("So many ICI axes, or the die-to-die interface.", "AXIS=N|d2d")] = ()
    no_wraparound: Annotated[bool, option("ICI axes are lines, not rings: half the bandwidth.")] = False
    compile: Annotated[bool, option("Compile the MLP for the slice, and read its communication volume.")] = False

    def sizes(self) -> dict[str, int | None]:
        """Return the sizes of the model by name; those that are None are the known model's."""
        return {field.name: getattr(self, field.name) for field in fields(ModelSizes)}


@options.command(AdviseOptions)
def advise(chosen: AdviseOptions) -> int:
    """Say of each parallelism whether a layer is bound by compute or by communication, from published figures.

    The arithmetic intensity that each parallelism has, and the one that the chip needs; which dimension must be how
    large. With --compile the TPU compiler's collectives stand beside the prediction; no TPU is needed.

    Exit codes: 0 all bound by compute, 1 something is bound by what it moves, 2 the request is wrong, 3 a figure is
    not published.
    """
    return options.run("advise_run:advise_mesh", chosen)
