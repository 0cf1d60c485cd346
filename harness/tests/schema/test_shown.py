"""Records show themselves in a notebook by the templates of the reports, which are loaded then."""

from html import escape

from samebits.schema.shown import Shown


def test_a_record_without_a_view_of_its_own_shows_its_text() -> None:
    record = Shown()
    assert escape(repr(record)) in record._repr_html_()


def test_it_takes_no_place_in_a_record() -> None:
    assert Shown.__slots__ == () and not hasattr(Shown(), "__dict__")
