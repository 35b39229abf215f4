"""The description of an OpenSpiel game for a model: rules, board, action names, and equivalent positions.

`Game` is the generic description. It serves every OpenSpiel game with the text that the library prints for one player.
Each other file of this folder describes one game by overriding it. All texts and keys are for ONE player: `str(state)`
is never used if a game has hidden information, because it prints every hand.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any, ClassVar

import pyspiel

from veritas_rl.envs.openspiel.notation import Notation
from veritas_rl.errors import UserError
from veritas_rl.seeding import generator

State = Any
"""A `pyspiel.State`. Its subclasses have methods that the library's stubs lack."""

_EXACT = Notation()

_CELL = re.compile(r"(?<![a-wyz])[a-z][1-9][0-9]?(?![0-9])")
"""A cell in the name of a move; "a2b3" and "a2xb3" have two."""

Decision = tuple[State, int]
"""A state and a seat to move: the player to move, or one of several that move simultaneously."""


class Game:
    """The generic description; the base of every described game.

    Args:
        case: The canonical case, such as "hex(board_size=5)".
        spiel: The loaded game.
    """

    default_cases: ClassVar[tuple[str, ...]] = ()
    """The cases that the game's bare name selects."""
    limits: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """The parameters that the description covers, each with its smallest and largest value; a text parameter with all
    its values."""
    budget: ClassVar[tuple[int, int] | None] = (200, 20)
    """The simulations, and the rollouts of each simulation, of a search at full strength, `mcts:full`; None if search
    is not useful."""
    most_moves: ClassVar[int] = 2_000
    """The maximum number of moves of a whole game, unless its rules set a lower limit."""
    small_model_steps: ClassVar[int | None] = None
    """The training steps of single moves for the small model of the CPU settings, fewer where a step takes long; None
    for the usual number."""
    playout_moves: ClassVar[int | None] = None
    """The maximum number of moves, over all seats, of a random playout that values a single move; None for no limit."""
    deal_moves: ClassVar[int] = 0
    """The cost of `resample` in random moves, which is added to a playout with its own deal."""
    grade_moves: ClassVar[int] = 0
    """The cost of `graded` in random moves."""
    unit: ClassVar[str] = "points"
    """The unit of the returns, if their size matters."""
    walk_skills: ClassVar[tuple[float, ...]] = (0.0, 0.5, 0.9)
    """The possible rates of good moves in a walk to a position; each seat draws one of these rates."""
    walk_thirds: ClassVar[tuple[int | None, ...]] = (0, 1, 2, None)
    """The thirds of the game from which tasks take their positions, in turn; None for any third."""
    screening_moves: ClassVar[int | None] = None
    """The maximum number of playout moves to screen a position, see `positions.screening`; None for the default."""
    margin_unit: ClassVar[float | None] = None
    """The `margin` whose value is half of the maximum; None if the game has no margin."""
    result_share: ClassVar[float] = 0.8
    """The share of `graded` that depends on winning and losing; the rest depends on the margin."""
    return_unit: ClassVar[float | None] = None
    """The return that has the value 3/4 in a game of stakes, and 1/2 in a game for one player, on the scale "auto";
    None for values proportional to the return."""
    loss_unit: ClassVar[float | None] = None
    """The loss of estimated value, in [0, 1], for which the reward "optimal" pays 1/2; None to pay 1 minus the loss. A
    game needs this unit if the moves of most positions differ by little. Without it an illegal reply costs so much more
    than the worst move that a model only learns to reply legally."""
    solver_nodes: ClassVar[int] = 8_000
    """The maximum number of states visited to solve a late position; fewer for slow games, 0 for no search."""
    written: ClassVar[str] = ""
    """The notation of moves, for prompts without a list of moves, if the rules do not state it."""
    brief_shows_actions: ClassVar[bool] = False
    """Whether `brief` shows the number of every legal action at its place, so that it needs no list."""
    brief_signs: ClassVar[str] = "+-="
    """The signs that `brief` may write before the number of a cell or card to show its content."""

    def __init__(self, case: str, spiel: Any) -> None:
        self.case = case
        self.spiel = spiel
        self.type = spiel.get_type()
        self.parameters: dict[str, Any] = spiel.get_parameters()
        self.players: int = spiel.num_players()
        self._kept_margin: tuple[State, int, int, float] | None = None
        readable = self.type.provides_observation_string or self.type.provides_information_state_string
        if self.hidden and not readable:
            raise UserError(f"{case} cannot be played: OpenSpiel has no text for what one of its players may see")

    @cached_property
    def _root(self) -> State:
        return self.spiel.new_initial_state()

    def new_game(self) -> State:
        """A copy of the initial state. In gin rummy a copy is 100 times as fast as a new state."""
        return self._root.clone()

    @property
    def short_name(self) -> str:
        return self.case.partition("(")[0]

    @cached_property
    def hidden(self) -> bool:
        """Whether the game has hidden information."""
        return self.type.information != pyspiel.GameType.Information.PERFECT_INFORMATION

    @cached_property
    def simultaneous(self) -> bool:
        """Whether the game has simultaneous moves."""
        return self.type.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS

    @cached_property
    def has_chance(self) -> bool:
        """Whether the game has chance."""
        return self.type.chance_mode != pyspiel.GameType.ChanceMode.DETERMINISTIC

    @cached_property
    def zero_sum(self) -> bool:
        return self.type.utility in (pyspiel.GameType.Utility.ZERO_SUM, pyspiel.GameType.Utility.CONSTANT_SUM)

    @cached_property
    def solvable(self) -> bool:
        """Whether minimax applies: two players in turn, zero-sum, perfect information, no chance, terminal returns."""
        return (
            self.players == 2
            and self.zero_sum
            and not self.hidden
            and not self.simultaneous
            and not self.has_chance
            and self.type.reward_model == pyspiel.GameType.RewardModel.TERMINAL
        )

    @property
    def stakes(self) -> bool:
        """Whether the size of the return matters instead of winning, so that the scale "auto" pays the return."""
        return False

    @cached_property
    def max_moves(self) -> int:
        """The most moves of a whole game, over all seats. At least 99% of random games end earlier by the rules."""
        return min(self.most_moves, self.spiel.max_game_length() * (self.players if self.simultaneous else 1))

    @property
    def is_graded(self) -> bool:
        """Whether `graded` depends on more than the winner, so that each playout must compute it."""
        return self.margin_unit is not None or type(self).graded is not Game.graded

    def playout_limit(self, state: State) -> int | None:
        """The most moves, of all seats, of a random playout that values a move in a state; None for no limit."""
        return self.playout_moves

    def outcome(self, returns: Sequence[float], player: int, scale: str = "auto") -> float:
        """The value in [0, 1] of a finished game with these returns.

        Args:
            returns: The return of each player.
            player: The player of the value.
            scale: "result" pays 1 for a win, 0.5 for a draw and 0 for a loss of a zero-sum game. "utility" pays in
                proportion to the return, (r - min) / (max - min). "auto" is "result", but in a game of stakes it pays
                the return, 1/2 (1 + r / (|r| + `return_unit`)), or as "utility" if the game has no such unit. A game
                for one player pays as "utility" on all three scales; with a unit it pays r / (r + `return_unit`) on
                "result" and "auto". Players of a general-sum game are ranked: of P players rank i, from 0, gets 1 - i /
                (P - 1), and equal players share the better rank; two equal players get 0.5.
        """
        mine = returns[player]
        if self.players > 1 and not self.zero_sum:
            better = sum(other > mine for other in returns)
            if self.players == 2:
                return 0.0 if better else 1.0 if min(returns) < mine else 0.5
            return 1.0 - better / (self.players - 1)
        if self.players == 1 and self.return_unit and scale != "utility":
            return max(0.0, share(mine, self.return_unit))
        if self.players > 1 and self.stakes and self.return_unit and scale == "auto":
            return 0.5 + 0.5 * share(mine, self.return_unit)
        if self.players > 1 and (scale == "result" or (scale == "auto" and not self.stakes)):
            return 0.5 * (1 + (mine > 0) - (mine < 0))
        least, greatest = self.spiel.min_utility(), self.spiel.max_utility()
        return min(1.0, max(0.0, (mine - least) / (greatest - least))) if greatest > least else 0.5

    def margin(self, state: State, player: int) -> float:
        """A player's lead over the others in a state that may be unfinished, in the unit of `margin_unit`.

        With hidden information it may use only the player's information, or `gained` must be overridden.
        """
        return 0.0

    def measures(self, state: State, player: int) -> dict[str, float]:
        """The game's own measures of a state, such as points, by name, for reports; no reward depends on them."""
        return {}

    def gained(self, start: State, end: State, player: int) -> float:
        """The growth of a player's margin from one state to another."""
        return self.margin(end, player) - self._start_margin(start, player)

    def _start_margin(self, start: State, player: int) -> float:
        """The margin of the initial state of many playouts, computed once."""
        moves, kept = start.move_number(), self._kept_margin
        if kept is None or kept[0] is not start or kept[1:3] != (player, moves):
            kept = self._kept_margin = (start, player, moves, self.margin(start, player))
        return kept[3]

    def graded(self, start: State, end: State, player: int, scale: str) -> float:
        """The value for a player of reaching one state from another, in [0, 1].

        If a game has a margin, the value depends on the growth of the margin from `start` to `end`. Let g be the
        `share` of this growth, and R = `result_share`. An unfinished game is worth 1/2 (1 + R g), and a drawn game the
        same with a final margin of 0. A win is worth 1/2 (1 + R + (1 - R) g), where g counts as 0 if the margin shrank.
        A loss is worth 1/2 (1 - R + (1 - R) g), where g counts as 0 if the margin grew. So a win is worth more than a
        draw or an unfinished game, and these are worth more than a loss. On the scale "utility", and on "auto" in a
        game of stakes, a finished game pays its outcome. A game for one player pays 1/2 (1 + g), where g is the share
        of the gained return. Without a margin a game pays its outcome, or 0.5 if it is unfinished, and a game for one
        player pays the outcome of the gained return.

        Args:
            start: The state before the valued moves. It may be the original of a resampled state, with other hidden
                cards.
            end: The state after the valued moves; the game may be unfinished.
            player: The player of the value.
            scale: See `outcome`.
        """
        over = end.is_terminal()
        if self.players == 1:
            gained = end.player_return(0) - start.player_return(0)
            if self.margin_unit is None or scale == "utility":
                return self.outcome([gained], 0, scale)
            return 0.5 + 0.5 * share(gained, self.margin_unit)
        if over and (self.margin_unit is None or scale == "utility" or (scale == "auto" and self.stakes)):
            return self.outcome(end.returns(), player, scale)
        if self.margin_unit is None:
            return 0.5
        result = 2 * self.outcome(end.returns(), player, "result") - 1 if over else 0.0
        decided = self.result_share
        if not result:
            gained = -self._start_margin(start, player) if over else self.gained(start, end, player)
            return 0.5 + 0.5 * decided * share(gained, self.margin_unit)
        sign = 1 if result > 0 else -1
        gained = max(0.0, sign * self.gained(start, end, player))
        return 0.5 + 0.5 * (decided * result + sign * (1 - decided) * share(gained, self.margin_unit))

    def rules(self) -> str:
        """The rules, complete enough for play."""
        given = {name: value for name, value in sorted(self.parameters.items()) if isinstance(value, int | float | str)}
        extra = ", ".join(f"{name} = {value}" for name, value in given.items())
        return (
            f"You are playing {self.type.long_name} by its usual rules, as OpenSpiel implements them"
            f" ({self.players} player{'s' if self.players > 1 else ''}, counted from 0{'; ' + extra if extra else ''})."
        )

    def objective(self, scale: str) -> str:
        """The aim of a player in the full prompt, which follows from what `outcome` pays on a scale."""
        ends = (self.spiel.min_utility(), self.spiel.max_utility())
        if ends == (-1, 1) and (self.zero_sum or self.players == 1):
            return "Your aim is to win."
        if self.players == 1:
            return f"Your aim is to gain as many {self.unit} as you can from here on."
        if not self.zero_sum:
            better = (
                "end with a better result than the other player"
                if self.players == 2
                else "be ranked as high as you can"
            )
            return f"Your aim is to {better}; by how many {self.unit} does not matter."
        if scale == "utility" or (scale == "auto" and self.stakes):
            gained = f"gain as many {self.unit} as you can on average, losses subtracted"
            if scale == "auto" and self.return_unit:
                return f"Your aim is to {gained}; the larger a gain or loss already is, the less each more counts."
            return f"Your aim is to {gained}; how often you win does not matter."
        meaning = f", that is, to gain more than 0 {self.unit}; how many does not matter" if self.stakes else ""
        return f"Your aim is to win{meaning}."

    def role(self, player: int) -> str:
        """The name of a player, such as "player 0 (x)"."""
        return f"player {player}"

    def position(self, state: State, player: int) -> str:
        """The player's view of the position in the full prompt, also after the end."""
        return "\n".join(line.rstrip() for line in self.visible(state, player).strip("\n").splitlines())

    def brief(self, state: State, player: int) -> str:
        """The player's view in as few characters as possible, with the player's own mark first."""
        return f"{player}\n{self.position(state, player)}"

    @property
    def brief_cells(self) -> int:
        """The number of cells, lines or cards that `brief` names by a sign and a number, such as "+12"; 0 if it draws
        them."""
        return 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words of brief prompts and answers, in addition to single characters: action numbers and cells.

        A new small model has one token for each of these words, so that it can copy a legal action into its answer.
        """
        if self.brief_shows_actions:
            return ()
        numbers = [str(number) for number in range(self.spiel.num_distinct_actions() + 1)]
        cells = [f" {sign}{cell}" for sign in self.brief_signs for cell in range(self.brief_cells)]
        return (*[number for number in numbers if len(number) > 1], *[f" {number}" for number in numbers], *cells)

    def visible(self, state: State, player: int) -> str:
        """OpenSpiel's text for one player; with hidden information, the text of everything that the player has seen."""
        sources = [
            (self.type.provides_observation_string, lambda: state.observation_string(player)),
            (self.type.provides_information_state_string, lambda: state.information_state_string(player)),
        ]
        for provided, text in reversed(sources) if self.hidden else sources:
            if provided:
                return text()
        return str(state)  # the game has no hidden information, because __init__ refuses other games

    def action_name(self, state: State, player: int, action: int) -> str:
        """A short name of a player's legal action, in words with single spaces."""
        return " ".join(state.action_to_string(player, action).split())

    def cells(self, state: State, player: int, action: int, name: str) -> tuple[str, ...]:
        """The cells of the board that select the action: those in its name."""
        return tuple(_CELL.findall(name))

    def action_names(self, state: State, player: int) -> dict[int, str]:
        """The name of each of a player's legal actions, by OpenSpiel's action number, in ascending order.

        A name is unique, and never the number of another action. No two names differ only in case, unless OpenSpiel's
        names do.
        """
        names = {action: self.action_name(state, player, action) for action in state.legal_actions(player)}
        distinct = set(names.values())
        if len(distinct) == len(names) and "" not in distinct and not any(map(str.isdigit, distinct)):
            return names  # as in nearly every game
        taken: dict[str, int] = {}
        for name in names.values():
            taken[name] = taken.get(name, 0) + 1
        return {
            action: name
            if taken[name] == 1 and name and (name == str(action) or not name.isdigit())
            # A bare number that is not the action's own could be read as another action.
            else f"{name or 'action'} (number {action})"
            for action, name in names.items()
        }

    def number(self, action: int) -> int:
        """The number of an action in lists and answers, unique in the game."""
        return action

    def action(self, number: int) -> int:
        """The action with a number in lists and answers."""
        return number

    def listed(self, names: Mapping[int, str]) -> Mapping[int, str]:
        """The name of each action by its number, from the names by action."""
        return names

    def notation(self, state: State, player: int) -> Notation:
        """The notation of a player's legal actions, in addition to their names."""
        return _EXACT

    def information_key(self, state: State, player: int) -> str:
        """The information of the player to move; states with the same key are the same decision."""
        return f"{player}|{self.visible(state, player)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """The information state up to symmetries of the game that do not change the player's problem."""
        return self.information_key(state, player)

    def state_key(self, state: State) -> str:
        """The true state; states with the same key have the same continuations and returns."""
        return " ".join(map(str, state.history()))

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """A state drawn from a player's information state, with hidden information dealt again.

        Args:
            state: The state of the decision.
            player: The player.
            uniform: Returns numbers in [0, 1), the only source of randomness.
        """
        return state.resample_from_infostate(player, uniform) if self.hidden else state.clone()

    @cached_property
    def can_resample(self) -> bool:
        """Whether `resample` works; several games with hidden information do not support it."""
        random = generator(
            "can resample", self.case
        )  # dice instead of fixed numbers, because some games deal until a deal fits
        state = self.spiel.new_initial_state()
        while state.is_chance_node():
            state.apply_action(random.choice(state.legal_actions()))
        try:
            self.resample(state, self.movers(state)[0], random.random)
        except pyspiel.SpielError:
            return False
        return True

    def sensible_action(self, state: State, random: Random) -> int | None:
        """A sensible legal action, from the information of the player to move.

        The players of `positions.walks` use it for good moves. None selects their look-ahead.
        """
        return None

    def movers(self, state: State) -> tuple[int, ...]:
        """The players to move: one, several for simultaneous moves, none at chance nodes and at the end."""
        if self.simultaneous and state.is_simultaneous_node():
            return tuple(player for player in range(self.players) if state.legal_actions(player))
        player = state.current_player()
        return (player,) if player >= 0 else ()

    def apply(self, state: State, actions: Mapping[int, int]) -> None:
        """Apply the action of each player to move, in place."""
        if self.simultaneous and state.is_simultaneous_node():
            state.apply_actions([actions.get(player, 0) for player in range(self.players)])
        else:
            state.apply_action(actions[state.current_player()])


def share(gain: float, unit: float) -> float:
    """A gain or loss as a share of the maximum, in (-1, 1): 1/2 for a gain of `unit`, 0 for none."""
    return gain / (abs(gain) + unit)


def letters(count: int) -> str:
    """The names of `count` columns: "abc...", at most 26."""
    return "abcdefghijklmnopqrstuvwxyz"[:count]


def card_rank(rank: int, ranks: int) -> str:
    """A card's name in a toy poker deck: J, Q, K, A; numbers from 1 if a deck has more ranks."""
    return "JQKA"[rank] if ranks <= 4 else str(rank + 1)
