"""What a proof assumes, as a sentence and as a list of kinds."""

from samebits.schema.assumption import Assumption, words_of

SHAPES = Assumption("shapes", "only these shapes", "another size takes another branch", inherent=True)
ROOTS = Assumption("roots", "sqrt(x * x) is |x|", "a root is taken of a negative number")


def test_an_assumption_says_where_it_would_be_false() -> None:
    assert str(ROOTS) == "sqrt(x * x) is |x|; false where a root is taken of a negative number"


def test_kinds_leave_out_what_every_proof_rests_on() -> None:
    assert words_of((SHAPES, ROOTS, Assumption("range", "", ""))) == "roots, range"
    assert words_of((SHAPES,)) == ""
