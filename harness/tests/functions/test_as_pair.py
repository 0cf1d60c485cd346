"""Two functions as a declaration: names, and calls by position."""

from samebits.functions.as_pair import PositionalCall, pair_of
from samebits.functions.request import compare_request
from tests.functions import specimens as f


def test_positional_arguments_have_the_names_of_the_parameters() -> None:
    pair = pair_of(compare_request(f.dense, f.einsum, (f.parameters(), f.rows()), {}))
    assert list(pair.args) == ["params", "x"]  # type: ignore[arg-type]
    assert pair.name == "dense_einsum"


def test_arguments_without_names_are_numbered() -> None:
    pair = pair_of(compare_request(lambda *xs: xs[0], lambda *xs: xs[1], (f.rows(), f.rows()), {}))
    assert list(pair.args) == ["arg0", "arg1"]  # type: ignore[arg-type]


def test_the_same_function_is_the_same_side() -> None:
    pairs = [pair_of(compare_request(f.softmax, f.shifted, (f.rows(),), {})) for _ in range(2)]
    assert pairs[0].reference is pairs[1].reference


def test_a_call_passes_by_position_and_by_other_names() -> None:
    call = PositionalCall(lambda a, b, *, c: (a, b, c), ("x", "y"), {"z": "c"}, "f")
    assert call(y=2, x=1, z=3) == (1, 2, 3)
