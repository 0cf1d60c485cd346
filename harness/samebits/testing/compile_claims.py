"""Compiles one production shape for pytest and checks the pair's claims; programs are cached as by `compile`."""

from __future__ import annotations

import functools

import pytest

from samebits.compile.cache import CompileCache
from samebits.compile.devices import NoCompiler
from samebits.compile.pair import Compiler, compile_pair
from samebits.compile.request import CompileRequest
from samebits.engine.compile_work import compile_replay
from samebits.errors import SamebitsError
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import root_of
from samebits.report.compile import claim_line
from samebits.schema.pair import Pair
from samebits.schema.program_facts import SideBySide
from samebits.schema.target import Target


def check_compiled_claims(pair: Pair, case: str, target: str, direction: str) -> None:
    """Fail where a claim is not as declared or cannot be decided, skip where there is no compiler or no claim."""
    __tracebackhide__ = True
    ask = CompileRequest(targets=(Target(name=target),), cases=(case,), directions=(direction,))
    locator = Locator(name=pair.name, root=str(root_of(pair)))
    try:
        compiled = list(compile_pair(pair, locator, ask, _compiler()))
    except NoCompiler as error:
        pytest.skip(str(error))
    except SamebitsError as error:
        pytest.fail(f"could not compile: {error}", pytrace=False)
    errors = [str(error) for part in compiled for error in part.errors]
    compared: list[SideBySide] = [comparison for part in compiled for comparison in part.comparisons]
    judged = [(comparison.variant, claim) for comparison in compared for claim in comparison.expectations]
    lines = [claim_line(variant, claim) for variant, claim in judged if not claim.ok]
    if errors or lines:
        # Every side: a claim may name another one, without which it is not judged.
        again = compile_replay(locator, ask, ("--target", target, "--case", case, "--direction", direction))
        pytest.fail("\n".join([*errors, *lines, f"  replay    {again}"]), pytrace=False)
    if not judged:
        pytest.skip(f"{pair.name}: no claim speaks of {case} on {target}, {direction}")


@functools.cache
def _compiler() -> Compiler:
    """Return one for the session: programs that sides share are compiled once."""
    return Compiler(CompileCache())
