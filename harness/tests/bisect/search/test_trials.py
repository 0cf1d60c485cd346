"""What a search says on its way: which points were run, in what time, and how many are left."""

import itertools

from samebits.bisect.search.history import first_failing
from samebits.bisect.search.judgement import Judgement, failed, passed
from samebits.bisect.search.trials import Trials


def test_a_history_says_how_many_points_are_left() -> None:
    """At the least, as each run halves the candidates; nothing before the first, and nothing for what is remembered."""
    said: list[tuple[float, int | None]] = []

    def judge(number: int) -> Judgement:
        return failed("step 1: loss") if number >= 6 else passed()

    trials = Trials(judge, judged=lambda seconds, left: said.append((seconds, left)))
    trials.ends(0, 16)
    parents: dict[int, tuple[int, ...]] = {number: (number - 1,) if number > 1 else () for number in range(1, 17)}
    assert first_failing(parents, 16, trials, trials.narrowed).culprits == (6,)
    trials(6)
    lefts = [left for _, left in said]
    assert lefts[:2] == [None, None] and lefts[-1] == 0
    assert all(after == before - 1 for before, after in itertools.pairwise(lefts) if before is not None)
    assert len(lefts) == trials.runs and all(seconds >= 0 for seconds, _ in said)
