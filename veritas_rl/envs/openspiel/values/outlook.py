"""A quick estimate for a position: the number of remaining moves and the number of lines of play."""

from functools import lru_cache
from statistics import fmean, median

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.games import State
from veritas_rl.envs.openspiel.values.question import Question
from veritas_rl.seeding import generator

LOOKS = 3
"""The number of random games of an estimate."""
MANY = 1e12
"""The upper limit of the estimated number of lines of play."""


@lru_cache(maxsize=8192)
def outlook(question: Question) -> tuple[float, float]:
    """The mean number of further moves and chance outcomes in random games, and an estimate of the number of lines of
    play (Knuth 1975), the median product of branching factors."""
    looks = [_look(question, index) for index in range(LOOKS)]
    return fmean(moves for moves, _ in looks), median(lines for _, lines in looks)


def _look(question: Question, index: int) -> tuple[int, float]:
    random = generator("outlook", question.case, question.known, index)
    state: State = question.state.clone()
    moves, lines = 0, 1.0
    while not state.is_terminal():
        moves += 1
        if state.is_chance_node():
            playing.apply_chance(state, random.random())
            continue
        actions = state.legal_actions()
        lines = min(MANY, lines * len(actions))
        state.apply_action(random.choice(actions))
    return moves, lines
