"""Properties as data: what a declaration and one word of a command may say, and the message of each mistake."""

import inspect

import pytest

import samebits
from samebits.errors import DeclarationError, RequestError
from samebits.schema.property_asked import NEEDED, OPTIONS, Property, parse_property


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_those_of_the_function(name: str) -> None:
    parameters = inspect.signature(getattr(samebits, name)).parameters.values()
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    assert {p.name for p in keywords} == {*OPTIONS[name]} | ({"exactly"} & {p.name for p in keywords})
    assert {p.name for p in keywords if p.default is p.empty} == {*NEEDED.get(name, ())}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("causal", Property("causal")),
        (" window( size = 4, axis=0 )", Property("window", size=4, axis=0)),
        ("packed(segment_ids=segments)", Property("packed", segment_ids="segments")),
        ("gradient_stops(param=params.table)", Property("gradient_stops", param="params.table")),
        ("causal(on=[q, 'k'], gradient=False)", Property("causal", on=("q", "k"), gradient=False)),
        ("independent(of='out[:, t]', on='x[:, t+1:]')", Property("independent", of="out[:, t]", on="x[:, t+1:]")),
    ],
)
def test_a_word_is_read_and_written(text: str, expected: Property) -> None:
    assert parse_property(text) == expected
    assert parse_property(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("causa", "'causa' is unknown; expected some of batch_rows, causal, "),
        ("causal(", "expected NAME or NAME(OPTION=VALUE, ...), as in window(size=4)"),
        ("causal(1)", "expected NAME or NAME(OPTION=VALUE, ...), as in window(size=4)"),
        ("samebits.causal", "expected NAME or NAME(OPTION=VALUE, ...), as in window(size=4)"),
        ("causal(**x)", "expected NAME or NAME(OPTION=VALUE, ...), as in window(size=4)"),
        ("causal(size=4)", "causal has no option size; expected some of axis, on, exactly, gradient"),
        ("causal(case=small)", "causal has no option case; expected some of axis, on, exactly, gradient"),
        ("causal(axis=x)", "causal: axis='x'; expected a number"),
        ("causal(axis=1 + 1)", "'1 + 1' is not a number, a name, or a text in quotes"),
        ("causal(gradient=1)", "causal: gradient=1; expected True or False"),
        ("causal(on=(x, 1))", "causal: on=('x', 1); expected a name or an expression, as text"),
        ("window", "window needs size; write window(size=4)"),
        ("independent(of=out)", "independent needs on; write independent(of='out[:, t]', on='x[:, t+1:]')"),
    ],
)
def test_a_wrong_word_gets_one_line(text: str, line: str) -> None:
    with pytest.raises(RequestError) as error:
        parse_property(text)
    assert str(error.value).startswith(f"property '{text}': {line}")
    assert "\n" not in str(error.value)


def test_a_wrong_record_gets_one_line() -> None:
    with pytest.raises(DeclarationError, match=r"property 'causl' is unknown; .*; did you mean 'causal'"):
        Property("causl")
    with pytest.raises(DeclarationError, match="property packed has no option mask; expected some of segment_ids"):
        Property("packed", mask="mask")
