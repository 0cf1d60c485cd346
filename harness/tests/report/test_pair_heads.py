"""The head of a pair: its inputs by case and mesh, and the sources of its sides."""

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.programs.catalogue import Locator
from samebits.programs.plan import LoadedPair, Request, plan
from samebits.report.check import CaseInputs, PairHead, SideSource
from samebits.report.pair_heads import SOURCE_LINES, pair_head, side_source
from samebits.schema.case import Arg, AxisSize, Case
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from samebits.schema.picture import HeatMap, Picture
from samebits.schema.values import Given, Integers, Normal
from tests.support.documents import different, result
from tests.support.toys import double, toy, twice

HERE = "/".join(Path(__file__).parts[-2:])


def head_of(pair: Pair, *results: Finding) -> PairHead:
    """The head of a pair whose whole product ran."""
    planned = plan(pair, Request(full=True), devices=8)
    return pair_head(LoadedPair(locator=Locator(name=pair.name), pair=pair, plan=planned), results)


def drawn(value: Any, **changes: Any) -> str:
    """What is said of an argument of four elements whose values are drawn so."""
    dtype = {} if callable(value) or isinstance(value, Normal) else {"dtype": "int32"}
    pair = toy()
    args = {"x": Arg(shape=("rows", "columns")), "y": Arg(shape=(4,), values=value, **{**dtype, **changes})}
    (inputs,) = head_of(replace(pair, args=args)).inputs
    return inputs.arguments["y"]


def test_inputs_are_named_with_shape_and_layout() -> None:
    head = head_of(toy())
    assert head.meshes == {"data4": {"data": 4}}
    arguments = {"x": "[8@data,16@tensor] normal"}
    assert head.inputs == (CaseInputs(case="small", meshes=("data4",), statics={"factor": "4.0"}, arguments=arguments),)


def uneven(rng: Any, shape: Any) -> Any:
    return rng.standard_normal(shape)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (Normal(), "normal"),
        (Normal(scale=0.5, offset=2), "normal, scale 0.5, offset 2"),
        (Integers(low=1, high=10), "integers from 1 to 9"),
        (Integers(high=4, also=(-1, 99)), "integers from 0 to 3, and -1, 99"),
        (Given(array=np.arange(4, dtype=np.int32)), "an array that was given, and variations of it"),
        (uneven, "uneven(rng, shape)"),
        (lambda rng, shape: rng.standard_normal(shape), "a function of the declaration"),
    ],
    ids=["normal", "scaled", "integers", "also", "given", "function", "lambda"],
)
def test_values_are_said_in_words(values: Any, words: str) -> None:
    assert drawn(values).partition("[4] ")[2] == words


def test_special_values_and_dtypes_are_named() -> None:
    assert drawn(Normal(), special=("nan", "-0.0")) == "[4] normal, special nan, -0.0"
    assert drawn(Integers(high=4), dtype=None).startswith("int32[4] ")
    assert drawn(Normal(), dtype="float64", spec=(("data", "tensor"),)) == "float64[4@(data,tensor)] normal"


def test_meshes_with_other_arguments_are_apart() -> None:
    """The arguments may depend on the mesh; those that are the same are said once."""

    def args(case: Case, mesh: Any) -> dict[str, Arg]:
        return {"x": Arg(shape=(8, 16 * mesh.size("tensor")), spec=("data", "tensor"))}

    case = Case(id="small", statics={"factor": AxisSize(axis="tensor")})
    pair = replace(toy(), args=args, cases=(case,), meshes=("data4", "data2", "tensor2"))
    inputs = head_of(pair).inputs
    assert [(entry.meshes, entry.arguments["x"]) for entry in inputs] == [
        (("data4", "data2"), "[8@data,16@tensor] normal"),
        (("tensor2",), "[8@data,32@tensor] normal"),
    ]
    assert inputs[0].statics == {"factor": "the size of mesh axis 'tensor'"}


def test_an_object_without_a_literal_is_the_same_in_every_run() -> None:
    case = Case(id="small", sizes={"rows": 8, "columns": 16}, statics={"factor": 4.0, "key": object(), "f": jnp.tanh})
    (inputs,) = head_of(replace(toy(), cases=(case,))).inputs
    assert inputs.statics == {"factor": "4.0", "key": "<object object>", "f": "tanh"}


def texts(*results: Finding) -> dict[str, bool]:
    """Of which sides of a pair of three the text is there."""
    pair = toy(twice=twice, other=lambda x, *, factor=2.0: factor * x)
    return {source.side: source.text is not None for source in head_of(pair, *results).sources}


def test_only_sides_that_differ_have_their_text() -> None:
    own = {"pair": "toy", "variant": "twice"}
    assert texts(result(**own)) == {"double": False, "twice": False, "other": False}
    assert texts(different(**own)) == {"double": True, "twice": True, "other": False}
    accepted = result(**own, picture=Picture(heat=HeatMap(edges={}, counts="1"), ulps={"0": 1}))
    assert texts(accepted) == {"double": True, "twice": True, "other": False}
    assert texts(different(pair="another", variant="twice"))["twice"] is False


def source(function: Callable[..., Any]) -> SideSource:
    """The source of a function that has one."""
    answer = side_source("side", function)
    assert answer is not None
    return answer


def test_wrapped_functions_are_found() -> None:
    import inspect

    lines, first = inspect.getsourcelines(double)
    for function in (
        double,
        jax.jit(double),
        functools.partial(double, factor=3.0),
        functools.partial(jax.jit(double)),
    ):
        shown = source(function)
        assert (shown.file, shown.first, shown.last) == ("support/toys.py", first, first + len(lines) - 1)
        assert shown.text == "".join(lines).rstrip()
    assert source(uneven).file == HERE


def test_a_function_without_a_source_is_left_out() -> None:
    assert side_source("side", len) is None
    space: dict[str, Any] = {}
    exec("def made_of_text(x): return x", space)
    assert side_source("side", space["made_of_text"]) is None


def test_a_long_function_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "\n".join(f"    x = x + {number}" for number in range(SOURCE_LINES + 30))
    (tmp_path / "long_module_of_a_test.py").write_text(f"def long(x):\n{body}\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    from long_module_of_a_test import long  # type: ignore[import-not-found]

    shown = source(long)
    assert shown.text is not None and len(shown.text.splitlines()) == SOURCE_LINES
    assert shown.last == SOURCE_LINES + 32
