"""`samebits bisect flags`: the compiler option or pass that separates two sides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options
from samebits.cli.bisect import SearchOptions, search_options
from samebits.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class FlagsOptions(SearchOptions):
    """The options of `samebits bisect flags`."""

    pair: str
    variant: str
    case: str
    mesh: str | None
    dtype: str | None
    mode: str | None
    direction: str | None
    leaf: str | None
    compiler_options: tuple[str, ...]
    only: bool
    passes: bool
    against_backend: str | None
    devices: int | None
    root: Path | None


@click.command("flags")
@click.argument("pair")
@click.option("--variant", required=True, metavar="NAME", help="The side that differs from the reference in bits.")
@click.option("--case", required=True, metavar="NAME", help="Of the pair.")
@click.option("--mesh", metavar="MESH", help="Where the variant runs; on one device by default.")
@click.option("--dtype", metavar="NAME", help="The first of the case by default.")
@click.option("--mode", metavar="auto|explicit", help="The first of the case by default.")
@click.option("--direction", metavar="forward|gradient", help="forward by default.")
@click.option("--leaf", metavar="NAME", help="The output that differs; the first by default.")
@click.option(
    "--option", "compiler_options", multiple=True, metavar="NAME=VALUE", help="Try these options of XLA, no others."
)
@click.option("--only", is_flag=True, help="Try the options together, and nothing else.")
@click.option("--passes", is_flag=True, help="Try passes even where an option heals.")
@click.option("--against-backend", metavar="NAME", help="Another backend in place of the reference.")
@click.option("--devices", type=int, metavar="N", help="How many CPU devices; 8 unless the environment says otherwise.")
@click.option("--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree; here by default.")
@search_options
@options.takes(FlagsOptions)
def bisect_flags(chosen: FlagsOptions) -> int:
    """Find which compiler option or HLO pass makes the two sides of PAIR differ in bits.

    Options are tried by prior: excess precision, precision of products, optimisation level, fast math; then passes by
    name, those that changed one of the two programs. That an option did something is proven by the digests of the
    programs, since XLA ignores names that it does not know. What heals is not guilty for that: the distance of both
    sides from float64 says which one came closer.
    """
    if chosen.only and not chosen.compiler_options:
        raise RequestError("--only tries the options given: add --option NAME=VALUE")
    session = chosen.session()
    from samebits.bisect.flags import FlagsRequest
    from samebits.bisect.flags import bisect_flags as search
    from samebits.bisect.point import PointRequest
    from samebits.host import environment

    request = chosen.request(FlagsRequest, point=chosen.request(PointRequest), options=chosen.compiler_options)
    environment.prepare(devices=chosen.devices, platform=chosen.platform)
    _reject_tpu()
    if chosen.against_backend is not None:
        reject_backend(chosen.against_backend)
    return chosen.run("flags", lambda session: search(request, session), session, cached=False)


def _reject_tpu() -> None:
    """Both sides run in a second process, which an option may crash; a TPU has room for one."""
    from samebits.host.accelerator import expected_platform

    if expected_platform() == "tpu":
        raise RequestError(
            "bisect flags runs both sides in a process of their own beside this one, and a TPU belongs to one process "
            "at a time; --platform cpu bisects on the CPU, `samebits check --shake` shakes on the TPU"
        )


def reject_backend(name: str) -> None:
    """Say why two backends cannot be compared.

    Raises:
        RequestError: always; one process runs both sides on one backend.
    """
    import jax

    here = jax.default_backend()
    raise RequestError(
        f"--against-backend {name}: both sides run on {here} here, and two backends are not run in one process; "
        "write goldens on each (samebits golden write) and check them on the other"
    )
