"""Smaller arrays that stand for large ones: faults that only large arrays have, and what is the same but for sizes."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.check import evidence, execution
from samebits.check.error_groups import LeafSample
from samebits.check.rounding import gather_evidence
from samebits.check.runner import Runner
from samebits.check.smaller_sizes import LARGE, largest, same_but_for_sizes
from samebits.check.verdict import judge_run
from samebits.host import memory
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.rounding_error.estimate import estimate_errors
from samebits.programs.asked import recorded
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(1024, 1024)).astype(np.float32)
WIDE = RNG.normal(size=(64, 1024)).astype(np.float32)
LONG = RNG.normal(size=131072).astype(np.float32)
TABLE = RNG.normal(size=(70000, 2)).astype(np.float32)
IDS = RNG.integers(0, 70000, 4096).astype(np.int32)
POSITIONS = np.arange(1024, dtype=np.int32)
HEADS = RNG.normal(size=(16, 128, 32)).astype(np.float32)
LABELS = np.linspace(0, 4095, 16).astype(np.int32)
LOGITS = RNG.normal(size=(16, 4096)).astype(np.float32)

Function = Callable[..., Any]


class Case(NamedTuple):
    """Two functions at large arrays.

    Args:
        name: of the case.
        reference, variant: the functions.
        args: with which they are called.
    """

    name: str
    reference: Function
    variant: Function
    args: tuple[Any, ...]

    def checked(self) -> samebits.Comparing:
        """Return the comparison of both."""
        return samebits.check(self.reference, self.variant, *self.args)


def softmax(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, -1)


def written_out(x: jax.Array) -> jax.Array:
    e = jnp.exp(x - jnp.max(x, -1, keepdims=True))
    return e * (1 / jnp.sum(e, -1, keepdims=True))


def rms_norm(x: jax.Array, eps: float = 1e-6) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


def blockwise_sum(x: jax.Array, blocks: int = 8, *, left_out: int = 0) -> jax.Array:
    parts = x.reshape(x.shape[0], blocks, -1)
    return jnp.stack([parts[:, number].sum(-1) for number in range(blocks - left_out)]).sum(0)


def carried(x: jax.Array, *, lost_from: int) -> jax.Array:
    """Return cumulative sums by blocks, of which those from one on lose what came before."""
    blocks = jnp.cumsum(x.reshape(-1, 1024), -1)
    before = jnp.cumsum(blocks[:, -1]) - blocks[:, -1]
    kept = jnp.where(jnp.arange(before.shape[0]) < lost_from, before, 0)
    return (blocks + kept[:, None]).reshape(-1)


def rotated(x: jax.Array, positions: jax.Array, dtype: Any = jnp.float32) -> jax.Array:
    angles = positions.astype(dtype).astype(jnp.float32)[:, None] * 0.5 ** jnp.arange(8)
    return x[:, :8] * jnp.cos(angles) - x[:, 8:16] * jnp.sin(angles)


def windowed(x: jax.Array, width: int = 512) -> jax.Array:
    distance = jnp.arange(x.shape[0])[:, None] - jnp.arange(x.shape[1])
    return jnp.where((distance >= 0) & (distance < width), x, 0).sum(-1)


@jax.custom_vjp
def tripled(x: jax.Array) -> jax.Array:
    return 3 * x


tripled.defvjp(lambda x: (3 * x, None), lambda _, g: (3 * g.at[..., -128:].set(0),))


def accumulated(x: jax.Array, count: int) -> jax.Array:
    total: jax.Array = jax.lax.fori_loop(0, count, lambda i, sums: sums + x[:, i], jnp.zeros(x.shape[0], x.dtype))
    return total


def summed_in_bfloat16(x: jax.Array) -> jax.Array:
    return jnp.asarray(accumulated(x.astype(jnp.bfloat16), x.shape[1]), x.dtype)


def cross_entropy(x: jax.Array, labels: jax.Array) -> jax.Array:
    return -jnp.take_along_axis(jax.nn.log_softmax(x, -1), labels[:, None], 1)[:, 0]


def one_hot_loss(x: jax.Array, labels: jax.Array, vocabulary: int | None = None) -> jax.Array:
    hot = jnp.arange(x.shape[1]) == labels[:, None] % (vocabulary or x.shape[1])
    return jax.nn.logsumexp(x, -1) - jnp.where(hot, x, 0).sum(-1)


def late_row(x: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(x.shape[0])[:, None] == 900, x, softmax(x))


def in_bfloat16(x: jax.Array) -> jax.Array:
    return x.astype(jnp.bfloat16).astype(x.dtype)


def rolled_late(x: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(x.size) < 65536, x, jnp.roll(x, 1)) + 1


FAULTS = [
    Case("one element of a million", softmax, lambda x: softmax(x).at[700, 300].add(1e-4), (SQUARE,)),
    Case("the last block is left out", lambda x: x.sum(-1), lambda x: blockwise_sum(x, left_out=1), (WIDE,)),
    Case(
        "from an index above 2^16 on", jnp.sin, lambda x: jnp.where(jnp.arange(x.size) > 65540, 0, jnp.sin(x)), (LONG,)
    ),
    Case("rows are numbered by 16 bits", lambda t, i: t[i] * 2, lambda t, i: t[i & 0xFFFF] * 2, (TABLE, IDS)),
    Case("a branch on the size", softmax, lambda x: softmax(x) * (1.001 if x.shape[0] > 500 else 1), (SQUARE,)),
    Case("another epsilon", rms_norm, lambda x: rms_norm(x, 1e-4), (WIDE,)),
    Case("a carry that is lost late", jnp.cumsum, lambda x: carried(x, lost_from=100), (LONG,)),
    Case("positions in bfloat16", rotated, lambda x, p: rotated(x, p, jnp.bfloat16), (SQUARE, POSITIONS)),
    Case("a window of one less", windowed, lambda x: windowed(x, 511), (SQUARE,)),
    Case("a gradient without its last block", lambda x: 3 * x, tripled, (WIDE,)),
    Case("one step too few", lambda x: x.sum(-1), lambda x: accumulated(x, x.shape[1] - 1), (WIDE,)),
    Case("the other axis of a square", lambda x: jnp.cos(x).sum(0), lambda x: jnp.cos(x).sum(1), (SQUARE,)),
    Case("transposed", lambda x: jnp.tanh(x), lambda x: jnp.tanh(x).T, (SQUARE,)),
    Case("late heads are swapped", lambda x: x * 2, lambda x: x.at[8:10].set(x[8:10][::-1]) * 2, (HEADS,)),
    Case(
        "the last chunk of a vocabulary",
        lambda x: jax.nn.logsumexp(x, -1),
        lambda x: jax.nn.logsumexp(jnp.where(jnp.arange(4096) < 4000, x, -1e30), -1),
        (LOGITS,),
    ),
    Case("a late row is not normalised", softmax, late_row, (SQUARE,)),
    Case("a sum in bfloat16", lambda x: x.sum(-1), summed_in_bfloat16, (WIDE,)),
    Case("the scale of another width", lambda x: x / jnp.sqrt(x.shape[-1]), lambda x: x / jnp.sqrt(1023.0), (WIDE,)),
    Case("half of a product in bfloat16", lambda x: x @ x.T, lambda x: x @ in_bfloat16(x).T, (WIDE,)),
    Case("rolled by one beyond the middle", lambda x: x + 1, rolled_late, (LONG,)),
    Case("clipped where it is large", lambda x: x * 2, lambda x: jnp.clip(x, -4.4, 4.4) * 2, (LONG,)),
    Case(
        "labels of a smaller vocabulary",
        cross_entropy,
        lambda x, labels: one_hot_loss(x, labels, 4000),
        (LOGITS, LABELS),
    ),
    Case("a mean over one more", lambda x: x.mean(-1), lambda x: x.sum(-1) / (x.shape[-1] + 1), (WIDE,)),
]
"""At large arrays the variant is wrong, in some cases at these alone."""

HONEST = [
    Case("softmax written out", softmax, written_out, (SQUARE,)),
    Case("a sum by blocks", lambda x: x.sum(-1), blockwise_sum, (WIDE,)),
    Case("a size that is written down", lambda x: x.mean(-1), lambda x: x.sum(-1) / 1024, (WIDE,)),
    Case("carries", jnp.cumsum, lambda x: carried(x, lost_from=1000), (LONG,)),
    Case("rotated in another order", rotated, lambda x, p: 0.5 * (2 * rotated(x, p)), (SQUARE, POSITIONS)),
    Case("products in another order", lambda x, y: (x @ y) @ y, lambda x, y: x @ (y @ y), (WIDE, SQUARE)),
    Case("rows by number", lambda t, i: t[i] * 2, lambda t, i: (2 * t)[i], (TABLE, IDS)),
    Case("a loss by one-hot labels", cross_entropy, one_hot_loss, (LOGITS, LABELS)),
    Case("the same program", lambda x, y: x @ y, lambda x, y: jnp.einsum("ij,jk->ik", x, y), (WIDE, SQUARE)),
]
"""Both are the same at every size, but for rounding."""


QUICK = frozenset(
    {"the last block is left out", "rows are numbered by 16 bits", "another epsilon", "late heads are swapped"}
)
"""Faults that every run plants; the others are slow."""


def _params(cases: Sequence[Case]) -> list[Any]:
    marks = {case.name: () if case.name in QUICK or case in HONEST[1:5] else pytest.mark.slow for case in cases}
    return [pytest.param(case, id=case.name.replace(" ", "_"), marks=marks[case.name]) for case in cases]


@pytest.mark.parametrize("case", _params(FAULTS))
def test_a_fault_of_large_arrays_is_different(case: Case) -> None:
    compared = case.checked()
    assert compared.verdict == "different", [leaf.ruling for leaf in compared.leaves]


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # of labels beyond the vocabulary
@pytest.mark.parametrize("case", _params(HONEST))
def test_large_arrays_of_honest_functions_pass(case: Case) -> None:
    compared = case.checked()
    assert compared.verdict in ("rounding", "bitwise", "proved"), [leaf.ruling for leaf in compared.leaves]


PROVED = [case for case in FAULTS if case.name in ("from an index above 2^16 on", "a carry that is lost late")]


@pytest.mark.parametrize("case", PROVED, ids=lambda case: case.name.replace(" ", "_"))
def test_a_fault_of_large_arrays_is_refuted(case: Case) -> None:
    assert samebits.prove(case.reference, case.variant, *case.args).verdict == "different"


def test_large_arrays_are_proved_at_smaller_sizes() -> None:
    compared = samebits.prove(lambda x: x.sum(-1), blockwise_sum, WIDE)
    assert compared.verdict == "rounding"
    assert all("sizes" in [each.word for each in leaf.proof.assumptions] for leaf in compared.leaves)


def test_without_assumptions_large_arrays_are_taken_whole() -> None:
    compared = samebits.check(lambda x: x.sum(-1), blockwise_sum, WIDE, assumptions=False)
    assert all("sizes" not in [each.word for each in leaf.proof.assumptions] for leaf in compared.leaves)


def test_a_verdict_names_the_sizes_that_stand_for_others() -> None:
    (leaf, *_) = samebits.check(lambda x: x.sum(-1), blockwise_sum, WIDE, gradients=False).leaves
    (assumption,) = [each for each in leaf.proof.assumptions if each.word == "sizes"]
    assert "(1024 as 32, 64 as 8)" in assumption.text


def grouped_scores(x: jax.Array, wq: jax.Array, wk: jax.Array) -> jax.Array:
    q, k = (x @ wq).reshape(len(x), 8, -1), (x @ wk).reshape(len(x), 2, -1)
    return (q * jnp.repeat(k, 4, 1)).sum(-1)


def fused_scores(x: jax.Array, wq: jax.Array, wk: jax.Array) -> jax.Array:
    q, k = jnp.split(x @ jnp.concatenate([wq, wk], 1), [wq.shape[1]], 1)
    return jnp.einsum("thd,thd->th", q.reshape(len(x), 8, -1), jnp.repeat(k.reshape(len(x), 2, -1), 4, 1))


def test_sizes_that_are_multiples_of_each_other_go_together() -> None:
    args = [RNG.normal(size=shape).astype(np.float32) for shape in ((8, 512), (512, 512), (512, 128))]
    (leaf,) = samebits.check(grouped_scores, fused_scores, *args, gradients=False).leaves
    texts = [each.text for each in leaf.proof.assumptions if each.word == "sizes"]
    assert leaf.ruling.ok and "(512 as 16, 128 as 4)" in "".join(texts)


def total_scores(x: jax.Array, wq: jax.Array, wk: jax.Array) -> jax.Array:
    return jax.nn.logsumexp(grouped_scores(x, wq, wk), 0)


def total_by_blocks(x: jax.Array, wq: jax.Array, wk: jax.Array, *, fault: bool = False) -> jax.Array:
    """The same over blocks of 64 rows, each total in units of the largest score so far."""

    def add_block(carry: tuple[jax.Array, jax.Array], rows: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        scores = fused_scores(rows, wq, wk)
        most = jnp.maximum(carry[0], scores.max(0))
        kept = 1.0 if fault else jnp.exp(carry[0] - most)
        return (most, carry[1] * kept + jnp.exp(scores - most).sum(0)), None

    blocks = x.reshape(-1, min(len(x), 64), x.shape[1])
    (most, total), _ = jax.lax.scan(add_block, (jnp.full(8, -1e30), jnp.zeros(8)), blocks)
    return most + jnp.log(total)


@pytest.mark.parametrize("fault", [False, True])
def test_smaller_sizes_keep_several_blocks(fault: bool) -> None:
    """Widths go together, since they are split into heads; rows stay two blocks of their own length."""
    args = [RNG.normal(size=shape).astype(np.float32) for shape in ((256, 512), (512, 512), (512, 128))]
    blocks = partial(total_by_blocks, fault=fault)
    (leaf,) = samebits.check(total_scores, blocks, *args, gradients=False).leaves
    if fault:
        assert leaf.ruling.verdict == "different"
    else:
        texts = "".join(each.text for each in leaf.proof.assumptions if each.word == "sizes")
        assert leaf.ruling.ok and "(512 as 16, 128 as 4, 256 as 128)" in texts


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")
def test_labels_index_a_vocabulary_that_is_smaller_too() -> None:
    compared = samebits.check(cross_entropy, one_hot_loss, LOGITS, LABELS, gradients=False)
    assert compared.verdict in ("bitwise", "rounding")
    assert ["sizes" in [each.word for each in leaf.proof.assumptions] for leaf in compared.leaves] == [True]


def test_each_side_is_bounded_once_at_full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: Counter[str] = Counter()
    honest = Interpreter.__call__

    def counting(self: Interpreter, closed: Any, *args: Any) -> Any:
        if largest(closed) >= LARGE:
            counted[type(self.domain).__name__] += 1
        return honest(self, closed, *args)

    monkeypatch.setattr(Interpreter, "__call__", counting)
    assert samebits.check(lambda x: x.sum(-1), blockwise_sum, WIDE, gradients=False).verdict == "rounding"
    bounds = counted.pop("RoundingDomain")
    assert bounds == 2 and sum(counted.values()) <= 2 * 2, counted
    assert samebits.check(lambda x: x.sum(-1), blockwise_sum, WIDE, gradients=False, assumptions=False).leaves
    assert sum(counted.values()) > 2 * 2  # where smaller sizes do not stand for these


def test_further_inputs_are_bounded_for_the_leaf_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded: Counter[tuple[str, ...]] = Counter()

    def counting(program: Any, question: Any, platform: str) -> Any:
        bounded[tuple(question.outputs)] += 1
        return estimate_errors(program, question, platform)

    monkeypatch.setattr(evidence, "estimate_errors", counting)
    monkeypatch.setattr(evidence, "FARTHER", 0.0)  # so that every leaf asks at every input
    compared = samebits.check(
        lambda x: {"rows": x.sum(-1), "columns": x.sum(0)},
        lambda x: {"rows": blockwise_sum(x), "columns": blockwise_sum(x.T)},
        WIDE,
        gradients=False,
    )
    assert compared.verdict == "rounding"
    columns, rows = "out['columns']", "out['rows']"
    assert bounded == {(columns, rows): 2, (columns,): 2, (rows,): 2}


def test_memory_that_is_not_there_is_said_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "total_memory", lambda: 1 << 20)
    compared = samebits.check(lambda x: x.sum(-1), blockwise_sum, WIDE, gradients=False)
    assert compared.verdict == "rounding" and "of the rounding bound" not in str(compared.leaves[0].ruling.evidence)
    assert any("bounds of rounding take about" in text and "float64 is executed" in text for text in compared.notes)


@pytest.mark.parametrize(
    ("total", "verdicts"), [(1 << 20, {"forward": "rounding", "gradient": "error"}), (1 << 21, {})]
)
def test_outputs_beyond_the_memory_are_not_computed(
    total: int, verdicts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradients of a side at eight inputs are 2 MiB: 64 rows of 1024 floats each."""
    monkeypatch.setattr(execution, "total_memory", lambda: total)
    monkeypatch.setattr(execution, "GIB", 0)
    compared = samebits.check(lambda x: x.sum(-1) ** 2, lambda x: blockwise_sum(x) ** 2, WIDE)
    by_direction = {leaf.place.direction: leaf for leaf in compared.leaves}
    assert {direction: leaf.ruling.verdict for direction, leaf in by_direction.items()} == (
        verdicts or {"forward": "rounding", "gradient": "rounding"}
    )
    said = "the outputs of one side at 8 inputs take 0.0 GiB, and there are 0.0 GiB; compare smaller arrays"
    assert (said in str(by_direction["gradient"])) is bool(verdicts)


def test_a_note_says_how_much_memory_bounds_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "GIB", 0)
    compared = samebits.check(lambda x: x.sum(-1), blockwise_sum, WIDE, gradients=False)
    assert "of the rounding bound" in str(compared.leaves[0].ruling.evidence)
    assert [
        text for text in compared.notes if text.startswith("bounds of rounding take about") and "executed" not in text
    ]


def test_large_arrays_that_are_only_moved_are_proved_by_labels() -> None:
    (leaf,) = samebits.check(lambda x: x[::-1], lambda x: jnp.flip(x, 0) + 0 * x, WIDE, gradients=False).leaves
    assert leaf.ruling.verdict != "proved"
    (leaf,) = samebits.check(lambda x: x.T[::-1], lambda x: jnp.flip(x, 1).T, WIDE, gradients=False).leaves
    assert leaf.ruling.verdict == "proved" and "move data" in (leaf.ruling.evidence or "")


class Allocator:
    """A C library that records what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def mallopt(self, option: int, size: int) -> int:
        self.calls.append((option, size))
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.calls.append((pad,))
        return 1


def test_freed_memory_is_kept_inside_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = Allocator()
    monkeypatch.setattr(memory, "_glibc", lambda: allocator)
    inside: list[tuple[int, ...]] = []

    def fail() -> None:
        with memory.kept_memory():
            inside.extend(allocator.calls)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert inside == [(-3, 1 << 30), (-1, 1 << 30)]
    assert allocator.calls[2:] == [(-3, 32 << 20), (-1, 32 << 20), (0,)]
    monkeypatch.setattr(memory, "_glibc", lambda: None)  # as on macOS
    with memory.kept_memory():
        pass


SUMMED = samebits.Pair(
    name="summed",
    reference=lambda x: x.sum(-1) * 2,
    variants={"late": lambda x: (2 * x).sum(-1)},
    args=lambda case, mesh: {"x": samebits.Arg(shape=tuple(case.sizes.values()))},
    cases=(
        samebits.Case(id="row", sizes={"columns": 3}),
        samebits.Case(id="large", sizes={"rows": 64, "columns": 1024}),
    ),
    dtypes=("float32",),
    gradients=False,
    contracts=(samebits.Contract(lowest="rounding", reason="for the sake of the test"),),
)


def test_cases_of_other_ranks_stay_as_they_are() -> None:
    words = {leaf.place.case: [each.word for each in leaf.proof.assumptions] for leaf in samebits.check(SUMMED).leaves}
    assert {case: "sizes" in each for case, each in words.items()} == {"row": False, "large": True}


def test_what_smaller_sizes_ask_is_not_asked_by_the_point() -> None:
    runner = Runner(SUMMED, Programs(threads=1))
    (point,) = plan(SUMMED, Request(variants=("late",), cases=("large",)), 1).points
    job = runner.start(point)
    with recorded(job.asked):
        (finding,) = judge_run(SUMMED, point, runner.finish(job), "")
    answers = [answer for (what, *_), answer in job.asked.answers.items() if what == "args"]
    assert "sizes" in [each.word for each in finding.proof.assumptions]
    assert [{name: arg.shape for name, arg in args.items()} for _, args in answers] == [{"x": WIDE.shape}]


def test_a_leaf_without_a_finite_number_has_no_loss() -> None:
    nothing = np.full(8, np.nan, np.float32)
    sample = LeafSample(nothing, nothing, nothing.astype(float), nothing.astype(float))
    assert gather_evidence({"ordinary": sample}, limit=None, brief=True, log2_error=-60.0).is_rounding


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (lambda x: jnp.sum(jnp.sin(x)) / x.size, True),
        (lambda x: jnp.sum(jnp.cos(x)) / x.size, False),
        (lambda x: jnp.sum(jnp.sin(x)) / x.size + 0, False),
        (lambda x: jnp.sum(jnp.sin(x) if len(x) > 500 else jnp.sin(-x)) / x.size, False),
        (lambda x: x.size / jnp.sum(jnp.sin(x)), False),
    ],
)
def test_programs_are_the_same_but_for_sizes(other: Function, same: bool) -> None:
    def mean_of_sines(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x)) / x.size

    large = jax.make_jaxpr(mean_of_sines)(jax.ShapeDtypeStruct((1024,), np.float32))
    small = jax.make_jaxpr(other)(jax.ShapeDtypeStruct((8,), np.float32))
    assert same_but_for_sizes(large, small) is same


def sum_by_rows(x: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda carry, row: (carry + row.sum(), None), jnp.zeros(()), x.reshape(-1, 16))[0]


@pytest.mark.parametrize(
    ("function", "size", "same"),
    [
        (sum_by_rows, 32, True),
        (sum_by_rows, 16, False),  # one step, which carries nothing on
        (lambda x: 2 * x.reshape(8, -1), 16, True),
        (lambda x: 2 * x.reshape(8, -1), 8, False),  # a dimension of 1, which is broadcast
    ],
)
def test_single_steps_and_dimensions_of_one_stand_for_no_others(function: Function, size: int, same: bool) -> None:
    large, small = (jax.make_jaxpr(function)(jax.ShapeDtypeStruct((n,), np.float32)) for n in (1024, size))
    assert same_but_for_sizes(large, small) is same
