"""Exact judgement: a player is asked in every information state of a small game, and its whole policy is scored.

    score_policy(player, "kuhn_poker")      # 12 prompts

What games measure with noise, this computes: NashConv, the value against a best response and against the optimum, and
how often a move is optimal. The prompts are those of the environment's own sessions.

The policy is had in one of two ways, and the report says which:

- "probabilities": a model that gives probabilities is asked how likely each canonical answer is, as its whole reply.
- "samples": any player answers each prompt many times, and the environment's parser reads the answers. The only way for
  a server, and the honest one for a model that thinks before it answers.

Whatever is no legal answer is reported as such. The policy whose values are computed is the one given that an answer is
legal, and uniform in a state where none is; rates of moves are shares of all answers.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

from veritas_rl.envs.base import Player, Reason, Turn
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.parsing import read_action
from veritas_rl.envs.openspiel.policy_values import Decision, Worth, decisions_of, optimum_of, worth_of
from veritas_rl.envs.openspiel.session import OpenSpielSession
from veritas_rl.envs.openspiel.task import OpenSpielManner, OpenSpielPay, OpenSpielTask
from veritas_rl.envs.openspiel.view import View
from veritas_rl.seeding import generator

SAMPLES = 32
"""Answers in each state, by default, where probabilities are not to be had."""

STATES_AT_ONCE = 256
"""In how many states a player is asked together."""


@runtime_checkable
class GivesProbabilities(Protocol):
    """A player that can say how likely its answers are, such as a model in this process."""

    @property
    def gives_probabilities(self) -> bool:
        """Whether it can, as it is set."""
        ...

    def answer_probabilities(self, turns: Sequence[Turn]) -> Sequence[Sequence[float]]:
        """For each turn the probability of each of its answers, in order."""
        ...


@dataclass(frozen=True)
class Question:
    """An information state as a player meets it.

    Attributes:
        decision: The state.
        turn: What the environment shows there.
        names: The name of each legal action, by number, in the order of the turn's answers.
    """

    decision: Decision
    turn: Turn
    names: Mapping[int, str]


@dataclass(frozen=True)
class StatePolicy:
    """What a player does in one information state.

    Attributes:
        label: The state's short name.
        seat: Who is asked.
        depth: How many moves were made before.
        actions: The names of the legal actions.
        probabilities: Of each, among all answers: with `illegal` they sum to 1.
        illegal: The rest.
        best: For each action whether it is as good as any.
        optimum: For each action its probability in the optimum, see `policy_values`.
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
        """The share of answers that are legal and as good as any."""
        return sum(p for p, good in zip(self.probabilities, self.best, strict=True) if good)

    @property
    def losing(self) -> float:
        """The share of answers that are legal, and lose value against the best one."""
        return sum(p for p, good in zip(self.probabilities, self.best, strict=True) if not good)

    @property
    def silent(self) -> bool:
        """Whether no answer at all was legal."""
        return not any(self.probabilities)


@dataclass(frozen=True)
class ExactReport:
    """A player's whole policy, scored.

    Attributes:
        case: The canonical case.
        prompt: What was shown, see `Task`.
        way: "probabilities" or "samples".
        samples: How many answers were drawn in each state; 0 with probabilities.
        hidden: Whether the game hides something. Then "optimal" is near the best reply to an equilibrium.
        worth: The values of the policy given that an answer is legal.
        floor: The NashConv that the optimum itself would show if it were sampled as often: what is noise alone. 0
            where nothing is hidden, and where one answer or none is drawn in each state.
        mistakes: How many answers were drawn that were no legal ones, by reason.
        states: What it does in each information state.
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
        """All numbers of the whole game, by name, as for a logger."""
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
) -> ExactReport:
    """Ask a player in every information state of a game, and score its policy.

    Args:
        player: Who answers, on both seats.
        case: The game, in any spelling.
        prompt: What a model is shown, see `Task`.
        samples: How many answers are drawn in each state. None: the probabilities of the answers where the player
            gives them, else `SAMPLES`.
        advance: Called with how many states were asked since the last call.

    Raises:
        UserError: The game is too large, or has no exact values.
        ValueError: `samples` is below 1.
    """
    if samples is not None and samples < 1:
        raise ValueError(f"samples is at least 1, got {samples}")
    questions = questions_of(load(case).case, prompt)
    if samples is None and not (isinstance(player, GivesProbabilities) and player.gives_probabilities):
        samples = SAMPLES
    rows: list[tuple[float, ...]] = []
    mistakes: Counter[str] = Counter()
    for start in range(0, len(questions), STATES_AT_ONCE):
        batch = questions[start : start + STATES_AT_ONCE]
        if samples is not None:
            rows += _sampled(player, batch, samples, mistakes)
        elif isinstance(player, GivesProbabilities):
            rows += map(tuple, player.answer_probabilities([question.turn for question in batch]))
        advance(len(batch))
    return _scored(questions, rows, prompt, samples or 0, mistakes)


def score_reference(which: str, case: str, prompt: str = "full") -> ExactReport:
    """A policy to compare with, by its own probabilities.

    Args:
        which: "uniform", the random legal player, or "optimum", see `policy_values`.
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
    """Every information state of a canonical case, as its own session shows it.

    Raises:
        UserError: As `decisions_of`.
    """
    game, questions = load(case), []
    for k, decision in enumerate(decisions_of(case)):
        # The number of the state is the task's, so that each has dice of its own.
        task = OpenSpielTask(
            "openspiel", case, k, manner=OpenSpielManner(prompt=prompt), pay=OpenSpielPay(reward="legal")
        )
        (turn,) = OpenSpielSession(task, game, (decision.state.clone(), decision.seat)).turns()
        questions.append(Question(decision, turn, game.action_names(decision.state, decision.seat)))
    return tuple(questions)


def _sampled(
    player: Player, questions: Sequence[Question], samples: int, mistakes: Counter[str]
) -> list[tuple[float, ...]]:
    """How often each action was answered, as shares of all answers; what was none is counted in `mistakes`."""
    turns = [
        dataclasses.replace(question.turn, dice=(*question.turn.dice, draw))
        for question in questions
        for draw in range(samples)
    ]
    replies = iter(player.act(turns))
    rows = []
    for question in questions:
        view: View = question.turn.view
        game, state, seat = load(view.case), view.state, question.turn.seat
        listed = game.listed(question.names)
        answers = Counter(read_action(next(replies), game, state, seat, listed) for _ in range(samples))
        mistakes.update({str(reason): count for reason, count in answers.items() if isinstance(reason, Reason)})
        rows.append(tuple(answers[action] / samples for action in question.names))
    return rows


def _given_legal(question: Question, row: Sequence[float]) -> dict[int, float]:
    """The policy where an answer is legal; uniform where none is."""
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
        # Rounding may carry the sum past 1.
        illegal=max(0.0, 1.0 - sum(row)),
        best=tuple(action in decision.best for action in question.names),
        optimum=tuple(decision.optimum[action] for action in question.names),
    )


@lru_cache(maxsize=16)
def _floor(case: str, samples: int) -> float:
    """The NashConv of the optimum, seen through so many draws in each state."""
    seen: dict[str, dict[int, float]] = {}
    for key, row in optimum_of(case).items():
        drawn = Counter(generator("floor", case, samples, key).choices(tuple(row), tuple(row.values()), k=samples))
        seen[key] = {action: drawn[action] / samples for action in row}
    return worth_of(case, seen).nash_conv


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
