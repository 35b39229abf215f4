"""Exact judgement: a player answers in every information state of a small game, and its policy is scored.

    score_policy(player, "kuhn_poker")      # 12 prompts

The scores are computed exactly, not estimated from games: NashConv, the values against a best response and against the
optimum, and the rate of optimal moves. The prompts are those of the environment's own sessions.

The policy is measured in one of two ways, which the report states:

- "probabilities": the probability that a model's whole reply is each canonical answer.
- "samples": any player answers each prompt many times, and the environment's parser reads the answers. Servers and
  models that think before they answer need this way.

Illegal answers are reported separately. The values are those of the policy conditional on a legal answer; in a state
without a legal answer, uniform play is assumed. Rates of moves are shares of all answers.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol, runtime_checkable

from veritas_rl.envs.base import Player, Reason, Turn
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.parsing import read_action
from veritas_rl.envs.openspiel.policy_values import Decision, Worth, decisions_of, optimum_of, worth_of
from veritas_rl.envs.openspiel.session import OpenSpielSession
from veritas_rl.envs.openspiel.task import OpenSpielManner, OpenSpielPay, OpenSpielTask
from veritas_rl.envs.openspiel.view import View
from veritas_rl.exact.answers import Answers
from veritas_rl.seeding import generator

SAMPLES = 32
"""The default number of answers in each state, for players that give no probabilities."""

STATES_AT_ONCE = 256
"""The number of states in a batch."""


@runtime_checkable
class GivesProbabilities(Protocol):
    """A player that can compute the probabilities of its answers, such as a model in this process."""

    @property
    def gives_probabilities(self) -> bool:
        """Whether the player can do so with its current settings."""
        ...

    def answer_probabilities(self, turns: Sequence[Turn]) -> Sequence[Sequence[float]]:
        """For each turn, the probability of each of its answers, in order."""
        ...


@dataclass(frozen=True)
class Question:
    """An information state with its prompt.

    Attributes:
        decision: The state.
        turn: The environment's turn in this state.
        names: The name of each legal action, by number, in the order of the turn's answers.
    """

    decision: Decision
    turn: Turn
    names: Mapping[int, str]


@dataclass(frozen=True)
class StatePolicy:
    """A player's policy in one information state.

    Attributes:
        label: The state's short name.
        seat: The seat to move.
        depth: The number of moves before this state.
        actions: The names of the legal actions.
        probabilities: The share of each action among all answers.
        illegal: The share of all other answers.
        best: For each action, whether no action is better.
        optimum: The probability of each action in the optimum, see `policy_values`.
    """

    label: str
    seat: int
    depth: int
    actions: tuple[str, ...]
    probabilities: tuple[float, ...]
    illegal: float
    best: tuple[bool, ...]
    optimum: tuple[float, ...]

    @property
    def optimal(self) -> float:
        """The share of answers that are legal and optimal."""
        return sum(p for p, good in zip(self.probabilities, self.best, strict=True) if good)

    @property
    def losing(self) -> float:
        """The share of answers that are legal and worse than the best action."""
        return sum(p for p, good in zip(self.probabilities, self.best, strict=True) if not good)

    @property
    def silent(self) -> bool:
        """Whether no answer was legal."""
        return not any(self.probabilities)


@dataclass(frozen=True)
class ExactReport:
    """The scores of a player's policy.

    Attributes:
        case: The canonical case.
        prompt: "full", "unlisted" or "brief".
        way: "probabilities" or "samples".
        samples: The number of answers drawn in each state; 0 for probabilities.
        hidden: Whether the game has hidden information. Then "optimal" means near the best response to an equilibrium.
        worth: The values of the policy conditional on legal answers.
        floor: The NashConv of the optimum if it is sampled equally often, which is pure noise; 0 without hidden
            information, and with at most one answer in each state.
        mistakes: The number of illegal answers, by reason.
        states: The policy in each information state.
    """

    case: str
    prompt: str
    way: str
    samples: int
    hidden: bool
    worth: Worth
    floor: float
    mistakes: Mapping[str, int]
    states: tuple[StatePolicy, ...]

    @property
    def nash_conv(self) -> float:
        return self.worth.nash_conv

    @property
    def metrics(self) -> dict[str, float]:
        """All metrics of the whole game, by name."""
        open_ = [state for state in self.states if not all(state.best)]
        return {
            "states": len(self.states),
            "nash_conv": self.nash_conv,
            "nash_conv_floor": self.floor,
            **{f"value_seat_{seat}/game": value for seat, value in enumerate(self.worth.game)},
            **{f"value_seat_{seat}/worst_case": value for seat, value in enumerate(self.worth.worst)},
            **{f"value_seat_{seat}/against_optimum": value for seat, value in enumerate(self.worth.against_optimum)},
            "optimal_rate": _mean([state.optimal for state in self.states]),
            "value_losing_rate": _mean([state.losing for state in self.states]),
            "states_where_a_move_can_lose": len(open_),
            "value_losing_rate_there": _mean([state.losing for state in open_]),
            "illegal_mean": _mean([state.illegal for state in self.states]),
            "illegal_max": max(state.illegal for state in self.states),
            "states_without_legal_answer": sum(state.silent for state in self.states),
        }

    def to_dict(self) -> dict[str, Any]:
        """The whole report as plain values."""
        values = dataclasses.asdict(self)
        del values["worth"], values["floor"]
        return {**values, "metrics": self.metrics, "states": values["states"]}


def score_policy(
    player: Player,
    case: str,
    *,
    prompt: str = "full",
    samples: int | None = None,
    advance: Callable[[int], None] = lambda states: None,
    keep: Callable[[int, Callable[[], Answers]], Answers] = lambda start, asked: asked(),
) -> ExactReport:
    """Measure a player's policy in every information state of a game, and score it.

    Args:
        player: The player, on both seats.
        case: The game, in any accepted spelling.
        prompt: "full", "unlisted" or "brief".
        samples: The number of answers drawn in each state. None: the probabilities of the answers if the player gives
            them, otherwise `SAMPLES` answers.
        advance: Called with the number of states asked since the last call.
        keep: Called with the index of a batch's first state, and with a function that asks the player; returns the
            answers of the batch.

    Raises:
        UserError: The game is too large or has no exact values.
        ValueError: `samples` is below 1.
    """
    if samples is not None and samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    questions = questions_of(load(case).case, prompt)
    if samples is None and not (isinstance(player, GivesProbabilities) and player.gives_probabilities):
        samples = SAMPLES
    rows: list[tuple[float, ...]] = []
    mistakes: Counter[str] = Counter()
    for start in range(0, len(questions), STATES_AT_ONCE):
        batch = questions[start : start + STATES_AT_ONCE]
        found, missed = keep(start, partial(_asked, player, batch, samples))
        rows += found
        mistakes.update(missed)
        advance(len(batch))
    return _scored(questions, rows, prompt, samples or 0, mistakes)


def score_reference(which: str, case: str, prompt: str = "full") -> ExactReport:
    """The report of a reference policy.

    Args:
        which: "uniform" for the random legal player, or "optimum", see `policy_values`.
        case: As in `score_policy`.
        prompt: As in `score_policy`.

    Raises:
        UserError: As `score_policy`.
    """
    questions = questions_of(load(case).case, prompt)
    if which == "uniform":
        rows = [(1 / len(question.names),) * len(question.names) for question in questions]
    else:
        rows = [tuple(question.decision.optimum[action] for action in question.names) for question in questions]
    return _scored(questions, rows, prompt, 0, {})


def _scored(
    questions: Sequence[Question],
    rows: Sequence[Sequence[float]],
    prompt: str,
    samples: int,
    mistakes: Mapping[str, int],
) -> ExactReport:
    view: View = questions[0].turn.view
    policy = {question.decision.key: _given_legal(question, row) for question, row in zip(questions, rows, strict=True)}
    hidden = load(view.case).hidden
    return ExactReport(
        case=view.case,
        prompt=prompt,
        way="samples" if samples else "probabilities",
        samples=samples,
        hidden=hidden,
        worth=worth_of(view.case, policy),
        floor=_floor(view.case, samples) if samples > 1 and hidden else 0.0,
        mistakes=dict(sorted(mistakes.items())),
        states=tuple(_state_policy(question, row) for question, row in zip(questions, rows, strict=True)),
    )


@lru_cache(maxsize=32)
def questions_of(case: str, prompt: str) -> tuple[Question, ...]:
    """Every information state of a canonical case, with the turn of the environment's own session.

    Raises:
        UserError: As `decisions_of`.
    """
    game, questions = load(case), []
    for k, decision in enumerate(decisions_of(case)):
        # The task's number is that of the state, so that each state has its own dice.
        task = OpenSpielTask(
            "openspiel", case, k, manner=OpenSpielManner(prompt=prompt), pay=OpenSpielPay(reward="legal")
        )
        (turn,) = OpenSpielSession(task, game, (decision.state.clone(), decision.seat)).turns()
        questions.append(Question(decision, turn, game.action_names(decision.state, decision.seat)))
    return tuple(questions)


def _asked(player: Player, questions: Sequence[Question], samples: int | None) -> Answers:
    """A player's answers in some states: `samples` drawn answers each, or the probabilities that the player gives."""
    if samples is None and isinstance(player, GivesProbabilities):
        return list(map(tuple, player.answer_probabilities([question.turn for question in questions]))), {}
    return _sampled(player, questions, samples or SAMPLES)


def _sampled(player: Player, questions: Sequence[Question], samples: int) -> Answers:
    turns = [
        dataclasses.replace(question.turn, dice=(*question.turn.dice, draw))
        for question in questions
        for draw in range(samples)
    ]
    replies = iter(player.act(turns))
    rows, mistakes = [], Counter[str]()
    for question in questions:
        view: View = question.turn.view
        game, state, seat = load(view.case), view.state, question.turn.seat
        listed = game.listed(question.names)
        answers = Counter(read_action(next(replies), game, state, seat, listed) for _ in range(samples))
        mistakes.update({str(reason): count for reason, count in answers.items() if isinstance(reason, Reason)})
        rows.append(tuple(answers[action] / samples for action in question.names))
    return rows, mistakes


def _given_legal(question: Question, row: Sequence[float]) -> dict[int, float]:
    """The policy conditional on a legal answer; uniform if there is none."""
    total = sum(row)
    if not total:
        return dict.fromkeys(question.names, 1 / len(row))
    return {action: p / total for action, p in zip(question.names, row, strict=True)}


def _state_policy(question: Question, row: Sequence[float]) -> StatePolicy:
    decision = question.decision
    return StatePolicy(
        label=decision.label,
        seat=decision.seat,
        depth=decision.depth,
        actions=tuple(question.names.values()),
        probabilities=tuple(row),
        # Rounding may bring the sum above 1.
        illegal=max(0.0, 1.0 - sum(row)),
        best=tuple(action in decision.best for action in question.names),
        optimum=tuple(decision.optimum[action] for action in question.names),
    )


@lru_cache(maxsize=16)
def _floor(case: str, samples: int) -> float:
    """The NashConv of the optimum when each state is sampled `samples` times."""
    seen: dict[str, dict[int, float]] = {}
    for key, row in optimum_of(case).items():
        drawn = Counter(generator("floor", case, samples, key).choices(tuple(row), tuple(row.values()), k=samples))
        seen[key] = {action: drawn[action] / samples for action in row}
    return worth_of(case, seen).nash_conv


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
