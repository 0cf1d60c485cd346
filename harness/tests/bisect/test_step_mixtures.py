"""The points of a search for a tensor: what is taken, in which order, and who computed what is wrong."""

import pytest

from samebits.bisect.tensors import StepMixture, forms, key, label, origin, whole_step
from samebits.train.taps import Nesting, Tensor


def test_parts_that_call_others_come_after_those_that_do_not() -> None:
    names = ["moe@layer1", "router", "mesh"]
    assert [(form.words, sorted(form.taken)) for form in forms(names, {"moe@layer1"})] == [
        ("parts that call no others", ["mesh", "router"]),
        ("moe@layer1", ["moe@layer1"]),
        ("all together", ["mesh", "moe@layer1", "router"]),
    ]
    assert [form.words for form in forms(["mesh"], (), ["router"])] == ["parts that call no others, without router"]


def test_points_that_take_other_differences_have_other_keys() -> None:
    points = [(whole_step(["a", "b"]), False), (whole_step(["a"], ["b"], ["b"]), False), (whole_step(["a"]), True)]
    assert len({key(point) for point in points}) == 3
    assert label(points[1]) == "the whole step without b, in float64"


@pytest.mark.parametrize(
    ("tensor", "names"),
    [
        ("a:out:x", ["a"]),
        ("outer:out:x", ["a"]),
        ("other:out:x", ["option:shift"]),
        ("a:in:x", ["option:shift"]),
        ("step:out:loss", ["option:shift"]),
        ("a:in:x~", ["a"]),
    ],
)
def test_what_computed_a_tensor_is_named(tensor: str, names: list[str]) -> None:
    mixture = StepMixture("all", frozenset({"a", "option:shift"}))
    assert origin(Tensor(tensor, 0), mixture, Nesting({"a": {"outer"}}))[1] == names
