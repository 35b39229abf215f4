"""A forecast of what an evaluation costs, before anything is asked: answers, tokens, and money if prices are known."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from veritas_rl.envs.base import DrawsReplies, Turn
from veritas_rl.envs.registry import get_environment
from veritas_rl.envs.task import Task
from veritas_rl.judging.matches import Rules, pair, seats_of, tasks_of
from veritas_rl.players.cost import Price
from veritas_rl.players.loading import ReplySettings, open_player

CHARACTERS_PER_TOKEN = 3.5
"""Characters per token of a prompt."""

RANDOM = "random"
ESTIMATED_GAMES = 4
"""Random games of each case that are played to forecast the number of a model's answers."""


@dataclass(frozen=True)
class Forecast:
    """The forecast for one judged player.

    Attributes:
        tasks: The number of games and tasks.
        answers: The number of answers.
        prompt_tokens: The number of prompt tokens.
    """

    tasks: int = 0
    answers: float = 0.0
    prompt_tokens: float = 0.0

    def __add__(self, other: "Forecast") -> "Forecast":
        return Forecast(
            self.tasks + other.tasks, self.answers + other.answers, self.prompt_tokens + other.prompt_tokens
        )

    def in_words(
        self, max_tokens: int, what: str = "games and tasks", price: Price | None = None, unit: str = ""
    ) -> str:
        """The forecast as one line, with the upper bound of generated tokens.

        Args:
            max_tokens: The maximum number of tokens of an answer.
            what: The name of the tasks.
            price: The price of a million tokens; None if it is unknown.
            unit: The currency.
        """
        most = self.answers * max_tokens
        line = (
            f"forecast: {self.tasks:,} {what}, about {self.answers:,.0f} answers and {self.prompt_tokens:,.0f} prompt "
            f"tokens, at most {most:,.0f} generated tokens"
        )
        if price is None:
            return line
        return f"{line}, at most {price.of(round(self.prompt_tokens), round(most)):.2f} {unit}"


def forecast(rules: Rules, cases: str | Sequence[str], games: int, opponents: int) -> Forecast:
    """The forecast of games or tasks, from a few games of random moves and the first tasks.

    Args:
        rules: The rules of the evaluation.
        cases: The cases, see `tasks_of`.
        games: The number of games of each case against each opponent, or of tasks of each case.
        opponents: The number of opponents.

    Raises:
        UserError: As `tasks_of`.
    """
    total = Forecast()
    for case, (task, *_) in tasks_of(cases, 1, rules).items():
        seats = seats_of(task)
        count = -(-games // seats) * seats * opponents if seats > 1 else games
        lengths, played = _asked(case, task, rules)
        tokens = sum(lengths) / CHARACTERS_PER_TOKEN / played
        total += Forecast(count, count * len(lengths) / played, count * tokens)
    return total


def _asked(case: str, task: Task, rules: Rules) -> tuple[list[int], int]:
    """The lengths in characters of the prompts of one seat in some games, and the number of these games."""
    first = first_turns(task)
    if task.mode != "episode" or not all(turn.answers or isinstance(turn.view, DrawsReplies) for turn in first):
        return [_length_of(turn) for turn in first[:1]], 1
    player = open_player(RANDOM, rules.env, ReplySettings(seed=rules.seed), Path())
    asked: list[int] = []
    pairings = pair([case], ESTIMATED_GAMES, [player], [player], rules)
    for pairing in pairings:
        session = pairing.session()
        while turns := session.turns():
            asked += [_length_of(turn) for turn in turns if pairing.judges(turn.seat)]
            session.step({turn.seat: reply for turn, reply in zip(turns, player.player.act(turns), strict=True)})
    return asked, len(pairings)


def first_turns(task: Task) -> Sequence[Turn]:
    """The first turns of a task."""
    return get_environment(task.env).start(task).turns()


def _length_of(turn: Turn) -> int:
    """The length of a turn's prompt in characters."""
    return sum(len(message["content"]) for message in turn.messages)


def forecast_of_states(turns: Iterable[Turn], samples: int) -> Forecast:
    """The forecast of an exact evaluation, which asks in every state.

    Args:
        turns: The turn of each state.
        samples: The number of answers in each state.
    """
    lengths = [_length_of(turn) for turn in turns]
    return Forecast(len(lengths), samples * len(lengths), samples * sum(lengths) / CHARACTERS_PER_TOKEN)
