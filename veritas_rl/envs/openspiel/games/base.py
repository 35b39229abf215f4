"""One OpenSpiel game as a model meets it: rules, board, action names, and which positions are the same problem.

`Game` itself is the generic description: it serves every OpenSpiel game from what the library prints for one player. A
file beside this one describes one game in our own words by overriding it. Everything here is shown to, or keyed by, ONE
player: `str(state)` is never used where a game hides something, because it prints every hand.
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
"""A `pyspiel.State`. Its subclasses carry methods that the library's stubs do not know."""

_EXACT = Notation()

_CELL = re.compile(r"(?<![a-wyz])[a-z][1-9][0-9]?(?![0-9])")
"""A cell in the name of a move; in "a2b3" and "a2xb3" both count."""

Decision = tuple[State, int]
"""A state and the seat that is asked there: the player to move, or one of several that move at once."""


class Game:
    """The generic description; the base of every described game.

    Args:
        case: The canonical case, such as "hex(board_size=5)".
        spiel: The loaded game.
    """

    default_cases: ClassVar[tuple[str, ...]] = ()
    """The cases played when a user names the game alone."""
    limits: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """The parameters that the description covers, each with its least and greatest value; one that is a string with
    all its values."""
    budget: ClassVar[tuple[int, int] | None] = (200, 20)
    """Simulations and rollouts of each for a search at full strength, `mcts:full`; None where only random play is of
    use."""
    most_moves: ClassVar[int] = 2_000
    """No whole game has more moves than this, where its rules set no lower bound."""
    playout_moves: ClassVar[int | None] = None
    """Random playouts that value a single move stop after so many moves of all seats; None plays them to the end."""
    deal_moves: ClassVar[int] = 0
    """How many random moves `resample` takes as long as: a playout that starts from a deal of its own costs so much
    more."""
    grade_moves: ClassVar[int] = 0
    """How many random moves `graded` takes as long as."""
    unit: ClassVar[str] = "points"
    """What the returns count, where their size matters."""
    walk_skills: ClassVar[tuple[float, ...]] = (0.0, 0.5, 0.9)
    """How often the players on the way to a single move's position choose well; each seat draws one of these."""
    walk_thirds: ClassVar[tuple[int | None, ...]] = (0, 1, 2, None)
    """In which third of the game single moves' positions lie, task by task in turn; None: in any."""
    screening_moves: ClassVar[int | None] = None
    """How many moves of playouts may be spent to see whether the moves of a position differ; None for the usual."""
    margin_unit: ClassVar[float | None] = None
    """The `margin` that is worth half as much as there is to win; None where a game has no margin."""
    result_share: ClassVar[float] = 0.8
    """How much of `graded` winning and losing decide; the margin decides the rest."""
    return_unit: ClassVar[float | None] = None
    """On the scale "auto" the return that is worth 3/4 in a game of stakes, and 1/2 in a game for one; None pays in
    proportion to the return."""
    loss_unit: ClassVar[float | None] = None
    """The reward "optimal" pays 1/2 for a move that loses so much of the expected return at equilibrium; None pays in
    proportion to the range of returns."""
    solver_nodes: ClassVar[int] = 8_000
    """How many states may be reached to solve a late position; fewer where a state takes long, 0 for none."""
    written: ClassVar[str] = ""
    """How a move is written, for prompts that list none, where the rules do not say it."""
    brief_shows_actions: ClassVar[bool] = False
    """Whether `brief` shows the number of every legal action in its place, so that no list of them is needed."""
    brief_signs: ClassVar[str] = "+-="
    """What `brief` may put before the number of a cell or card to say what is there."""

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
        """A state at the start of the game. To copy one takes OpenSpiel a hundredth of the time in gin rummy."""
        return self._root.clone()

    @property
    def short_name(self) -> str:
        return self.case.partition("(")[0]

    @cached_property
    def hidden(self) -> bool:
        """Whether players know different things."""
        return self.type.information != pyspiel.GameType.Information.PERFECT_INFORMATION

    @cached_property
    def simultaneous(self) -> bool:
        """Whether several players may be asked at once."""
        return self.type.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS

    @cached_property
    def has_chance(self) -> bool:
        """Whether anything is dealt or rolled."""
        return self.type.chance_mode != pyspiel.GameType.ChanceMode.DETERMINISTIC

    @cached_property
    def zero_sum(self) -> bool:
        return self.type.utility in (pyspiel.GameType.Utility.ZERO_SUM, pyspiel.GameType.Utility.CONSTANT_SUM)

    @cached_property
    def solvable(self) -> bool:
        """Whether minimax defines its values: two players in turn, zero-sum, nothing hidden, no chance, paid at the
        end."""
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
        """Whether players play for the size of the return and not for winning, so that the scale "auto" pays it."""
        return False

    @cached_property
    def max_moves(self) -> int:
        """The most moves of a whole game, all seats together: at least 99% of random games end by the rules before."""
        return min(self.most_moves, self.spiel.max_game_length() * (self.players if self.simultaneous else 1))

    @property
    def is_graded(self) -> bool:
        """Whether `graded` says more than who won, so that it has to be asked at the end of each playout."""
        return self.margin_unit is not None or type(self).graded is not Game.graded

    def playout_limit(self, state: State) -> int | None:
        """After how many moves of all seats a random playout stops that values a move made in a state; None: at the
        end of the game."""
        return self.playout_moves

    def outcome(self, returns: Sequence[float], player: int, scale: str = "auto") -> float:
        """The value in [0, 1] of a finished game with these returns.

        Args:
            returns: Of each player.
            player: Whose value is asked.
            scale: On "result" a zero-sum game pays 1 for a win, 0.5 for a draw and 0 for a loss, whatever the size of
                the return; on "utility" in proportion to the return, (r - min) / (max - min). "auto" is "result", but
                in a game of stakes it pays the return: 1/2 (1 + r / (|r| + `return_unit`)), or as "utility" where the
                game has no such unit. A game for one pays as "utility" on all three; one with a unit pays
                r / (r + `return_unit`) on the other two. Players with interests of their own (general sum) are
                ranked: of P players rank i, from 0, gets 1 - i / (P - 1), and equal ones share the better rank; two
                equal ones get 0.5.
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
        """How far a player is ahead of the others in a state that may be unfinished, in `margin_unit`'s unit.

        With hidden information it may use what the player knows alone, or `gained` must be overridden.
        """
        return 0.0

    def measures(self, state: State, player: int) -> dict[str, float]:
        """What the game itself counts in a state, by name, for reports; no reward depends on it."""
        return {}

    def gained(self, start: State, end: State, player: int) -> float:
        """How much a player's margin grew from one state to another."""
        return self.margin(end, player) - self._start_margin(start, player)

    def _start_margin(self, start: State, player: int) -> float:
        """The margin of a state that many playouts start from, counted once for all of them."""
        moves, kept = start.move_number(), self._kept_margin
        if kept is None or kept[0] is not start or kept[1:3] != (player, moves):
            kept = self._kept_margin = (start, player, moves, self.margin(start, player))
        return kept[3]

    def graded(self, start: State, end: State, player: int, scale: str) -> float:
        """What it is worth to a player to have reached one state from another, in [0, 1].

        Where a game has a margin, a part of the value is what the margin gained on the way. Let g be `share` of that.
        An unfinished game is worth 1/2 (1 + R g), with R = `result_share`, and a drawn one the same with no margin at
        the end. A win is worth 1/2 (1 + R + (1 - R) g), where g counts as 0 if the margin shrank, and a loss as much
        less than 1/2. So a win is worth more than a draw or an unfinished game, and these more than a loss. A game of
        stakes that is over pays its outcome, and a game for one 1/2 (1 + g), where g is the share of the points gained.
        Without a margin a game pays its outcome, or 0.5 if it is unfinished; a game for one what was gained.

        Args:
            start: Where the valued moves begin. It may be a resampled state's original, with other hidden cards.
            end: Where they end; the game may be unfinished there.
            player: Whose value is asked.
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
        """The rules, complete enough to play by."""
        given = {name: value for name, value in sorted(self.parameters.items()) if isinstance(value, int | float | str)}
        extra = ", ".join(f"{name} = {value}" for name, value in given.items())
        return (
            f"You are playing {self.type.long_name} by its usual rules, as OpenSpiel implements them"
            f" ({self.players} player{'s' if self.players > 1 else ''}, counted from 0{'; ' + extra if extra else ''})."
        )

    def objective(self, scale: str) -> str:
        """What a player should aim at, as the full prompt says it: what `outcome` pays on a scale."""
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
        """What a player is called, such as "player 0 (x)"."""
        return f"player {player}"

    def position(self, state: State, player: int) -> str:
        """What this player sees, as in the full prompt; once the game is over too."""
        return "\n".join(line.rstrip() for line in self.visible(state, player).strip("\n").splitlines())

    def brief(self, state: State, player: int) -> str:
        """What this player sees in as few characters as possible, the player's own mark first."""
        return f"{player}\n{self.position(state, player)}"

    @property
    def brief_cells(self) -> int:
        """How many cells, lines or cards `brief` names by a sign and a number, as in "+12"; 0 where it draws them."""
        return 0

    @property
    def words(self) -> tuple[str, ...]:
        """What brief prompts and answers are made of beside single characters: the numbers of actions, and cells.

        A model that is made on the spot reads each as one token, so that it can find among the legal actions what it
        writes.
        """
        if self.brief_shows_actions:
            return ()
        numbers = [str(number) for number in range(self.spiel.num_distinct_actions() + 1)]
        cells = [f" {sign}{cell}" for sign in self.brief_signs for cell in range(self.brief_cells)]
        return (*[number for number in numbers if len(number) > 1], *[f" {number}" for number in numbers], *cells)

    def visible(self, state: State, player: int) -> str:
        """OpenSpiel's own text for one player: with hidden information the one that recalls all this player saw."""
        sources = [
            (self.type.provides_observation_string, lambda: state.observation_string(player)),
            (self.type.provides_information_state_string, lambda: state.information_state_string(player)),
        ]
        for provided, text in reversed(sources) if self.hidden else sources:
            if provided:
                return text()
        return str(state)  # nothing is hidden: __init__ refuses the other games

    def action_name(self, state: State, player: int, action: int) -> str:
        """A short name of a player's legal action: words with single spaces between them."""
        return " ".join(state.action_to_string(player, action).split())

    def cells(self, state: State, player: int, action: int, name: str) -> tuple[str, ...]:
        """The cells of the board by which a person points at an action of this name: those that the name holds."""
        return tuple(_CELL.findall(name))

    def action_names(self, state: State, player: int) -> dict[int, str]:
        """The name of each of a player's legal actions, by OpenSpiel's action number, in ascending order.

        A name is unique among them, case aside only where OpenSpiel's names differ by case, and never the number of
        another action.
        """
        names = {action: self.action_name(state, player, action) for action in state.legal_actions(player)}
        told = set(names.values())
        if len(told) == len(names) and "" not in told and not any(map(str.isdigit, told)):
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
        """The number by which an action is listed and answered; one for each action of the game."""
        return action

    def action(self, number: int) -> int:
        """The action that has a number."""
        return number

    def listed(self, names: Mapping[int, str]) -> Mapping[int, str]:
        """The names of actions, given by action, by the number of each."""
        return names

    def notation(self, state: State, player: int) -> Notation:
        """How a player's legal actions may be written beside their names."""
        return _EXACT

    def information_key(self, state: State, player: int) -> str:
        """What a player who is asked knows: two states with one key are one decision."""
        return f"{player}|{self.visible(state, player)}"

    def symmetry_key(self, state: State, player: int) -> str:
        """The information state up to the game's symmetries that leave the player's problem as it is."""
        return self.information_key(state, player)

    def state_key(self, state: State) -> str:
        """The true state: two states with one key have the same continuations and returns."""
        return " ".join(map(str, state.history()))

    def resample(self, state: State, player: int, uniform: Callable[[], float]) -> State:
        """A state drawn from a player's information state: what this player cannot see is dealt anew.

        Args:
            state: Where the player is asked.
            player: Who.
            uniform: Numbers in [0, 1), the only source of chance.
        """
        return state.resample_from_infostate(player, uniform) if self.hidden else state.clone()

    @cached_property
    def can_resample(self) -> bool:
        """Whether `resample` works; several games with hidden information do not offer it."""
        random = generator("can resample", self.case)  # dice, because some games deal until a deal fits
        state = self.spiel.new_initial_state()
        while state.is_chance_node():
            state.apply_action(random.choice(state.legal_actions()))
        try:
            self.resample(state, self.movers(state)[0], random.random)
        except pyspiel.SpielError:
            return False
        return True

    def sensible_action(self, state: State, random: Random) -> int | None:
        """A legal action as a player with some sense would choose it, by what the player to move knows.

        Positions are reached by such players among others. None leaves the choice to a general way to choose.
        """
        return None

    def movers(self, state: State) -> tuple[int, ...]:
        """The players who are asked now: one, several where moves are simultaneous, none at chance and at the end."""
        if self.simultaneous and state.is_simultaneous_node():
            return tuple(player for player in range(self.players) if state.legal_actions(player))
        player = state.current_player()
        return (player,) if player >= 0 else ()

    def apply(self, state: State, actions: Mapping[int, int]) -> None:
        """Play the action of each player who was asked, in place."""
        if self.simultaneous and state.is_simultaneous_node():
            state.apply_actions([actions.get(player, 0) for player in range(self.players)])
        else:
            state.apply_action(actions[state.current_player()])


def share(gain: float, unit: float) -> float:
    """A gain or loss as a share of what there is to win, in (-1, 1): 1/2 for a gain of `unit`, 0 for none."""
    return gain / (abs(gain) + unit)


def letters(count: int) -> str:
    """The names of `count` columns: "abc...", at most 26."""
    return "abcdefghijklmnopqrstuvwxyz"[:count]


def card_rank(rank: int, ranks: int) -> str:
    """A card's name in a toy poker deck: J, Q, K, then A; numbers from 1 where a deck has more ranks than these."""
    return "JQKA"[rank] if ranks <= 4 else str(rank + 1)
