"""The validated settings of the OpenSpiel environment, as plain tuples."""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, field_validator, model_validator

from veritas_rl.configs import split_list
from veritas_rl.envs.openspiel import cases as case_names
from veritas_rl.envs.openspiel import ids
from veritas_rl.envs.openspiel.engines import check_installed, parse_all, plays
from veritas_rl.envs.openspiel.task import OpenSpielManner, OpenSpielParameters, OpenSpielPay
from veritas_rl.envs.settings import Names, Number, Settings, at_least, numbers, whole_number
from veritas_rl.envs.task import MODES, check_choice, check_share
from veritas_rl.errors import UserError, unknown


def _depth(given: Any) -> int:
    return -1 if given in (None, -1) else whole_number("max_random_steps", given, 0)


def _engines(given: Any) -> str:
    return ",".join(map(str, parse_all(",".join(split_list(given, "engine")))))


def _limit(given: Any) -> int:
    return whole_number("max_moves", 0 if given is None else given, 0)


def _retries(given: Any) -> int:
    """The number of retries after a mistake, from a number, "forfeit" for 0, or "retry:N"."""
    text = "0" if given == "forfeit" else str(given).removeprefix("retry:")
    if isinstance(given, bool) or not re.fullmatch(r"[0-9]{1,3}", text):
        raise UserError(f"illegal must be forfeit or retry:N, such as retry:2; {given!r} was given")
    return int(text)


Numbers = Annotated[Any, numbers(0)]


class OpenSpielConfig(Settings):
    """The settings that define OpenSpiel tasks. Sequences, mappings and comma-separated strings become tuples.

    Attributes:
        cases: Cases such as "hex(board_size=5)", played together with those of `game_list`. After validation: the
            canonical spelling of all played cases.
        game_list: Games by short name.
        game_configs: The parameters of each case of the games in `game_list`: {"hex": [{"board_size": 5}]}, or a list
            parallel to `game_list`. A game without parameters gives its plain case.
        game_types: Short names and cases that select among the cases, or from OpenSpiel's games; "" selects all.
        allowed_game_indices: Instead of cases: games by their index in the numbering of task ids. Task number k of a
            game is its variant k.
        task_ids: Instead of cases: task ids of 12 digits, each one task of the split "train", also in validation.
        only_small: Whether only the small cases among these are played, if there are any.
        fallback_cases: The cases that are played if none of the above selects any. Default: every described game.
        depth: The maximum number of random moves before a single move's position; None or -1 for positions from every
            stage of the game. Users set it as `max_random_steps`.
        coverage: "split": single moves of training and validation have different positions, each with a choice. "all":
            both have all positions, also those with one legal action if the game is small, so that a model learns to
            play it without a mistake. Validation then measures what was trained on.
        reward: "legal", "outcome" or "optimal", see `OpenSpielSession`. Users set it as `reward_mode`.
        mode: "move" or "episode".
        opponent: The player of the other seats of a whole game. "none": the session's player also plays these seats.
            "self": the trained model plays them in training, and "random" in validation.
        past_opponent_share: With opponent=self, the share of games against an earlier checkpoint of the same run.
        prompt: "full", "unlisted" (without the list of legal actions) or "brief".
        scale: What a finished game pays: "result" for winning, "utility" in proportion to the return, "auto" for
            winning, except in games of stakes, such as poker, for the return. See `Game.outcome`.
        playouts: Random playouts that value a single move if there is no better source; 0 for the default of the case.
            More playouts are slower and more accurate.
        engine: Engines that value single moves of the games that they play: one or several, separated by commas, such
            as "uci:stockfish,gtp:gnugo:level=5", see docs/engines.md; "" for none.
        context: "turn" or "conversation", in whole games.
        retries: How often a seat may answer again after a mistake in a whole game. Users set it as `illegal`: "forfeit"
            means 0, "retry:N" means N.
        max_moves: The maximum number of moves of a whole game, over all seats; None or 0 for the game's own
            limit, within which 99% of random games end by the rules. A longer game is stopped and pays the value
            of its position.
        gamma: The discount of the reward for each later move of the same seat.

    Raises:
        UserError: A value is invalid; the message names it and a valid one.
    """

    user_keys: ClassVar[Mapping[str, str]] = {
        **Settings.user_keys,
        "max_random_steps": "depth",
        "illegal": "retries",
        "games": "game_types",
    }
    cases_key: ClassVar[str] = "game_types"
    selecting_keys: ClassVar[tuple[str, ...]] = ("cases", "game_list", "game_configs", "game_types")
    demonstrated: ClassVar[str] = "tic_tac_toe"
    single: ClassVar[Mapping[str, Any]] = {"mode": "move", "opponent": "none", "retries": 0, "reward": "optimal"}
    judged: ClassVar[Mapping[str, Any]] = {"playouts": 0}
    part_types = (OpenSpielParameters, OpenSpielManner, OpenSpielPay)

    game_list: Names = ()
    game_configs: Any = ()
    game_types: Names = ()
    allowed_game_indices: Numbers = ()
    task_ids: Numbers = ()
    only_small: bool = False
    fallback_cases: Names = ()
    num_tasks_per_case: Annotated[int, at_least(1)] = 100
    depth: Annotated[int, BeforeValidator(_depth)] = -1
    coverage: str = "split"
    mode: str = "move"
    opponent: str = "none"
    past_opponent_share: Number = 0.0
    scale: str = "auto"
    playouts: Annotated[int, at_least(0)] = 0
    engine: Annotated[str, BeforeValidator(_engines)] = ""
    context: str = "turn"
    retries: Annotated[int, BeforeValidator(_retries)] = 0
    max_moves: Annotated[int, BeforeValidator(_limit)] = 0
    gamma: Number = 0.99

    @field_validator("mode")
    @classmethod
    def _is_mode(cls, mode: str) -> str:
        check_choice("mode", mode, MODES)
        return mode

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_share("past_opponent_share", self.past_opponent_share, "[0, 1]")
        if self.mode == "move" and self.opponent != "none":
            raise UserError(f"opponent={self.opponent} needs mode=episode, because a single move has no opponent")
        if self.mode == "episode" and self.depth >= 0:
            raise UserError("max_random_steps needs mode=move, because a whole game starts at its first position")
        self._put(game_configs=_game_configs(self.game_list, self.game_configs))
        numbered = self.allowed_game_indices or self.task_ids
        self._put(cases=self._numbered_cases() if numbered else self._named_cases())
        self._check_engines()
        games = [case_names.load(case) for case in self.cases]
        if self.scale == "utility":
            for game in games:
                if game.players == 1 and game.return_unit:
                    raise UserError(
                        f"{game.case}: scale=utility pays a share of {game.spiel.max_utility():,.0f} {game.unit}, which"
                        f" no play comes near; use scale=auto, which pays 1/2 for {game.return_unit:,.0f}"
                    )
        if self.mode == "move" and self.reward != "legal":
            for game in games:
                if not game.can_resample:
                    raise UserError(
                        f"{game.case}: OpenSpiel cannot resample its hidden information, so single moves have no value;"
                        " use reward_mode=legal or mode=episode"
                    )
        return self

    def _check_engines(self) -> None:
        for engine in parse_all(self.engine):
            check_installed(engine)
            # A warning instead of an error, because a stage of a curriculum may lack the games of an engine that other
            # stages use.
            if not any(plays(engine, case_names.load(case)) for case in self.cases):
                warnings.warn(
                    f"engine={engine} has no effect on these cases; it plays {engine.kind.plays}", stacklevel=2
                )

    def _named_cases(self) -> tuple[str, ...]:
        named = [case_names.canonical(case) for case in self.cases]
        for game, configs in zip(self.game_list, self.game_configs or [()] * len(self.game_list), strict=True):
            named += [case_names.canonical(case_names.write_case(game, dict(config))) for config in configs or [()]]
        fallback = self.fallback_cases or case_names.DEFAULT_CASES
        known = tuple(dict.fromkeys(named or map(case_names.canonical, fallback)))
        chosen = case_names.select(known, self.game_types) if self.game_types else known
        small = tuple(case for case in chosen if case in case_names.SMALL_CASES)
        return small if self.only_small and small else chosen

    def _numbered_cases(self) -> tuple[str, ...]:
        others = ("cases", "game_list", "game_types") + (("task_ids",) if self.allowed_game_indices else ())
        for other in others:
            if getattr(self, other):
                numbers = "allowed_game_indices" if self.allowed_game_indices else "task_ids"
                raise UserError(f"{numbers} and {other} both select what is played; give one of them")
        cases = [ids.decode(number)[0] for number in self.task_ids]
        for index in self.allowed_game_indices:
            ids.case_of(index, 0)
            repeat = min(ids.INDEXED_GAMES[index].configurations, self.num_tasks_per_case)
            cases += [ids.case_of(index, variant) for variant in range(repeat)]
        return tuple(dict.fromkeys(cases))


def _game_configs(games: tuple[str, ...], given: Any) -> tuple[tuple[tuple[tuple[str, Any], ...], ...], ...]:
    """The parameters of each case of each game, in the order of `games`, as tuples; () if none are given."""
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
