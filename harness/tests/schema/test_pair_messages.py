"""The error messages of wrong declarations, word for word: what was got, what is expected, what to do."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from samebits.errors import DeclarationError, MeshError
from samebits.schema import case, compile_statement, contract, pair, validate, values
from samebits.schema.case import Arg, AxisSize, Case, ContextMesh, Refusal
from samebits.schema.compile_statement import VARIANT, Statement, compiled_side
from samebits.schema.contract import Contract, Exemption
from samebits.schema.meshes import SPELLING, MeshSpec
from samebits.schema.pair import Adapt, Pair
from samebits.schema.real_size import RealSize
from tests.schema import raising
from tests.schema.test_domain import WRONG_DOMAINS
from tests.schema.wrong_arguments import WRONG_VALUES, wrong_arguments
from tests.schema.wrong_documented import wrong_documented

HONEST: dict[str, Any] = {
    "name": "rope",
    "reference": "plain",
    "variants": ("fused",),
    "args": {"x": Arg(shape=("rows",))},
    "cases": (Case(id="small", sizes={"rows": 8}),),
    "dtypes": ("float32", "bfloat16"),
    "meshes": ("context2", "context4"),
}

SMALL = (HONEST["cases"][0], MeshSpec.parse("context2"))


def declare(**changes: Any) -> Pair:
    """An honest pair with something changed."""
    return Pair(**{**HONEST, **changes})


def real(case: Case, *shows: Statement) -> RealSize:
    """A production shape with claims."""
    claims = tuple(compile_statement.Claim(shows=statement, source="measured") for statement in shows)
    return RealSize(case=case, layout="context*", dtype="float32", targets=("cpu",), claims=claims)


def with_case(**changes: Any) -> Pair:
    """An honest pair with something changed in its case."""
    return declare(cases=(Case(**{"id": "small", "sizes": {"rows": 8}, **changes}),))


def refusing(*sides: str) -> Pair:
    return with_case(refuses=(Refusal(error="ValueError", match="odd", variants=sides),))


Wrong = dict[str, tuple[Callable[[], object], str]]

WRONG_CONTRACTS: Wrong = {
    **WRONG_DOMAINS,
    "contract without a reason": (
        lambda: Contract(lowest="rounding", leaf="scale", direction="gradient"),
        "a contract (direction=gradient, leaf=scale) accepts 'rounding' without a reason; "
        "write reason='...' with the measured number",
    ),
    "contract with an empty reason": (
        lambda: Contract(lowest="rounding", reason=" \n"),
        "a contract (every result) accepts 'rounding' without a reason; write reason='...' with the measured number",
    ),
    "contract with a ratio that nothing uses": (
        lambda: Contract(dtype="bf*", error_ratio=3.0),
        "a contract (dtype=bf*) gives error_ratio, which only 'rounding' uses; remove it",
    ),
    "contract for other sizes": (
        lambda: Contract(sizes="every"),
        "a contract (every result) has sizes='every'; expected all, or these",
    ),
    "contract for all sizes of explicit mode": (
        lambda: Contract(mode="explicit", sizes="all"),
        "a contract (mode=explicit) requires sizes='all', which is proved in auto mode alone; write mode='auto'",
    ),
    "contract that asks for a difference": (
        lambda: Contract(lowest="different", reason="known"),
        "a contract (every result) names 'different'; expected proved, bitwise or rounding "
        "(a known difference is an Exemption)",
    ),
    "exemption with an empty reason": (
        lambda: Exemption(variant="fused", reason=" "),
        "an exemption (variant=fused) has an empty reason; write the finding with its number",
    ),
}


NO_PROPERTY: Any = "causal"

WRONG_PAIRS: Wrong = {
    "property that is a text": (
        lambda: declare(properties=(NO_PROPERTY,)),
        "pair 'rope': properties holds 'causal'; expected Property('causal', ...)",
    ),
    "name that is no id": (
        lambda: declare(name="Rope-1"),
        "pair 'Rope-1' is not an id; expected lower-case letters, digits and '_'",
    ),
    "adaptation of nothing": (
        lambda: declare(adapt={"fused": Adapt()}),
        "Adapt() maps nothing; give arguments=..., outputs=..., or leave it out",
    ),
    "case whose name is no id": (
        lambda: Case(id="no spaces"),
        "case 'no spaces' is not an id; expected lower-case letters, digits and '_'",
    ),
    "variant whose name is no id": (
        lambda: declare(variants={"Fused": "module:fused"}),
        "pair 'rope': variant 'Fused' is not an id; expected lower-case letters, digits and '_'",
    ),
    "variant twice": (
        lambda: declare(variants=("fused", "split", "fused")),
        "pair 'rope' declares variant 'fused' twice; ids must differ",
    ),
    "accuracy below one": (
        lambda: declare(accuracy=0.5),
        "pair 'rope': accuracy is 0.5; expected how many times the reference's error is accepted, a number of at least "
        "1, or None for no limit",
    ),
    "case twice": (
        lambda: declare(cases=(Case(id="small"), Case(id="small"))),
        "pair 'rope' declares case 'small' twice; ids must differ",
    ),
    "dtype twice": (
        lambda: declare(dtypes=("float32", "float32")),
        "pair 'rope' declares dtype 'float32' twice; ids must differ",
    ),
    "mesh twice": (
        lambda: declare(wide_meshes=("context4",)),
        "pair 'rope' declares mesh 'context4' twice; ids must differ",
    ),
    "text for a tuple": (
        lambda: declare(meshes="context4"),
        "pair 'rope': meshes is the text 'context4'; expected a tuple, as in ('context4',)",
    ),
    **{
        f"no {what}": (
            lambda what=what: declare(**{what: ()}),  # type: ignore[misc]
            f"pair 'rope' declares no {what}; it would check nothing. Write {what}=(...)",
        )
        for what in ("variants", "cases", "dtypes", "meshes", "modes")
    },
    "reference among the variants": (
        lambda: declare(variants=("fused", "plain")),
        "pair 'rope': 'plain' names the reference and a variant; names must differ",
    ),
    "unknown mode": (
        lambda: declare(modes=("auto", "manual")),
        "pair 'rope': mode 'manual' is unknown; expected some of auto, explicit",
    ),
    "case with an unknown dtype": (
        lambda: with_case(dtypes=("float16",)),
        "pair 'rope', case 'small': dtype 'float16' is not one of the pair's: float32, bfloat16",
    ),
    "case with an unknown mesh": (
        lambda: with_case(meshes=("context8",)),
        "pair 'rope', case 'small': mesh 'context8' is not one of the pair's: context2, context4",
    ),
    "case with an unknown variant": (
        lambda: with_case(variants=("plain",)),
        "pair 'rope', case 'small': variant 'plain' is not one of the pair's: fused",
    ),
    "refusal of an unknown side": (
        lambda: refusing("fused", "slow"),
        "pair 'rope', case 'small': refusing side 'slow' is not one of the pair's: plain, fused",
    ),
    **{
        f"case with no {what}": (
            lambda what=what: with_case(**{what: ()}),  # type: ignore[misc]
            f"pair 'rope', case 'small': {what}=() leaves nothing to check; give some or leave it out",
        )
        for what in ("dtypes", "meshes", "modes", "variants")
    },
    "adaptation of an unknown variant": (
        lambda: declare(adapt={"fussed": Adapt(outputs=tuple)}),
        "pair 'rope': adapt of 'fussed'; expected some of fused; did you mean 'fused'?",
    ),
    "second derivative beside auxiliary outputs": (
        lambda: declare(transforms=("second_derivative",), has_aux=True),
        "pair 'rope': transform 'second_derivative' does not support has_aux=True; leave it out",
    ),
    "no arguments": (
        lambda: declare(args={}).arguments(*SMALL),
        "pair 'rope', case 'small': no arguments; it would compare constants",
    ),
    "no arguments from a function": (
        lambda: declare(args=lambda case, mesh: {}).arguments(*SMALL),
        "pair 'rope', case 'small': no arguments; it would compare constants",
    ),
    "function of arguments that refuses": (
        lambda: declare(args=lambda case, mesh: {"x": AxisSize(axis="data-4")}).arguments(*SMALL),
        "AxisSize of axis 'data-4', which is not an identifier; expected a name, as in 'dp'",
    ),
    "unknown special value": (
        lambda: Arg(shape=(4,), special=("-0.0", "NaN")),
        "special value 'NaN' is unknown; expected some of -0.0, nan, nan_payload, inf, -inf, subnormal, largest",
    ),
    "bound of floats": (
        lambda: Arg(shape=("rows",), below=6),
        "argument of shape ('rows',): below=6 bounds integers, and its dtype is None; write dtype='int32'",
    ),
    "bound that is not a size": (
        lambda: Arg(shape=("rows",), dtype="int32", below=0),
        "argument of shape ('rows',): below=0; expected a number above 0, or an expression of sizes such as 'rows+1'",
    ),
    "bound beside special values": (
        lambda: Arg(shape=("rows",), dtype="int32", below="rows", special=("largest",)),
        "argument of shape ('rows',): below='rows'; special values lie outside of it: leave out one of them",
    ),
    "spec longer than the shape": (
        lambda: Arg(shape=("rows",), spec=(None, "context")),
        "argument of shape ('rows',): spec (None, 'context') has 2 entries; expected at most one per dimension",
    ),
    "an axis for two dimensions": (
        lambda: Arg(shape=("a", "b"), spec=("c", "c")),
        "argument of shape ('a', 'b'): spec ('c', 'c') has axis 'c' twice; a mesh axis splits one dimension once",
    ),
    "text for a tuple of wide meshes": (
        lambda: declare(wide_meshes="context16"),
        "pair 'rope': wide_meshes is the text 'context16'; expected a tuple, as in ('context16',)",
    ),
    "one case for a tuple": (
        lambda: declare(cases=Case(id="small")),
        "pair 'rope': cases is of type Case; expected a tuple, with a comma after a single item",
    ),
    "one contract for a tuple": (
        lambda: declare(contracts=Contract()),
        "pair 'rope': contracts is of type Contract; expected a tuple, with a comma after a single item",
    ),
    "one exemption for a tuple": (
        lambda: declare(exemptions=Exemption(reason="measured")),
        "pair 'rope': exemptions is of type Exemption; expected a tuple, with a comma after a single item",
    ),
    "list for a tuple": (
        lambda: declare(meshes=["context4"]),
        "pair 'rope': meshes is of type list; expected a tuple, with a comma after a single item",
    ),
    **{
        f"text for a case's {what}": (
            lambda what=what, text=text: Case(id="small", **{what: text}),  # type: ignore[misc]
            f"case 'small': {what} is the text '{text}'; expected a tuple, as in ('{text}',)",
        )
        for what, text in (("dtypes", "float32"), ("meshes", "context4"), ("variants", "fused"))
    },
    "one refusal for a tuple": (
        lambda: Case(id="small", refuses=Refusal(error="ValueError", match="odd")),  # type: ignore[arg-type]
        "case 'small': refuses is of type Refusal; expected a tuple, with a comma after a single item",
    ),
    "text for the refusing sides": (
        lambda: Refusal(error="ValueError", match="odd", variants="fused"),  # type: ignore[arg-type]
        "refusal by ValueError: variants is the text 'fused'; expected a tuple, as in ('fused',)",
    ),
    "match that is not a regular expression": (
        lambda: Refusal(error="ValueError", match="got (3"),
        "refusal by ValueError: match 'got (3' is not a valid regex "
        "(missing ), unterminated subpattern at position 4); escape metacharacters",
    ),
    "text for special values": (
        lambda: Arg(shape=(4,), special="nan"),  # type: ignore[arg-type]
        "argument of shape (4,): special is the text 'nan'; expected a tuple, as in ('nan',)",
    ),
    "number for a shape": (
        lambda: Arg(shape=4),  # type: ignore[arg-type]
        "argument: shape is of type int; expected a tuple, with a comma after a single item",
    ),
    "text for a spec": (
        lambda: Arg(shape=(4,), spec="data"),  # type: ignore[arg-type]
        "argument of shape (4,): spec is the text 'data'; expected a tuple, as in ('data',)",
    ),
    "no axis in a spec": (
        lambda: Arg(shape=(4, 4), spec=(None, ("fsdp", 2))),  # type: ignore[arg-type]
        "argument of shape (4, 4): spec has the entry 2; expected the name of a mesh axis, a tuple of names, or None",
    ),
    "contract about no direction": (
        lambda: declare(contracts=(Contract(lowest="proved", direction="forwards"),)),
        "pair 'rope', contract (direction=forwards): direction=forwards matches nothing; "
        "expected some of forward, gradient; did you mean 'forward'?",
    ),
    "contract about gradients where there are none": (
        lambda: declare(gradients=False, contracts=(Contract(direction="gradient"),)),
        "pair 'rope', contract (direction=gradient): direction=gradient matches nothing; expected some of forward",
    ),
    "exemption of an unknown variant": (
        lambda: declare(exemptions=(Exemption(variant="fusd", reason="measured"),)),
        "pair 'rope', exemption (variant=fusd): variant=fusd matches nothing; "
        "expected some of plain, fused; did you mean 'fused'?",
    ),
    "real size of an unknown variant": (
        lambda: declare(compiled=(real(Case(id="large", variants=("fusd",))),)),
        "pair 'rope', real size 'large': variant 'fusd' is unknown; expected some of fused; did you mean 'fused'?",
    ),
    "claim that names an unknown side": (
        lambda: declare(compiled=(real(Case(id="large"), VARIANT.copies <= 2 * compiled_side("plane").copies),)),
        "pair 'rope', real size 'large', claim 'copies <= 2 x plane': expected some of plain, fused; "
        "did you mean 'plain'?",
    ),
}
WRONG_AXES: Wrong = {
    "misspelt axis in a spec": (
        lambda: declare(args={"x": Arg(shape=(4, 4), spec=(None, ("fsdp", "contxt")))}),
        "pair 'rope', argument 'x': axis 'contxt' of spec is in no mesh of the pair; "
        "expected some of context; did you mean 'context'?",
    ),
    "size of a misspelt axis": (
        lambda: with_case(statics={"cp": AxisSize(axis="contxt")}),
        "pair 'rope', case 'small': cp is the size of axis 'contxt', which no mesh of the pair has; "
        "expected some of context; did you mean 'context'?",
    ),
    "size of an axis without meshes": (
        lambda: declare(
            cases=(Case(id="small", sizes={"rows": 8}, statics={"cp": AxisSize(axis="cp")}),), meshes=("none",)
        ),
        "pair 'rope', case 'small': cp is the size of axis 'cp', which no mesh of the pair has; "
        "its meshes have no axes",
    ),
    "mesh of a pair without any": (
        lambda: declare(
            cases=(Case(id="small", sizes={"rows": 8}, statics={"mesh": ContextMesh()}),), meshes=("none",)
        ),
        "pair 'rope', case 'small': mesh is the mesh, and the pair has none; "
        "declare meshes with axes, as in meshes=('dp2_tp4',)",
    ),
    "malformed mesh": (
        lambda: declare(meshes=("fsdp_t4",)),
        f"pair 'rope': mesh 'fsdp_t4' is malformed; {SPELLING}",
    ),
    "malformed wide mesh": (
        lambda: declare(wide_meshes=("context",)),
        f"pair 'rope': mesh 'context' is malformed; {SPELLING}",
    ),
    "wide mesh among the ordinary ones": (
        lambda: declare(meshes=("context4", "expert4_fsdp4")),
        "pair 'rope': mesh 'expert4_fsdp4' needs 16 devices; above 8 write it in wide_meshes",
    ),
    "mesh with an axis that the pair lacks": (
        lambda: pair.require_axes(declare(), MeshSpec.parse("contxt2")),
        "mesh 'contxt2': pair 'rope' has no axis 'contxt'; it has context; did you mean 'context'?",
    ),
    "mesh of a pair without axes": (
        lambda: pair.require_axes(declare(meshes=("none",)), MeshSpec.parse("dp2")),
        "mesh 'dp2': pair 'rope' has no axis 'dp'; it has none",
    ),
}
WRONG_PAIRS |= WRONG_AXES
WRONG_PAIRS |= wrong_documented(declare, real)
WRONG_PAIRS |= wrong_arguments(declare, *SMALL)
WRONG: Wrong = {**WRONG_CONTRACTS, **WRONG_PAIRS, **WRONG_VALUES}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_declaration_is_told_what_to_write(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises((DeclarationError, MeshError)) as caught:
        call()
    assert str(caught.value) == message
    assert caught.value.exit_code == 2
    assert "\n" not in message


def test_the_honest_declaration_is_accepted() -> None:
    assert declare().sides == ("plain", "fused")
    assert with_case(dtypes=("bfloat16",), meshes=("context2",), variants=("fused",)).cases[0].dtypes == ("bfloat16",)
    assert refusing("fused", "plain").cases[0].refusal("fused") is not None


TABLES: list[tuple[ModuleType, Wrong]] = [
    (pair, WRONG_PAIRS),
    (case, WRONG_PAIRS),
    (validate, WRONG_PAIRS),
    (contract, WRONG_CONTRACTS),
    (values, WRONG_VALUES),
]


@pytest.mark.parametrize(("module", "wrong"), TABLES, ids=lambda value: getattr(value, "__name__", "table"))
def test_every_message_of_a_module_is_in_a_table(module: ModuleType, wrong: Wrong) -> None:
    assert raising.unreached(module, [call for call, _ in wrong.values()]) == [], "add a row to the table above"


@pytest.mark.parametrize(("module", "wrong"), TABLES, ids=lambda value: getattr(value, "__name__", "table"))
def test_a_message_without_a_row_would_be_noticed(module: ModuleType, wrong: Wrong) -> None:
    found = raising.raise_statements(module)
    assert len(raising.unreached(module, [])) == len(found) > 0
