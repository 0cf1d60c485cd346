"""A document made by hand, for the tests of its readers."""

from typing import Any

from samebits.host.environment import Environment
from samebits.report.check import Document, PairHead
from samebits.schema.difference import Witness
from samebits.schema.finding import Finding, summarise
from samebits.schema.result import Problem
from tests.support.findings import finding

ENVIRONMENT = Environment(
    versions={
        "samebits": "0.2.0",
        "python": "3.11.7",
        "jax": "0.10.2",
        "jaxlib": "0.10.2",
        "libtpu": None,
        "numpy": "2.4",
    },
    platform="cpu",
    device_kind="cpu",
    devices=8,
    machine="x86_64",
    instruction_sets=("avx2",),
    cpus=2,
    flags={"XLA_FLAGS": ""},
    settings={"jax_enable_x64": "False"},
)
WITNESS = Witness(
    leaf="out['rows']",
    index=(1, 2),
    reference="6.4375",
    optimized="6.375",
    reference_hex="0x40ce",
    optimized_hex="0x40cc",
    input="special",
)


def result(**given: Any) -> Finding:
    """A result that holds, but for what is given."""
    usual: dict[str, Any] = {
        "pair": "norm",
        "variant": "multiply",
        "case": "small",
        "dtype": "bfloat16",
        "mesh": "data2",
        "mode": "auto",
        "direction": "forward",
        "leaf": "out",
        "verdict": "bitwise",
        "required": "bitwise",
        "ok": True,
        "elements": 40,
        "max_ulp": 0,
        "devices": 2,
        "replay": "samebits check norm --variant multiply",
    }
    return finding(**{**usual, **given})


def toy_result(**given: Any) -> Finding:
    """A result of the variant `twice` of the pair `toy`, on one device; it holds, but for what is given."""
    usual: dict[str, Any] = {
        "pair": "toy",
        "variant": "twice",
        "dtype": "float32",
        "mesh": "data1",
        "elements": 8,
        "devices": 1,
        "bits": "a",
        "replay": "samebits check toy",
    }
    return result(**{**usual, **given})


def different(**given: Any) -> Finding:
    """A result that differs by two ulps in one element."""
    usual: dict[str, Any] = {
        "leaf": "out['rows']",
        "verdict": "different",
        "ok": False,
        "evidence": "not rounding: in float64 the sides still differ",
        "mismatches": 1,
        "max_ulp": 2,
        "kind": "rounding (2 ulps)",
        "witness": WITNESS,
    }
    return result(**{**usual, **given})


def document(*results: Finding, problems: tuple[Problem, ...] = (), **summary: Any) -> Document:
    """A document of these results of the pair `norm`, whose reference is `einsum`."""
    given: dict[str, Any] = {"selected": 3, "product": 12, "seconds": 1.5, **summary}
    return Document(
        environment=ENVIRONMENT,
        pairs=(PairHead(pair="norm", reference="einsum", variants=("multiply",), selected=3, product=12),),
        results=results,
        problems=problems,
        summary=summarise(results, **given),
    )
