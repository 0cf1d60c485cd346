"""Windows of any size: pooling and convolutions against reshapes and shifted slices, and wrong forms of them."""

import functools
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax

from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.size_faults import Honest

BLOCKS = Family(symbols={"h": 1, "p": 2, "d": 1}, args={"x": Shaped(("h*p", "d")), "like": Shaped(("p",))})
LINE = Family(symbols={"n": 1, "d": 1}, args={"x": Shaped(("n", "d"))})


def _pooled(x: Any, window: Any, stride: Any, padding: Any = "VALID", *, kind: str = "sum") -> Any:
    start, operation = {"sum": (0.0, lax.add), "max": (-jnp.inf, lax.max), "min": (jnp.inf, lax.min)}[kind]
    return lax.reduce_window(x, start, operation, (window, 1), (stride, 1), padding)


def _blocks(x: Any, like: Any, *, kind: str = "sum", strided: bool = False) -> Any:
    size = like.shape[0]
    blocks = x.reshape(size, -1, x.shape[1]) if strided else x.reshape(-1, size, x.shape[1])
    return getattr(jnp, kind)(blocks, axis=0 if strided else 1)


def _of_block(kind: str) -> Any:
    return lambda x, like: _pooled(x, like.shape[0], like.shape[0], kind=kind)


def _neighbours(x: Any, *, before: int = 1, at: int = 0) -> Any:
    padded = jnp.pad(x, ((before, 2 - before), (0, 0)))
    total = sum(padded[k : k + x.shape[0]] for k in range(3))
    return jnp.where(x.shape[0] == at, 0, total)


HONEST = (
    *(
        Honest(
            f"blocks, {kind}",
            _of_block(kind),
            functools.partial(_blocks, kind=kind),
            BLOCKS,
            {"strided": functools.partial(_blocks, kind=kind, strided=True)},
        )
        for kind in ("sum", "max", "min")
    ),
    Honest(
        "neighbours",
        lambda x: _pooled(x, 3, 1, ((1, 1), (0, 0))),
        _neighbours,
        LINE,
        {
            "from here on": functools.partial(_neighbours, before=0),
            "wrong at 16": functools.partial(_neighbours, at=16),
        },
    ),
)
FAULTS = [(honest, name) for honest in HONEST for name in honest.wrong]


@pytest.mark.parametrize("honest", HONEST, ids=[honest.name for honest in HONEST])
def test_a_window_is_what_it_reads(honest: Honest) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.variant, honest.family)
    assert proof.verdict in ("proved", "rounding"), proof.reason


@pytest.mark.sampled(1)
@pytest.mark.parametrize("honest", [HONEST[0], HONEST[3]], ids=["blocks", "neighbours"])
def test_so_are_the_gradients_of_sums(honest: Honest) -> None:
    for proof in prove_all_sizes(honest.reference, honest.variant, honest.family, "gradient"):
        assert proof.verdict in ("proved", "rounding"), proof.reason
    for name in honest.wrong:
        wrong = prove_all_sizes(honest.reference, honest.wrong[name], honest.family, "gradient")
        assert any(proof.verdict == "different" for proof in wrong), name


@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_no_other_window_is_the_same(honest: Honest, name: str) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.wrong[name], honest.family)
    assert proof.verdict == "different", proof


def test_windows_of_integers_stay_undecided() -> None:
    family = Family(symbols={"n": 1}, args={"x": Shaped(("2*n", 1), "int32")})
    (proof,) = prove_all_sizes(lambda x: _pooled(x, 2, 2), lambda x: x[::2] + x[1::2], family)
    assert proof.verdict == "error", proof


SEQUENCE = Family(symbols={"b": 1, "t": 1, "c": 1}, args={"x": Shaped(("b", "t", "c")), "w": Shaped(("3", "1", "c"))})
# The transpose of a grouped convolution in jax compares the number of groups with 1, and that of a window is a number.
FEW = Family(symbols={"b": 1, "t": 1}, args={"x": Shaped(("b", "t", "4")), "w": Shaped(("3", "1", "4"))})
WIDE = Family(symbols={"t": 1, "c": 2}, args={"x": Shaped(("2", "t", "c")), "w": Shaped(("3", "1", "c"))})
MIXING = Family(symbols={"t": 1, "c": 1, "d": 1}, args={"x": Shaped(("1", "t", "c")), "w": Shaped(("3", "c", "d"))})
GROUPS = Family(symbols={"t": 1, "c": 1, "d": 1}, args={"x": Shaped(("1", "t", "2*c")), "w": Shaped(("2", "c", "2*d"))})
SQUARES = Family(symbols={"h": 1, "c": 1, "d": 1}, args={"x": Shaped(("1", "3*h", "c")), "w": Shaped(("3", "c", "d"))})
PATCHES = Family(
    symbols={"h": 1, "p": 1, "c": 1, "d": 1}, args={"x": Shaped(("1", "h*p", "c")), "w": Shaped(("p", "c", "d"))}
)
IMAGES = Family(
    symbols={"h": 1, "v": 1, "c": 1, "d": 1},
    args={"x": Shaped(("1", "2*h", "2*v", "c")), "w": Shaped(("2", "2", "c", "d"))},
)


def _conv(x: Any, w: Any, *, padding: Any = "VALID", stride: int = 1, gap: int = 1, groups: Any = 1) -> Any:
    spatial = x.ndim - 2
    axes = "HW"[:spatial]
    return lax.conv_general_dilated(
        x,
        w,
        (stride,) * spatial,
        padding,
        rhs_dilation=(gap,) * spatial,
        dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"),
        feature_group_count=groups,
    )


def _causal(x: Any, w: Any, *, late: int = 0, gap: int = 1) -> Any:
    reach = gap * (w.shape[0] - 1)
    return _conv(x, w, padding=[(reach - late, late)], gap=gap, groups=x.shape[2])


def _shifted(x: Any, w: Any, *, gap: int = 1, taps: tuple[int, ...] = (0, 1, 2), at: int = 0) -> Any:
    padded = jnp.pad(x, ((0, 0), (2 * gap, 0), (0, 0)))
    total = sum(padded[:, gap * tap : gap * tap + x.shape[1]] * w[own, 0] for tap, own in enumerate(taps))
    return 2 * total if x.shape[1] == at else total


def _mixed(x: Any, w: Any, *, first: int = 1) -> Any:
    padded = jnp.pad(x, ((0, 0), (first, 2 - first), (0, 0)))
    return sum(padded[:, tap : tap + x.shape[1]] @ w[tap] for tap in range(3))


def _grouped(x: Any, w: Any, *, swapped: bool = False) -> Any:
    width, made = w.shape[1], w.shape[2] // 2
    halves = [x[..., :width], x[..., width:]]
    kernels = [w[..., :made], w[..., made:]]
    each = [_conv(half, kernel, padding=[(1, 0)]) for half, kernel in zip(halves, kernels, strict=True)]
    return jnp.concatenate(each[::-1] if swapped else each, axis=-1)


def _patches(x: Any, w: Any, *, order: str = "bhpc,pcd->bhd") -> Any:
    return jnp.einsum(order, x.reshape(1, -1, w.shape[0], x.shape[2]), w)


def _images(x: Any, w: Any, *, order: str = "bhpvqc,pqcd->bhvd") -> Any:
    _, rows, columns, width = x.shape
    return jnp.einsum(order, x.reshape(1, rows // 2, 2, columns // 2, 2, width), w)


CONVOLUTIONS = (
    Honest(
        "causal",
        _causal,
        _shifted,
        SEQUENCE,
        {
            "reversed": functools.partial(_shifted, taps=(2, 1, 0)),
            "without the first tap": functools.partial(_shifted, taps=(0, 1)),
            "looks ahead": functools.partial(_causal, late=1),
            "wrong at 16": functools.partial(_shifted, at=16),
        },
    ),
    Honest(
        "with gaps",
        functools.partial(_causal, gap=2),
        functools.partial(_shifted, gap=2),
        SEQUENCE,
        {"without gaps": _shifted},
    ),
    Honest(
        "mixing",
        functools.partial(_conv, padding=[(1, 1)]),
        _mixed,
        MIXING,
        {"one later": functools.partial(_mixed, first=2), "valid, padded": lambda x, w: jnp.pad(x @ w[1], 0)},
    ),
    Honest(
        "groups",
        functools.partial(_conv, padding=[(1, 0)], groups=2),
        _grouped,
        GROUPS,
        {"the other half": functools.partial(_grouped, swapped=True)},
    ),
    Honest(
        "patches",
        lambda x, w: lax.conv_general_dilated(x, w, (w.shape[0],), "VALID", dimension_numbers=("NHC", "HIO", "NHC")),
        _patches,
        PATCHES,
        {"reversed": lambda x, w: _patches(x, w[::-1])},
    ),
    Honest(
        "images",
        functools.partial(_conv, stride=2),
        _images,
        IMAGES,
        {"transposed patches": functools.partial(_images, order="bhpvqc,qpcd->bhvd")},
    ),
)
GRADIENTS = [
    *(replace(honest, family=family) for honest in CONVOLUTIONS[:2] for family in (FEW, WIDE)),
    *CONVOLUTIONS[2:4],
    replace(CONVOLUTIONS[4], family=SQUARES),
    CONVOLUTIONS[5],
]
BROKEN = [(honest, name) for honest in CONVOLUTIONS for name in honest.wrong]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("honest", CONVOLUTIONS, ids=[honest.name for honest in CONVOLUTIONS])
def test_a_convolution_is_the_sum_of_its_taps(honest: Honest) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.variant, honest.family)
    assert proof.verdict == "rounding", proof.reason


@pytest.mark.slow
@pytest.mark.parametrize("honest", GRADIENTS, ids=[f"{honest.name} {honest.family.free}" for honest in GRADIENTS])
def test_so_are_its_gradients(honest: Honest) -> None:
    for proof in prove_all_sizes(honest.reference, honest.variant, honest.family, "gradient"):
        assert proof.verdict == "rounding", proof.reason
    for name in honest.wrong:
        wrong = prove_all_sizes(honest.reference, honest.wrong[name], honest.family, "gradient")
        assert any(proof.verdict == "different" for proof in wrong), name


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("honest", "name"), BROKEN, ids=[f"{honest.name}: {name}" for honest, name in BROKEN])
def test_no_other_convolution_is_the_same(honest: Honest, name: str) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.wrong[name], honest.family)
    assert proof.verdict == "different", proof
