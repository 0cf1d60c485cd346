"""What `samebits.compare` gives shows itself in a notebook."""

import numpy as np

from samebits.numerics.bits import Comparison, compare


def test_a_comparison_shows_itself() -> None:
    (same,) = compare(reference=np.arange(3), optimized=np.arange(3))
    assert isinstance(same, Comparison)
    assert "all 3 elements have the same bits" in str(same._repr_html_())
