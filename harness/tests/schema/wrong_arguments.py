"""Arguments that are declared wrongly, and functions of a declaration that raise, for the table of messages."""

from collections.abc import Callable
from typing import Any

from samebits.schema.case import Arg, Case
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.values import Integers, Uniform

WRONG_VALUES: dict[str, tuple[Callable[[], object], str]] = {
    "empty range of floats": (
        lambda: Uniform(low=1, high=1),
        "Uniform(low=1, high=1) is not a range of floats; expected finite low < high",
    ),
    "empty range": (lambda: Integers(low=3, high=3), "Integers(low=3, high=3) is an empty range; expected low < high"),
}


def wrong_arguments(
    declare: Callable[..., Pair], case: Case, mesh: MeshSpec
) -> dict[str, tuple[Callable[[], object], str]]:
    """Rows of the table: what raises, and the message."""
    return {
        "function of arguments that raises": (
            lambda: declare(args=_no_such_size).arguments(case, mesh),
            "pair 'rope', case 'small', mesh 'context2': args(case, mesh) raised KeyError: 'columns' "
            f"{_line(_no_such_size)}",
        ),
        "function of output specs that raises": (
            lambda: declare(out_spec=_by_zero).output_spec(case, mesh),
            "pair 'rope', case 'small', mesh 'context2': out_spec(case, mesh) raised ZeroDivisionError: "
            f"integer division or modulo by zero {_line(_by_zero)}",
        ),
        "function of arguments that exits": (
            lambda: declare(args=_leaving).arguments(case, mesh),
            f"pair 'rope', case 'small', mesh 'context2': args(case, mesh) raised SystemExit: 0 {_line(_leaving)}",
        ),
        "arguments without names": (
            lambda: declare(args=[Arg(shape=(4,))]).arguments(case, mesh),
            "pair 'rope', case 'small': args is a list; expected the arguments by name, as in "
            "args={'x': Arg(shape=(8, 16))}",
        ),
        "rename of a misspelt argument": (
            lambda: declare(rename={"xx": "rows"}).check_argument_names(),
            "pair 'rope': rename refers to 'xx', which is not an argument; expected some of x",
        ),
        "negative size": (
            lambda: Arg(shape=("rows", -1)),
            "argument of shape ('rows', -1): dimension 1 is -1; expected a size, or a name of Case.sizes",
        ),
        "formula of floats": (
            lambda: Arg(shape=("rows",), equals="index0"),
            "argument of shape ('rows',): equals='index0' is of integers, and its dtype is None; write dtype='int32'",
        ),
        "formula that is none": (
            lambda: Arg(shape=("rows",), dtype="int32", equals=" "),
            "argument of shape ('rows',): equals=' '; expected an integer, or an expression such as 'index1', of sizes "
            "and places",
        ),
        "formula of a dimension that there is not": (
            lambda: Arg(shape=("rows",), dtype="int32", equals="index1"),
            "argument of shape ('rows',): equals='index1': 'index1' is the place along a dimension that it does not "
            "have",
        ),
        "formula beside a bound": (
            lambda: Arg(shape=("rows",), dtype="int32", equals="index0", below="rows"),
            "argument of shape ('rows',): equals='index0'; a bound beside it: leave out one of them",
        ),
        "size that is not a number": (
            lambda: Arg(shape=(4.0,)),  # type: ignore[arg-type]
            "argument of shape (4.0,): dimension 0 is 4.0; expected a size, or a name of Case.sizes",
        ),
    }


def _no_such_size(case: Case, mesh: MeshSpec) -> Any:
    return {"x": case.sizes["columns"]}


def _by_zero(case: Case, mesh: MeshSpec) -> Any:
    return 1 // 0


def _leaving(case: Case, mesh: MeshSpec) -> Any:
    raise SystemExit(0)


def _line(function: Callable[..., Any]) -> str:
    """Where a function of one line raises."""
    return f"({__file__}:{function.__code__.co_firstlineno + 1})"
