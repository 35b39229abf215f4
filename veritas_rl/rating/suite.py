"""A suite: a fixed list of games, opponents, seeds and numbers of games that gives each model one comparable number.

    python train/tools/evaluate.py --suite games-v2 --checkpoint WHO [--games GAMES]

`suites/NAME.yaml` defines what is played. Digests in it pin the prompts and the play of the bots, so that results of
different dates are comparable. Finished games are kept as in any evaluation. The same command continues after an
interruption and ends with the same bytes.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError, unknown
from veritas_rl.judging.evaluation import Evaluation, Settings, evaluate
from veritas_rl.judging.finished_game import FinishedGame
from veritas_rl.judging.forecast import Forecast, first_turns, forecast
from veritas_rl.judging.matches import Rules, pair, play_all, tasks_of
from veritas_rl.judging.statistics import Estimate, mean_score, rate
from veritas_rl.judging.summary import grouped
from veritas_rl.parallel import Workers
from veritas_rl.players.cost import Purse
from veritas_rl.players.loading import ReplySettings, open_player
from veritas_rl.players.registry import is_bot

GAMES = "openspiel"


@dataclass(frozen=True)
class Suite:
    """The definition of a suite.

    Attributes:
        name: The name of the suite.
        digest: The digest of its file.
        seed: The seed of deals, bots and tasks.
        opponents: The opponents.
        games: The number of games of each case against each opponent.
        cases: The two-player games.
        answers: For each environment of single answers, the number of tasks of each of its cases.
        asked: The digest of the tasks and prompts.
        played: The digest of the bots' play.
    """

    name: str
    digest: str
    seed: int
    opponents: tuple[str, ...]
    games: int
    cases: tuple[str, ...]
    answers: Mapping[str, int]
    asked: str
    played: str

    def settings(self, env: str, checkpoint: str, prompt: str, replies: ReplySettings, base: str | None) -> Settings:
        """The settings of the evaluation of one environment."""
        return Settings(
            checkpoint=checkpoint,
            env=env,
            opponents=self.opponents,
            games=self.games if env == GAMES else self.answers[env],
            cases=",".join(self.cases) if env == GAMES else "",
            seed=self.seed,
            prompt=prompt,
            opening=None if env == GAMES else 0,
            replies=replies,
            base=base,
        )

    def of_cases(self, names: str) -> "Suite":
        """The same suite with some of its games alone, for a player that knows no others.

        Args:
            names: The games, separated by commas; "" for all.

        Raises:
            UserError: A game is not in the suite.
        """
        if not names:
            return self
        chosen = tuple(tasks_of(names, 1, Rules(GAMES, self.seed)))
        for case in chosen:
            if case not in self.cases:
                raise unknown(f"game of {self.name}", case, self.cases)
        return dataclasses.replace(self, cases=tuple(case for case in self.cases if case in chosen), answers={})


def read_suite(name: str) -> Suite:
    """The suite of a name.

    Raises:
        UserError: There is no such suite.
    """
    folder = files("veritas_rl.rating").joinpath("suites")
    known = [path.name.removesuffix(".yaml") for path in folder.iterdir() if path.name.endswith(".yaml")]
    if name not in known:
        raise unknown("suite", name, known)
    text = folder.joinpath(f"{name}.yaml").read_text("utf-8")
    values = yaml.safe_load(text)
    lists = {key: tuple(values.pop(key)) for key in ("opponents", "cases")}
    return Suite(name=name, digest=hashlib.sha256(text.encode()).hexdigest()[:16], **lists, **values)


def check_pinned(suite: Suite) -> None:
    """Check that the suite's prompts and its bots' play have not changed since the suite was defined.

    Raises:
        UserError: Rules, deals, prompts or bots have changed since the suite was defined.
    """
    for what, now, pinned in (("asks", asked_of(suite), suite.asked), ("plays", played_of(suite), suite.played)):
        if now != pinned:
            raise UserError(
                f"the suite {suite.name} {what} something else in this version ({now} instead of {pinned}), so its "
                "results would not be comparable; run it with the version of its definition, or define another suite"
            )


def asked_of(suite: Suite) -> str:
    """A digest of the identities of all tasks and of the first prompt of each case."""
    found = hashlib.sha256()
    for env in (GAMES, *suite.answers):
        count = -(-suite.games // 2) if env == GAMES else suite.answers[env]
        for case, tasks in _tasks(suite, env, count).items():
            found.update(repr((case, [task.id for task in tasks])).encode())
            found.update(repr([turn.messages for turn in first_turns(tasks[0])]).encode())
    return found.hexdigest()[:16]


def played_of(suite: Suite) -> str:
    """A digest of one game of each case between the first and the last opponent."""
    rules = Rules(GAMES, suite.seed)
    first, last = (open_player(name, GAMES, ReplySettings(seed=suite.seed), Path()) for name in _ends(suite))
    found: list[tuple[str, int, str]] = []
    pairings = [game for game in pair(suite.cases, 1, [first], [last], rules) if game.task.manner.seat == 0]
    play_all(pairings, len(pairings), lambda _, game, __: found.append((game.case, game.seat, game.trajectory_hash)))
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:16]


def _ends(suite: Suite) -> tuple[str, str]:
    return suite.opponents[0], suite.opponents[-1]


def _tasks(suite: Suite, env: str, count: int) -> dict[str, list[Task]]:
    return tasks_of(suite.cases if env == GAMES else "", count, Rules(env, suite.seed))


def forecast_of(suite: Suite, prompt: str, envs: Iterable[str]) -> Forecast:
    """The forecast of a suite.

    Args:
        suite: The suite.
        prompt: "full", "unlisted" or "brief".
        envs: The environments of the suite that are played.
    """
    total = Forecast()
    for env in envs:
        count = suite.games if env == GAMES else suite.answers[env]
        cases = suite.cases if env == GAMES else ""
        total += forecast(Rules(env, suite.seed, prompt), cases, count, len(suite.opponents))
    return total


@dataclass(frozen=True)
class CaseResult:
    """The result of a player in one case, or in the single answers of one environment.

    Attributes:
        name: The case, or the environment.
        score: The mean score over all games or answers, in [0, 1].
        against: The mean score against each opponent; for games only.
        success: The share of correct answers; None for games.
        legal: The share of games, or answers, without a mistake of the player.
        points: For games, a string for each opponent with one character for each game in the order of the deals: 1 for
            a win, = for a draw, 0 for anything else.
        answers: The number of answers of the player.
        prompt_tokens: The number of its prompt tokens.
        tokens: The number of tokens that it generated.
    """

    name: str
    score: Estimate
    against: Mapping[str, Estimate]
    success: Estimate | None
    legal: Estimate
    points: Mapping[str, str]
    answers: int
    prompt_tokens: int
    tokens: int


@dataclass(frozen=True)
class SuiteResult:
    """The result of a player in a suite.

    Attributes:
        suite: The suite's name.
        digest: See `Suite`.
        asked: See `Suite`.
        played: See `Suite`.
        player: The judged player; for a folder, its last part.
        identity: The player's identity; equal for players with equal play.
        prompt: "full", "unlisted" or "brief".
        number: The mean score over all games that were played.
        games: The result of each case.
        answers: The result of each environment of single answers; empty for a bot that cannot play in them.
    """

    suite: str
    digest: str
    asked: str
    played: str
    player: str
    identity: str
    prompt: str
    number: Estimate
    games: tuple[CaseResult, ...]
    answers: tuple[CaseResult, ...]

    def values(self) -> dict[str, Any]:
        """The result as plain values; an interruption does not change them."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_values(values: Mapping[str, Any]) -> "SuiteResult":
        """The result of the plain values that `values` returned.

        Raises:
            TypeError: A value is of the wrong type.
            KeyError: A value is missing.
        """
        parts = {name: tuple(map(_case_from, values[name])) for name in ("games", "answers")}
        return SuiteResult(**{**values, "number": Estimate(**values["number"]), **parts})


def _case_from(values: Mapping[str, Any]) -> CaseResult:
    estimates = {name: Estimate(**values[name]) for name in ("score", "legal")}
    against = {name: Estimate(**found) for name, found in values["against"].items()}
    success = Estimate(**values["success"]) if values["success"] else None
    return CaseResult(**{**values, **estimates, "against": against, "success": success})


def environments_of(suite: Suite, checkpoint: str) -> tuple[str, ...]:
    """The environments in which a player is judged. A bot of games is not judged by puzzles."""
    return (GAMES, *(env for env in suite.answers if not is_bot(checkpoint, GAMES)))


def run_suite(
    suite: Suite,
    games: str,
    checkpoint: str,
    prompt: str,
    replies: ReplySettings,
    base: str | None,
    folder: Path,
    console: Console,
    purse: Purse | None = None,
    workers: Workers | None = None,
) -> SuiteResult:
    """Play the games that are not finished yet, and compute the result.

    Args:
        suite: The suite.
        games: The games to play, separated by commas; "" for all and the single answers.
        checkpoint: The judged player, see `loading`.
        prompt: "full", "unlisted" or "brief".
        replies: The settings of a model's replies; the seed is that of the suite.
        base: See `open_player`.
        folder: The folder of the finished games.
        console: Where to print.
        purse: The counter of servers' costs, with or without a budget.
        workers: The workers that share the work, see `play_all`.

    Raises:
        UserError: The player does not exist or cannot play, or the suite has changed. Finished games are kept.
    """
    check_pinned(suite)
    suite = suite.of_cases(games)
    replies = dataclasses.replace(replies, seed=suite.seed)
    found: dict[str, Evaluation] = {}
    for env in environments_of(suite, checkpoint):
        settings = suite.settings(env, checkpoint, prompt, replies, base)
        inside = folder / env
        inside.mkdir(parents=True, exist_ok=True)
        console.print(f"{suite.name}: {env}", highlight=False)
        found[env] = evaluate(settings, inside, console, purse=purse, workers=workers)
    (identity,) = found[GAMES].players.values()
    played = found[GAMES].games
    return SuiteResult(
        suite=suite.name,
        digest=suite.digest,
        asked=suite.asked,
        played=suite.played,
        player=Path(checkpoint).name if Path(checkpoint).is_dir() else checkpoint,
        identity=identity,
        prompt=prompt,
        number=mean_score([game.value for game in played], [game.cluster for game in played]),
        games=tuple(_result(case, inside) for case, inside in grouped(played, lambda game: game.case)),
        answers=tuple(_result(env, found[env].games) for env in suite.answers if env in found),
    )


def _result(name: str, games: Sequence[FinishedGame]) -> CaseResult:
    clusters = [game.cluster for game in games]
    whole = games[0].mode == "episode"
    by_opponent = dict(grouped(games, lambda game: game.opponent)) if whole else {}
    return CaseResult(
        name=name,
        score=mean_score([game.value for game in games], clusters),
        against={
            who: mean_score([game.value for game in inside], [game.cluster for game in inside])
            for who, inside in by_opponent.items()
        },
        success=None if whole else rate([game.success for game in games], clusters),
        legal=rate([not game.reason.is_mistake for game in games], clusters),
        points={
            who: "".join(_point(game) for game in sorted(inside, key=lambda game: (game.deal, game.seat)))
            for who, inside in by_opponent.items()
        },
        answers=sum(game.moves for game in games),
        prompt_tokens=sum(game.prompt_tokens for game in games),
        tokens=sum(game.tokens for game in games),
    )


def _point(game: FinishedGame) -> str:
    return {"won": "1", "drawn": "="}.get(str(game.reason), "0")
