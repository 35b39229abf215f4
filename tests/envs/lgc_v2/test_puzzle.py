"""The numbering of puzzles."""

from itertools import combinations
from math import comb

import pytest

from veritas_rl.envs.lgc_v2.puzzle import places_of


@pytest.mark.parametrize("count", range(8))
def test_sets_by_number_are_all_sets(count: int) -> None:
    assert {places_of(count, index) for index in range(comb(7, count))} == set(combinations(range(7), count))
