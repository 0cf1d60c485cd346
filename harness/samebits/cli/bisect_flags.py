"""`samebits bisect flags`: the compiler option or pass that separates two sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from samebits.cli import options
from samebits.cli.bisect import PointOptions, SearchOptions
from samebits.cli.declared import argument, option
from samebits.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class FlagsOptions(PointOptions, SearchOptions):
    """The options of `samebits bisect flags`."""

    pair: Annotated[str, argument()]
    mesh: Annotated[str | None, option("Where the variant runs; on one device by default.", "MESH")] = None
    compiler_options: Annotated[
        tuple[str, ...], option("Try these options of XLA, no others.", "NAME=VALUE", "--option")
    ] = ()
    only: Annotated[bool, option("Try the options together, and nothing else.")] = False
    passes: Annotated[bool, option("Try passes even where an option heals.")] = False
    against_backend: Annotated[str | None, option("Another backend in place of the reference.", "NAME")] = None
    devices: options.Devices = None
    root: options.Tree = None


@options.command(FlagsOptions, "flags")
def bisect_flags(chosen: FlagsOptions) -> int:
    """Find which compiler option or HLO pass makes the two sides of PAIR differ in bits.

    Options are tried by prior: excess precision, precision of products, optimisation level, fast math; then passes by
    name, those that changed one of the two programs. That an option did something is proven by the digests of the
    programs, since XLA ignores names that it does not know. What heals is not guilty for that: the distance of both
    sides from float64 says which one came closer.
    """
    chosen.require("variant", "case")
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
