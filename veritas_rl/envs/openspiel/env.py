"""OpenSpiel games as an environment: single moves ("move") and whole games ("episode") through the one protocol."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

from veritas_rl.envs.base import (
    MODES,
    PROMPTS,
    REWARD_MODES,
    SPLITS,
    Environment,
    Reason,
    Reply,
    Score,
    Session,
    Task,
    Turn,
)
from veritas_rl.envs.openspiel import cases as case_names
from veritas_rl.envs.openspiel import positions, scoring, text
from veritas_rl.envs.openspiel.games import Game, State
from veritas_rl.envs.openspiel.parsing import parse
from veritas_rl.errors import UserError, unknown
from veritas_rl.seeding import generator


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
        fallback_cases: What is played where nothing above says so. Default: every described game.
        num_tasks_per_case: Tasks of each case.
        max_random_steps: The most random moves before a single move's position; None for any of a random game.
        reward_mode: "legal", "outcome" or "optimal", see `OpenSpielSession`.
        seed: The seed of the set of tasks.
        mode: "move" or "episode".
        opponent: The player of the other seats of a whole game; "none" leaves them to whoever plays the session.
        prompt: "full" or "brief".

    Raises:
        UserError: A value cannot work; the message says which, and what would.
    """

    cases: Any = ()
    game_list: Any = ()
    game_configs: Any = ()
    game_types: Any = ()
    fallback_cases: Any = ()
    num_tasks_per_case: int = 100
    max_random_steps: int | None = None
    reward_mode: str = "outcome"
    seed: int = 42
    mode: str = "move"
    opponent: str = "none"
    prompt: str = "full"

    def __post_init__(self) -> None:
        self._set("num_tasks_per_case", _whole("num_tasks_per_case", self.num_tasks_per_case, 1))
        self._set("seed", _whole("seed", self.seed, 0))
        if self.max_random_steps is not None:
            self._set("max_random_steps", _whole("max_random_steps", self.max_random_steps, 0))
        for name, known in (("mode", MODES), ("reward_mode", REWARD_MODES), ("prompt", PROMPTS)):
            if getattr(self, name) not in known:
                raise unknown(name, getattr(self, name), known)
        if self.opponent != "none":
            raise UserError(f"opponent={self.opponent} is not there yet: opponent=none leaves every seat to the model")
        if self.mode == "episode" and self.max_random_steps is not None:
            raise UserError("max_random_steps needs mode=move: a whole game begins at its start")
        self._set("game_list", case_names.split_list(self.game_list, "game_list"))
        self._set("game_configs", _game_configs(self.game_list, self.game_configs))
        self._set("game_types", case_names.split_list(self.game_types, "game_types"))
        named = [case_names.canonical(case) for case in case_names.split_list(self.cases, "cases")]
        for game, configs in zip(self.game_list, self.game_configs or [()] * len(self.game_list), strict=True):
            named += [case_names.canonical(case_names.write_case(game, dict(config))) for config in configs or [()]]
        fallback = case_names.split_list(self.fallback_cases, "fallback_cases") or case_names.DEFAULT_CASES
        known = tuple(dict.fromkeys(named or map(case_names.canonical, fallback)))
        self._set("cases", case_names.select(known, self.game_types) if self.game_types else known)
        if self.mode == "move" and self.reward_mode != "legal":
            for case in self.cases:
                if not case_names.load(case).can_resample:
                    raise UserError(
                        f"{case}: OpenSpiel cannot deal its hidden information anew, so a single move has no honest"
                        " outcome: use reward_mode=legal or mode=episode"
                    )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, {value!r} was given")
    return value


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


class Catalogue(Sequence[Task]):
    """The tasks of a configuration, case by case, each made when it is asked for."""

    def __init__(self, config: OpenSpielConfig, split: str) -> None:
        self.config = config
        self.split = split

    def __len__(self) -> int:
        return len(self.config.cases) * self.config.num_tasks_per_case

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
        which, k = divmod(index % len(self), config.num_tasks_per_case)
        case = config.cases[which]
        return Task(
            env=OpenSpielEnvironment.name,
            case=case,
            k=k,
            mode=config.mode,
            reward=config.reward_mode,
            opponent=config.opponent,
            seat=k % case_names.load(case).players if config.mode == "episode" else -1,
            seed=config.seed,
            split=self.split,
            depth=-1 if config.max_random_steps is None else config.max_random_steps,
            prompt=config.prompt,
        )


class OpenSpielEnvironment(Environment):
    """OpenSpiel's sequential games, and its simultaneous ones made sequential."""

    name: ClassVar[str] = "openspiel"
    config_type: ClassVar[type] = OpenSpielConfig

    def catalogue(self, config: OpenSpielConfig, split: str) -> Sequence[Task]:
        """The tasks: `len(config.cases) * config.num_tasks_per_case`, all of the first case first.

        Raises:
            UserError: No such split, or `max_random_steps` leaves it without a state.
        """
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
        if config.max_random_steps is not None:
            for case in config.cases:
                positions.state_of(case, 0, config.seed, split, config.max_random_steps)
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
        state = positions.state_of(game.case, task.k, task.seed, task.split, task.depth)
        return f"{game.case}/{game.symmetry_key(state)}"

    def turn_class(self, task: Task, turn: Turn) -> str:
        """The symmetry class of the turn's state, in a single move as in a whole game."""
        view: View = turn.view
        return f"{view.case}/{case_names.load(view.case).symmetry_key(view.state)}"

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether the state's symmetry class belongs to validation, or the game is too small to be split."""
        view: View = turn.view
        game = case_names.load(view.case)
        return not positions.is_split(view.case) or positions.split_of(game, view.state) == "val"


class OpenSpielSession(Session):
    """One move, or one game.

    A single move pays 1 for being legal in the reward mode "legal". In "outcome" it pays the value of
    `scoring.move_value`. In "optimal" it pays 1 less what it loses against the best move, where values are exact, so
    that a hopeless position can be played as well as any; where they are not it pays as in "outcome".

    A whole game starts at the root. Chance is drawn from (seed, task id, ply), so a task always meets the same deals on
    the same path. A seat's mistake ends the game: it pays nothing to anybody, so nobody profits from it. All seats
    are scored.
    """

    def __init__(self, task: Task, game: Game) -> None:
        self.task = task
        self.game = game
        if task.mode == "move":
            self._state = positions.state_of(game.case, task.k, task.seed, task.split, task.depth)
        else:
            self._state = game.spiel.new_initial_state()
        self._scores: dict[int, Score] | None = None
        self._names: dict[int, str] = {}
        self._turns: tuple[Turn, ...] = ()
        self._advance()

    def turns(self) -> Sequence[Turn]:
        return self._turns

    def step(self, replies: Mapping[int, Reply]) -> None:
        if not self._turns:
            raise RuntimeError("the session is over")
        seat = self._turns[0].seat
        action = parse(replies[seat], self._names)
        if isinstance(action, Reason):
            self._forfeit(seat, action)
        elif self.task.mode == "move":
            self._scores = {seat: self._judge(action)}
        else:
            self._state.apply_action(action)
        self._advance()

    def scores(self) -> dict[int, Score]:
        if self._scores is None:
            raise RuntimeError("the session is not over")
        return dict(self._scores)

    def _advance(self) -> None:
        """Go on to the next decision: deal what chance deals, score a finished game."""
        while self._state.is_chance_node():
            ply = self._state.move_number()
            positions.apply_chance(self._state, generator(self.task.seed, self.task.id, ply))
        if self._scores is None and self._state.is_terminal():
            self._scores = self._finish()
        if self._scores is not None:
            self._turns = ()
            return
        self._names = self.game.action_names(self._state)
        turn = Turn(
            seat=self._state.current_player(),
            messages=text.messages(self.game, self._state, self._names, self.task.prompt),
            answers=tuple(text.answer(action) for action in self._names),
            view=View(self._state.clone(), tuple(self._names), self.game.case),
        )
        self._turns = (turn,)

    def _judge(self, action: int) -> Score:
        name = self._names[action]
        if self.task.reward == "legal":
            return Score(1.0, True, Reason.LEGAL, {"action": name})
        value = scoring.move_value(self.game, self._state, action)
        details = {"action": name, "value_source": value.source}
        paid = value.value if self.task.reward == "outcome" else 1.0 - value.lost
        return Score(paid, value.good, Reason.LEGAL, details)

    def _forfeit(self, seat: int, reason: Reason) -> None:
        seats = [seat] if self.task.mode == "move" else range(self.game.players)
        self._scores = {s: Score(0.0, False, reason if s == seat else Reason.FORFEITED) for s in seats}

    def _finish(self) -> dict[int, Score]:
        returns = self._state.returns()
        scores = {}
        for seat in range(self.game.players):
            reason = scoring.result(self.game, returns, seat)
            value = 1.0 if self.task.reward == "legal" else scoring.outcome(self.game, returns, seat)
            success = self.task.reward == "legal" or reason is Reason.WON
            scores[seat] = Score(value, success, reason, {"return": returns[seat]})
        return scores
