"""Messages about a declaration, with the options of `samebits compare` in them."""

import pytest

from samebits.cli.compare import in_options


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("or map them: rename={'q': ...}", "or map them: --rename q=OTHER"),
        ("no float output; declare gradients=False", "no float output; give --forward"),
        ("raised ValueError: gradients", "raised ValueError: gradients"),
        ("compared without gradients (gradients=False)", "compared without gradients (--forward)"),
    ],
)
def test_entries_of_a_declaration_become_options(text: str, shown: str) -> None:
    assert in_options(text) == shown
