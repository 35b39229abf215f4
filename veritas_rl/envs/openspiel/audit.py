"""The facts of the OpenSpiel environment for the linter, directly from OpenSpiel's own state."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import ClassVar

from veritas_rl.envs.audit import Audit, LegalAnswer, TurnFacts
from veritas_rl.envs.base import Session, Turn
from veritas_rl.envs.openspiel import playing, positions, text
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.envs.openspiel.learning_signal.checks import SignalChecks
from veritas_rl.envs.openspiel.phases import lines_of
from veritas_rl.envs.openspiel.task import SCALES, OpenSpielPay, OpenSpielTask
from veritas_rl.envs.openspiel.values.playouts import count_of
from veritas_rl.envs.openspiel.view import View
from veritas_rl.envs.task import MODES, PROMPTS, Task
from veritas_rl.seeding import generator

RANDOM_GAMES = 8
"""The number of random games that must have rotated results for a case to count as symmetric."""
MOST_CHANGES = 60
"""The maximum number of changed histories that are tried to find states that a player cannot distinguish."""

FEWER_PLAYOUTS = 4
"""The divisor of the number of playouts if an answer is only compared with itself."""

Step = tuple[int, ...]
"""The actions of one step of a history: one action, or one of each player for simultaneous moves."""


class OpenSpielAudit(Audit):
    """Facts from `pyspiel`, independent of sessions.

    Args:
        session_of: Makes a session for a turn of `redealt`, from a task, its game, and a decision.
        start: Makes the session of a task.
    """

    selection: ClassVar = ("game_types", ("hex", "go", "chess"))
    settings: ClassVar = {
        "num_tasks_per_case": (3, 5),
        "seed": (41, 43),
        "depth": (4, 6),
        "playouts": (16, 17),
        "reward": OpenSpielPay.rewards,
        "prompt": PROMPTS,
        "scale": SCALES,
        "mode": MODES,
    }

    def __init__(
        self, session_of: Callable[[OpenSpielTask, Game, Decision], Session], start: Callable[[OpenSpielTask], Session]
    ) -> None:
        self.session_of = session_of
        self.checks = SignalChecks(start).all()

    def facts(self, turn: Turn) -> TurnFacts:
        """The seats to move, and the turn's legal answers by number and by name."""
        view: View = turn.view
        game, state = load(view.case), view.state
        if state.is_terminal() or state.is_chance_node():
            return TurnFacts((), (), game.hidden)
        if state.is_simultaneous_node():
            to_act = tuple(seat for seat in range(state.num_players()) if state.legal_actions(seat))
        else:
            to_act = (state.current_player(),)
        if turn.seat not in to_act:
            return TurnFacts(to_act, (), game.hidden)
        names, notation = game.action_names(state, turn.seat), game.notation(state, turn.seat)
        legal = []
        for action in state.legal_actions(turn.seat):
            name, number = names[action], game.number(action)
            boxed = tuple(f"\\boxed{{{said}}}" for said in (name, *notation.others(name)))
            legal.append(LegalAnswer((text.answer(number), *boxed), f"{number}: {name}"))
        return TurnFacts(to_act, tuple(legal), game.hidden)

    def phase_lines(self, turn: Turn) -> Mapping[str, bool]:
        """Whether each line that shows a phase belongs in the turn's prompt, see `phases`."""
        view: View = turn.view
        return lines_of(load(view.case), view.state, turn.seat)

    def redealt(self, task: Task, count: int) -> Sequence[Turn] | None:
        """The task's turn with other hidden cards, resampled by the game if possible, and from changed histories.

        A changed history has one step replaced by another action, or two deals or two moves of one player exchanged.
        The result is used if it is legal and OpenSpiel's text for the player is the same: the information state or, if
        the game has no text for it, every observation in the history.
        """
        game = load(task.case)
        if task.mode != "move" or not game.hidden:
            return None
        asked = OpenSpielTask.of(task)
        state, seat = positions.decision_of(game.case, task.k, task.seed, asked.part, asked.parameters.depth)
        random = generator("redealt", task.id)
        others = []
        if game.can_resample:
            others = [game.resample(state, seat, random.random) for _ in range(count)]
            others = [other for other in others if other.history() != state.history()]
        others += itertools.islice(_observed_alike(game, state, seat, random), count)
        return [self.session_of(asked, game, (other, seat)).turns()[0] for other in others]

    def seats_alike(self, case: str) -> bool:
        """Whether all moves of a game are simultaneous and random games with rotated seats have rotated results.

        A game in turns is never symmetric, because one seat begins.
        """
        return _seats_alike(load(case).case)

    def question_count(self, task: Task) -> int | None:
        """The number of information states of the task's part and depth; None for a game that is too large to list."""
        asked = OpenSpielTask.of(task)
        return positions.count(task.case, asked.part, asked.parameters.depth)

    def coarse(self, task: Task) -> Task:
        """The task with fewer playouts."""
        playouts = count_of(task.case, OpenSpielTask.of(task).pay.playouts)
        return task.replace(playouts=max(2, playouts // FEWER_PLAYOUTS))

    def finer(self, task: Task) -> Task:
        """The task with proportional pay."""
        return task.replace(scale="utility")

    def pays_in_proportion(self, task: Task) -> bool:
        """Whether the pay is proportional to the result: on the scale "utility", and on "auto" in games of stakes."""
        scale = OpenSpielTask.of(task).pay.scale
        return scale == "utility" or (scale == "auto" and load(task.case).stakes)


@cache
def _seats_alike(case: str) -> bool:
    game = load(case)
    return game.simultaneous and all(
        _passed_round(game, generator("alike", case, index)) for index in range(RANDOM_GAMES)
    )


def _passed_round(game: Game, random: Random) -> bool:
    """Whether a random game has rotated results if every seat plays the moves of the previous seat."""
    state, other = game.spiel.new_initial_state(), game.spiel.new_initial_state()
    seats = range(game.players)
    while not state.is_terminal():
        if other.is_terminal() or state.current_player() != other.current_player():
            return False
        if state.is_chance_node():
            if state.chance_outcomes() != other.chance_outcomes():
                return False
            before = len(state.history())
            playing.apply_chance(state, random.random())
            other.apply_action(state.history()[before])
            continue
        if not state.is_simultaneous_node():
            return False  # the first player differs from the others, so the game is not symmetric
        if any(state.legal_actions(seat) != other.legal_actions((seat + 1) % game.players) for seat in seats):
            return False
        actions = [random.choice(state.legal_actions(seat) or [0]) for seat in seats]
        state.apply_actions(actions)
        other.apply_actions([actions[seat - 1] for seat in seats])
    returns, passed = state.returns(), other.returns()
    return other.is_terminal() and [passed[(seat + 1) % game.players] for seat in seats] == returns


def _observed_alike(game: Game, state: State, player: int, random: Random) -> Iterator[State]:
    """States of other histories with the same observations of the player, in random order."""
    steps = _steps(game, state)
    observed = _observed(game, steps, player)
    for changed in _changes(game, steps, player, random):
        if _observed(game, changed, player) == observed:
            yield playing.replay(game, tuple(itertools.chain(*changed)))


def _steps(game: Game, state: State) -> list[Step]:
    """A state's history, divided into steps."""
    copy, steps, history = game.spiel.new_initial_state(), [], state.history()
    while len(copy.history()) < len(history):
        start = len(copy.history())
        step = tuple(history[start : start + (game.players if copy.is_simultaneous_node() else 1)])
        _apply(copy, step)
        steps.append(step)
    return steps


def _changes(game: Game, steps: Sequence[Step], player: int, random: Random) -> Iterator[list[Step]]:
    """At most `MOST_CHANGES` changed histories, some of them illegal."""
    state = game.spiel.new_initial_state()
    movers, options = [], []
    for step in steps:
        movers.append(state.current_player())
        options.append(_options(game, state, step, player))
        _apply(state, step)
    for _ in range(MOST_CHANGES):
        first, second = random.randrange(len(steps) or 1), random.randrange(len(steps) or 1)
        if not steps or movers[first] == player:
            continue
        changed = list(steps)
        if first == second or movers[first] != movers[second] or steps[first] == steps[second]:
            if not options[first]:
                continue
            changed[first] = random.choice(options[first])
        else:
            changed[first], changed[second] = steps[second], steps[first]
        yield changed


def _options(game: Game, state: State, step: Step, player: int) -> list[Step]:
    """The alternatives to one step with the same action of the player."""
    if len(step) == 1:
        return [(action,) for action in state.legal_actions() if action != step[0]]
    return [
        (*step[:seat], action, *step[seat + 1 :])
        for seat in range(game.players)
        if seat != player
        for action in state.legal_actions(seat)
        if action != step[seat]
    ]


def _observed(game: Game, steps: Sequence[Step], player: int) -> list[str] | None:
    """The player's information at the end of a history; None if the history is illegal."""
    state, recalls = game.spiel.new_initial_state(), game.type.provides_information_state_string
    observed = []
    for step in steps:
        if state.is_terminal() or not _allowed(state, step):
            return None
        _apply(state, step)
        if not recalls and not state.is_chance_node():
            observed.append(state.observation_string(player))
    if state.is_terminal() or state.is_chance_node() or player not in game.movers(state):
        return None
    return [state.information_state_string(player)] if recalls else observed


def _allowed(state: State, step: Step) -> bool:
    if state.is_simultaneous_node():
        return len(step) == state.num_players() and all(
            action in (state.legal_actions(seat) or [0]) for seat, action in enumerate(step)
        )
    return len(step) == 1 and step[0] in state.legal_actions()


def _apply(state: State, step: Step) -> None:
    if state.is_simultaneous_node():
        state.apply_actions(list(step))
    else:
        state.apply_action(step[0])
