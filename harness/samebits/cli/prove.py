"""`samebits prove`: what can be shown without running anything, in plain words."""

from __future__ import annotations

from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.common import guarded, require_writable
from samebits.errors import RequestError

MODEL = "model"
"""In place of a pair: a training step of the full model."""

OF_PAIRS = ("variant", "case", "dtype", "mode", "direction")


@click.command()
@click.argument("pairs", nargs=-1, metavar="[PAIR]... | model")
@options.filters
@options.full
@click.option("--shard-mode", multiple=True, metavar="auto|explicit", help="With model: the sharding mode.")
@click.option("--choice", multiple=True, metavar="PAIR=SIDE", help="With model: another side of a pair.")
@click.option("--matrix", metavar="NAME", help="With model: all configurations of a matrix.")
@click.option("--config", metavar="NAME", help="With model: one configuration (samebits train --list shows them).")
@click.option("--defect", metavar="NAME", help="With model: a defect of the model, planted; it must be refuted.")
@click.option(
    "--platform",
    type=click.Choice(["cpu", "tpu", "gpu"]),
    help="The target whose branches of lax.platform_dependent are taken; by default where `samebits check` runs here.",
)
@click.option(
    "--no-assumptions",
    is_flag=True,
    help="Accept no proof that assumes anything beyond shapes and rounding: of comparisons, ranges, given integers.",
)
@options.root
@options.builtin
@click.option("--json", "json", type=click.Path(path_type=Path), metavar="FILE", help="Write the proofs as JSON.")
@guarded
def prove(
    pairs: tuple[str, ...],
    full: bool,
    no_assumptions: bool,
    shard_mode: tuple[str, ...],
    choice: tuple[str, ...],
    matrix: str | None,
    config: str | None,
    defect: str | None,
    platform: str | None,
    root: Path | None,
    json: Path | None,
    **chosen: tuple[str, ...],
) -> int:
    """Prove that variants are their reference: the same movement of data, or the same formulas.

    Both programs are interpreted in NumPy, on meshes of any size, without devices and without compiling. Printed are
    the method, the assumptions and the error probability. Exit code 0 when every leaf reaches its contract by proof:
    the tree of outputs, dtypes and weak types, the formulas, and accuracy as far as it can be derived; 1 when one is
    refuted and no exemption says so; 3 when proof alone does not tell (`samebits check` then runs both sides).

    `samebits prove model` walks one whole training step of the full model, and holds it against the step with all
    references on one device.
    """
    require_writable("--json", json)
    of_model = {"shard-mode": shard_mode, "choice": choice, "matrix": matrix, "config": config, "defect": defect}
    if MODEL in pairs:
        if len(pairs) > 1:
            raise RequestError(f"'{MODEL}' is proved alone; give the pairs in a command of their own")
        wrong = next(
            (name for name in OF_PAIRS if chosen[name]),
            "full" if full else "no-assumptions" if no_assumptions else None,
        )
        if platform is not None:
            raise RequestError(f"--platform is the target of pairs; it does not go with '{MODEL}'")
        if wrong is not None:
            raise RequestError(f"--{wrong} narrows pairs; it does not go with '{MODEL}'")
    elif any(of_model.values()):
        wrong = next(name for name, said in of_model.items() if said)
        raise RequestError(f"--{wrong} is of a full model; write `samebits prove {MODEL} --{wrong} ...`")
    from samebits.host import environment

    environment.prepare()
    if MODEL in pairs:
        from samebits.cli.prove_model_run import run_prove_model
        from samebits.train.prove_request import ProveRequest

        asked = ProveRequest(
            matrix=matrix,
            config=config,
            defect=defect,
            meshes=chosen["mesh"],
            shard_modes=shard_mode,
            choices=choice,
        )
        return run_prove_model(asked, root=root, json=json)
    from samebits.cli.prove_run import run_prove

    request = options.requested(chosen, full)
    return run_prove(pairs, request, root=root, json=json, platform=platform, assuming=not no_assumptions)
