"""OpenSpiel games as an environment: single moves ("move") and whole games ("episode") through the one protocol."""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

from veritas_rl.envs.base import (
    CONTEXTS,
    MODES,
    PROMPTS,
    REWARD_MODES,
    SCALES,
    SPLITS,
    Audit,
    Environment,
    Reason,
    Reply,
    Score,
    Session,
    Task,
    Turn,
)
from veritas_rl.envs.openspiel import cases as case_names
from veritas_rl.envs.openspiel import ids, positions, scoring, text
from veritas_rl.envs.openspiel.audit import OpenSpielAudit
from veritas_rl.envs.openspiel.games import Decision, Game, State
from veritas_rl.envs.openspiel.parsing import parse
from veritas_rl.errors import UserError, unknown
from veritas_rl.seeding import digest

QUOTED_CHARACTERS = 2000
"""How much of a mistake is shown to the player who may make it good."""


@dataclass(frozen=True)
class OpenSpielConfig:
    """The keys of `adapter_config`. Sequences and mappings of any kind, and strings with commas, become tuples.

    Attributes:
        cases: Cases such as "hex(board_size=5)"; with those of `game_list`, what is played. Afterwards: the canonical
            cases that are played.
        game_list: Games by short name.
        game_configs: For games of `game_list` the parameters of each case: {"hex": [{"board_size": 5}]}, or a list
            parallel to `game_list`. A game without any gives its plain case.
        game_types: Short names and cases that select among the cases, or from OpenSpiel's games; "" selects all.
        allowed_game_indices: Instead of cases: games by their index in the numbering of task ids. Task number k of a
            game is its variant k.
        task_ids: Instead of cases: task ids of 12 digits, each one task.
        only_small: Whether of all these only the small cases are played, as far as there are any.
        fallback_cases: What is played where nothing above says so. Default: every described game.
        num_tasks_per_case: Tasks of each case.
        max_random_steps: The most random moves before a single move's position; None for any of a random game.
        reward_mode: "legal", "outcome" or "optimal", see `OpenSpielSession`.
        seed: The seed of the set of tasks.
        mode: "move" or "episode".
        opponent: The player of the other seats of a whole game; "none" leaves them to whoever plays the session, "self"
            to the model that is trained, which then meets "random" in validation.
        past_opponent_share: With opponent=self, the share of games against an earlier checkpoint of the same run.
        prompt: "full", "unlisted" (without the list of legal actions) or "brief".
        scale: "result" or "utility", see `scoring`.
        playouts: Random playouts for the value of a single move, where it is not exact.
        context: "turn" or "conversation", in whole games.
        illegal: What a mistake does in a whole game: "forfeit", or "retry:N" for N more tries first.
        max_moves: The most moves of a whole game, all seats together.
        gamma: The discount of the reward for each later move of the same seat.
        legal_share: The share of the reward that is paid for a legal answer as such.

    Raises:
        UserError: A value cannot work; the message says which, and what would.
    """

    cases: Any = ()
    game_list: Any = ()
    game_configs: Any = ()
    game_types: Any = ()
    allowed_game_indices: Any = ()
    task_ids: Any = ()
    only_small: bool = False
    fallback_cases: Any = ()
    num_tasks_per_case: int = 100
    max_random_steps: int | None = None
    reward_mode: str = "outcome"
    seed: int = 42
    mode: str = "move"
    opponent: str = "none"
    past_opponent_share: float = 0.0
    prompt: str = "full"
    scale: str = "result"
    playouts: int = 64
    context: str = "turn"
    illegal: str = "forfeit"
    max_moves: int = 200
    gamma: float = 0.99
    legal_share: float = 0.0

    def __post_init__(self) -> None:
        self._set("num_tasks_per_case", _whole("num_tasks_per_case", self.num_tasks_per_case, 1))
        self._set("seed", _whole("seed", self.seed, 0))
        self._set("playouts", _whole("playouts", self.playouts, 1))
        self._set("max_moves", _whole("max_moves", self.max_moves, 1))
        if re.fullmatch(r"forfeit|retry:\d{1,3}", str(self.illegal)) is None:
            raise UserError(f"illegal must be forfeit or retry:N, such as retry:2; {self.illegal!r} was given")
        for name, allowed in (("gamma", "(0, 1]"), ("legal_share", "[0, 1)"), ("past_opponent_share", "[0, 1]")):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not _lies_in(value, allowed):
                raise UserError(f"{name} must lie in {allowed}, {value!r} was given")
        if self.max_random_steps is not None:
            self._set("max_random_steps", _whole("max_random_steps", self.max_random_steps, 0))
        kinds = (
            ("mode", MODES),
            ("reward_mode", REWARD_MODES),
            ("prompt", PROMPTS),
            ("scale", SCALES),
            ("context", CONTEXTS),
        )
        for name, known in kinds:
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.mode == "move" and self.opponent != "none":
            raise UserError(f"opponent={self.opponent} needs mode=episode: a single move has no opponent")
        if self.mode == "episode" and self.max_random_steps is not None:
            raise UserError("max_random_steps needs mode=move: a whole game begins at its start")
        self._set("game_list", case_names.split_list(self.game_list, "game_list"))
        self._set("game_configs", _game_configs(self.game_list, self.game_configs))
        self._set("game_types", case_names.split_list(self.game_types, "game_types"))
        self._set("allowed_game_indices", _numbers("allowed_game_indices", self.allowed_game_indices))
        self._set("task_ids", _numbers("task_ids", self.task_ids))
        self._set(
            "cases", self._numbered_cases() if self.allowed_game_indices or self.task_ids else self._named_cases()
        )
        if self.mode == "move" and self.reward_mode != "legal":
            for case in self.cases:
                if not case_names.load(case).can_resample:
                    raise UserError(
                        f"{case}: OpenSpiel cannot deal its hidden information anew, so a single move has no honest"
                        " outcome: use reward_mode=legal or mode=episode"
                    )

    def _named_cases(self) -> tuple[str, ...]:
        named = [case_names.canonical(case) for case in case_names.split_list(self.cases, "cases")]
        for game, configs in zip(self.game_list, self.game_configs or [()] * len(self.game_list), strict=True):
            named += [case_names.canonical(case_names.write_case(game, dict(config))) for config in configs or [()]]
        fallback = case_names.split_list(self.fallback_cases, "fallback_cases") or case_names.DEFAULT_CASES
        known = tuple(dict.fromkeys(named or map(case_names.canonical, fallback)))
        chosen = case_names.select(known, self.game_types) if self.game_types else known
        small = tuple(case for case in chosen if case in case_names.SMALL_CASES)
        return small if self.only_small and small else chosen

    def _numbered_cases(self) -> tuple[str, ...]:
        others = ("cases", "game_list", "game_types") + (("task_ids",) if self.allowed_game_indices else ())
        for other in others:
            if getattr(self, other):
                numbers = "allowed_game_indices" if self.allowed_game_indices else "task_ids"
                raise UserError(f"{numbers} and {other} both say what is played: give one of them")
        cases = [ids.decode(number)[0] for number in self.task_ids]
        for index in self.allowed_game_indices:
            ids.case_of(index, 0)
            repeat = min(ids.INDEXED_GAMES[index].configurations, self.num_tasks_per_case)
            cases += [ids.case_of(index, variant) for variant in range(repeat)]
        return tuple(dict.fromkeys(cases))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, {value!r} was given")
    return value


def _lies_in(value: float, interval: str) -> bool:
    return 0 <= value <= 1 and (interval[0] == "[" or value > 0) and (interval[-1] == "]" or value < 1)


def _numbers(name: str, value: Any) -> tuple[int, ...]:
    """Whole numbers from a list, one number, or a string with commas."""
    if value is None or value == "":
        return ()
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, Iterable) else [value]
    return tuple(_whole(name, item.strip() if isinstance(item, str) else item, 0) for item in items)


def _game_configs(games: tuple[str, ...], given: Any) -> tuple[tuple[tuple[tuple[str, Any], ...], ...], ...]:
    """The parameters of each case of each game, in the order of `games`, as tuples; () where none are given."""
    if not given:
        return ()
    if isinstance(given, Mapping):
        for game in given:
            if game not in games:
                raise unknown("game in game_configs", game, games)
        given = [given.get(game, ()) for game in games]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UserError(f"game_configs must be a mapping from games, or a list beside game_list; {given!r} was given")
    given = list(given)
    if len(given) != len(games):
        raise UserError(f"game_configs has {len(given)} entries beside the {len(games)} games of game_list")
    return tuple(tuple(_parameters(config) for config in _configs(configs)) for configs in given)


def _configs(configs: Any) -> list[Any]:
    """One game's configurations: a mapping alone, a list of them, or a tuple of pairs as written by `_parameters`."""
    if configs is None:
        return []
    if isinstance(configs, Mapping):
        return [configs]
    if isinstance(configs, str) or not isinstance(configs, Iterable):
        raise UserError(f"game_configs must hold mappings such as {{'board_size': 5}}, {configs!r} was given")
    return list(configs)


def _parameters(config: Any) -> tuple[tuple[str, Any], ...]:
    if config is None or isinstance(config, str | int | float):
        raise UserError(f"game_configs must hold mappings such as {{'board_size': 5}}, {config!r} was given")
    try:
        return tuple(sorted(dict(config).items()))
    except (TypeError, ValueError):
        raise UserError(f"game_configs must hold mappings such as {{'board_size': 5}}, {config!r} was given") from None


@dataclass(frozen=True)
class View:
    """A turn for bots and solvers.

    Attributes:
        state: A copy of the `pyspiel.State`, to do with as one likes. It holds what the seat may not know.
        actions: The legal actions' numbers, in the order of the turn's answers.
        case: The canonical case.
    """

    state: State
    actions: tuple[int, ...]
    case: str

    def __reduce__(self) -> tuple[Any, ...]:
        # By its history: OpenSpiel writes some states down in a way that it cannot read.
        return _view_of, (self.case, tuple(self.state.history()), self.actions)


def _view_of(case: str, history: tuple[int, ...], actions: tuple[int, ...]) -> View:
    return View(positions.replay(case_names.load(case), history), actions, case)


class Catalogue(Sequence[Task]):
    """The tasks of a configuration, case by case, each made when it is asked for."""

    def __init__(self, config: OpenSpielConfig, split: str) -> None:
        self.config = config
        self.split = split

    def __len__(self) -> int:
        config = self.config
        groups = len(config.allowed_game_indices or config.cases)
        return len(config.task_ids) or groups * config.num_tasks_per_case

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"task {index} of {len(self)}")
        config = self.config
        case, k = self._numbered(index % len(self))
        return Task(
            env=OpenSpielEnvironment.name,
            case=case,
            k=k,
            mode=config.mode,
            reward=config.reward_mode,
            opponent=self._opponent(case, k),
            seat=k % case_names.load(case).players if config.mode == "episode" else -1,
            seed=config.seed,
            split=self.split,
            depth=-1 if config.max_random_steps is None else config.max_random_steps,
            prompt=config.prompt,
            scale=config.scale,
            playouts=config.playouts,
            context=config.context,
            retries=int(config.illegal.partition(":")[2] or 0),
            max_moves=config.max_moves,
            gamma=float(config.gamma),
            legal_share=float(config.legal_share),
        )

    def _opponent(self, case: str, k: int) -> str:
        config = self.config
        if config.opponent != "self":
            return config.opponent
        if self.split != "train":
            return "random"
        chance = digest("past opponent", config.seed, case, k) / 2**64
        return "past" if chance < config.past_opponent_share else "self"

    def _numbered(self, index: int) -> tuple[str, int]:
        config = self.config
        if config.task_ids:
            return ids.decode(config.task_ids[index])
        which, k = divmod(index, config.num_tasks_per_case)
        if config.allowed_game_indices:
            return ids.case_of(config.allowed_game_indices[which], k), k
        return config.cases[which], k


class OpenSpielEnvironment(Environment):
    """OpenSpiel's games, by turns and simultaneous."""

    name: ClassVar[str] = "openspiel"
    config_type: ClassVar[type] = OpenSpielConfig

    def catalogue(self, config: OpenSpielConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each case or indexed game, all of the first one first; or the `task_ids`.

        Raises:
            UserError: No such split, or `max_random_steps` leaves it without a state.
        """
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        if config.max_random_steps is not None:
            for case in config.cases:
                positions.decision_of(case, 0, config.seed, split, config.max_random_steps)
        return Catalogue(config, split)

    def start(self, task: Task) -> Session:
        """A fresh session; see `OpenSpielSession`.

        Raises:
            UserError: The task's case or seat does not exist, or its split has no state of its depth.
        """
        game = case_names.load(task.case)
        if task.mode == "episode" and not -1 <= task.seat < game.players:
            raise UserError(f"{game.case} has the seats 0 to {game.players - 1}, {task.seat} was given")
        return OpenSpielSession(task, game)

    def equivalence_class(self, task: Task) -> str:
        """Single moves are one class if their states are mirror images; every whole game stands alone."""
        if task.mode != "move":
            return task.id
        game = case_names.load(task.case)
        state, seat = positions.decision_of(game.case, task.k, task.seed, task.split, task.depth)
        return f"{game.case}/{game.symmetry_key(state, seat)}"

    def audit(self) -> Audit:
        return OpenSpielAudit(self)

    def turn_class(self, task: Task, turn: Turn) -> str:
        """The symmetry class of the turn's state, in a single move as in a whole game."""
        view: View = turn.view
        return f"{view.case}/{case_names.load(view.case).symmetry_key(view.state, turn.seat)}"

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether the state's symmetry class belongs to validation, or the game is too small to be split."""
        view: View = turn.view
        game = case_names.load(view.case)
        return not positions.is_split(view.case) or positions.split_of(game, view.state, turn.seat) == "val"


class OpenSpielSession(Session):
    """One move, or one game.

    A single move pays 1 for being legal in the reward mode "legal". In "outcome" it pays the value of
    `scoring.move_value`. In "optimal" it pays 1 less what it loses against the best move, as `scoring.best_move_value`
    says, so that a hopeless position can be played as well as any. Where several players move at once, a single move is
    that of one of them, and the others draw lots.

    A whole game starts at the root. Chance is drawn from (`Task.luck`, ply), so a task always meets the same deals
    on the same path. A seat's mistake, once its retries are used up, ends the game: it pays nothing to anybody, so
    nobody profits from it. So does a game that is not over after `Task.max_moves`. All seats are scored.

    Args:
        task: What is played.
        game: The task's game.
        decision: Where a single move is asked instead of at the task's own position.
    """

    def __init__(self, task: Task, game: Game, decision: Decision | None = None) -> None:
        self.task = task
        self.game = game
        self._luck = task.luck
        if task.mode == "move":
            asked = decision or positions.decision_of(game.case, task.k, task.seed, task.split, task.depth)
            self._state, self._asked = asked[0], (asked[1],)
        else:
            self._state, self._asked = game.spiel.new_initial_state(), ()
        self._scores: dict[int, Score] | None = None
        self._names: dict[int, dict[int, str]] = {}
        self._accepted: dict[int, int] = {}
        self._turns: tuple[Turn, ...] = ()
        self._retries = [task.retries] * game.players
        self._mistakes = [0] * game.players
        self._moves = 0
        self._advance()

    def turns(self) -> Sequence[Turn]:
        return self._turns

    def step(self, replies: Mapping[int, Reply]) -> None:
        if not self._turns:
            raise RuntimeError("the session is over")
        rejected: dict[int, Reason] = {}
        actions: dict[int, str] = {}
        self.rejected, self.actions = rejected, actions
        for turn in self._turns:
            names = self._names[turn.seat]
            action = parse(replies[turn.seat], names)
            if isinstance(action, Reason):
                rejected[turn.seat] = action
            else:
                self._accepted[turn.seat] = action
                actions[turn.seat] = names[action]
        if rejected:
            for seat in rejected:
                self._mistakes[seat] += 1
            final = {seat: reason for seat, reason in rejected.items() if not self._retries[seat]}
            if not final:
                self._ask_again(replies)
                return
            self._forfeit(final)
        elif self.task.mode == "move":
            self._scores = {seat: self._judge(seat, action) for seat, action in self._accepted.items()}
        else:
            self._moves += len(self._accepted)
            self.game.apply(self._state, self._accepted)
        self._advance()

    def scores(self) -> dict[int, Score]:
        if self._scores is None:
            raise RuntimeError("the session is not over")
        return dict(self._scores)

    def board(self, seat: int) -> str:
        return self.game.position(self._state, seat)

    def role(self, seat: int) -> str:
        return self.game.role(seat)

    def _advance(self) -> None:
        """Go on to the next decision: deal what chance deals, score a finished game."""
        state = self._state
        positions.deal(state, self._luck)
        if self._scores is None and state.is_terminal():
            self._scores = self._finish()
        elif self._scores is None and self._moves >= self.task.max_moves:
            self._scores = {seat: self._score(seat, 0.0, Reason.UNFINISHED) for seat in range(self.game.players)}
        if self._scores is not None:
            self._turns = ()
            return
        seats = self._asked or self.game.movers(state)
        self._accepted = {}
        self._names = {seat: self.game.action_names(state, seat) for seat in seats}
        self._turns = tuple([self._turn(seat, names) for seat, names in self._names.items()])

    def _turn(self, seat: int, names: Mapping[int, str]) -> Turn:
        return Turn(
            seat=seat,
            messages=text.messages(self.game, self._state, seat, names, self.task.prompt),
            answers=text.answers(names),
            update=text.update(self.game, self._state, seat, names, self.task.prompt)
            if self.task.context == "conversation"
            else "",
            dice=(self._luck, self._state.move_number(), seat),
            view=View(self._state.clone(), tuple(names), self.game.case),
        )

    def _ask_again(self, replies: Mapping[int, Reply]) -> None:
        """The turns of those who made a mistake and may make it good; the others have answered."""
        turns = []
        for turn in self._turns:
            if turn.seat in self.rejected:
                self._retries[turn.seat] -= 1
                told = text.correction(self.rejected[turn.seat])
                said = {"role": "assistant", "content": replies[turn.seat].text[:QUOTED_CHARACTERS]}
                messages = (*turn.messages, said, {"role": "user", "content": told})
                turns.append(dataclasses.replace(turn, messages=messages, update=told))
        self._turns = tuple(turns)

    def _judge(self, seat: int, action: int) -> Score:
        name = self._names[seat][action]
        if self.task.reward == "legal":
            return Score(1.0, True, Reason.LEGAL, {"action": name})
        measure = scoring.move_value if self.task.reward == "outcome" else scoring.best_move_value
        value = measure(self.game, self._state, seat, action, self.task.playouts, self.task.scale)
        details: dict[str, str | float] = {"action": name, "value_source": value.source}
        if value.error is not None:
            details["value_error"] = value.error
        paid = value.value if self.task.reward == "outcome" else 1.0 - value.lost
        return Score(paid, value.good, Reason.LEGAL, details)

    def _forfeit(self, mistakes: Mapping[int, Reason]) -> None:
        seats = mistakes if self.task.mode == "move" else range(self.game.players)
        self._scores = {seat: self._score(seat, 0.0, mistakes.get(seat, Reason.FORFEITED)) for seat in seats}

    def _finish(self) -> dict[int, Score]:
        returns = self._state.returns()
        scores = {}
        for seat in range(self.game.players):
            value = scoring.outcome(self.game, returns, seat, self.task.scale)
            scores[seat] = self._score(seat, value, scoring.result(value), {"return": returns[seat]})
        return scores

    def _score(self, seat: int, value: float, reason: Reason, details: Mapping[str, float] | None = None) -> Score:
        """The score of a whole game, or of a mistake, for one seat."""
        told = dict(details or {})
        if self.task.mode == "episode":
            told |= {"moves": self._moves, "mistakes": self._mistakes[seat]}
        if self.task.reward == "legal" and details is not None:
            return Score(1.0, True, reason, told)
        return Score(value, reason is Reason.WON, reason, told)
