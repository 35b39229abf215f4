"""OpenSpiel games as an environment of single moves ("move") and whole games ("episode")."""

import dataclasses
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from veritas_rl.envs.base import Session, Turn
from veritas_rl.envs.environment import Environment, PlayerKind, asked_as
from veritas_rl.envs.openspiel import ids, learning_runs, positions
from veritas_rl.envs.openspiel.audit import OpenSpielAudit
from veritas_rl.envs.openspiel.cases import canonical, load
from veritas_rl.envs.openspiel.catalogue import Catalogue
from veritas_rl.envs.openspiel.config import OpenSpielConfig
from veritas_rl.envs.openspiel.id_session import IdSession
from veritas_rl.envs.openspiel.perturbation import PERTURBATIONS, fits, perturb
from veritas_rl.envs.openspiel.players.kinds import KINDS
from veritas_rl.envs.openspiel.policy_values import decisions_of, worth_of
from veritas_rl.envs.openspiel.session import OpenSpielSession
from veritas_rl.envs.openspiel.task import OpenSpielTask
from veritas_rl.envs.openspiel.values.equilibrium import action_returns, has_equilibrium
from veritas_rl.envs.openspiel.view import View
from veritas_rl.envs.task import SPLITS, Task, check_choice
from veritas_rl.errors import UserError

NEXT_CASES = ("hex(board_size=5)", "connect_four", "othello", "leduc_poker", "kuhn_poker", "tic_tac_toe")
"""The suggested cases after a training run; the first untrained one is suggested."""


class OpenSpielEnvironment(Environment):
    """OpenSpiel's games with sequential and simultaneous moves."""

    name: ClassVar[str] = "openspiel"
    config_type = OpenSpielConfig
    task_type: ClassVar[type[Task]] = OpenSpielTask
    players: ClassVar[tuple[PlayerKind, ...]] = KINDS
    teacher: ClassVar[str] = "random"
    expert: ClassVar[str] = "exact"
    stages: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"name": "easy", "opponent": "random", "only_small": True},
        {"name": "medium", "opponent": "random"},
        {"name": "hard", "opponent": "mcts"},
    )
    answers, solved = "legal moves", "optimal moves"
    estimated: ClassVar[str] = "good moves"

    def catalogue(self, config: OpenSpielConfig, split: str) -> Sequence[Task]:
        """The tasks: `num_tasks_per_case` of each case or indexed game, case by case; or those of `task_ids`.

        Raises:
            UserError: No such split, or `depth` leaves it without a state.
        """
        check_choice("split", split, SPLITS)
        catalogue = Catalogue(config, split)
        if config.depth >= 0:
            for case in config.cases:
                positions.decision_of(case, 0, config.seed, catalogue.parameters.part(split), config.depth)
        return catalogue

    def start(self, task: Task) -> Session:
        """A new session, see `OpenSpielSession`.

        Raises:
            UserError: The task's case or seat does not exist, or its split has no state of its depth.
        """
        game = load(task.case)
        if task.mode == "episode" and not -1 <= task.manner.seat < game.players:
            raise UserError(f"{game.case} has the seats 0 to {game.players - 1}, {task.manner.seat} was given")
        return OpenSpielSession(OpenSpielTask.of(task), game)

    def start_by_ids(self, task: Task) -> Session:
        """A new whole game, see `IdSession`."""
        game = load(task.case)
        if task.mode != "episode":
            raise UserError("only whole games are answered by ids; set mode=episode")
        return IdSession(OpenSpielTask.of(task), game)

    def decisions(self, task: Task) -> Sequence[Session]:
        """A single move in each information state of a small game, whose score is not its value.

        Raises:
            UserError: The game has no hidden information, or is too large to be judged exactly.
        """
        own, game = OpenSpielTask.of(task), load(task.case)
        if not has_equilibrium(game.case):
            raise UserError(
                f"{game.case}: all decisions are listed of small games of two players with hidden information, such as "
                "kuhn_poker and leduc_poker"
            )
        pay = dataclasses.replace(own.pay, reward="legal")
        manner = dataclasses.replace(own.manner, opponent="none", context="turn")
        single = dataclasses.replace(own, mode="move", manner=manner, pay=pay)
        return [
            OpenSpielSession(single, game, (decision.state.clone(), decision.seat))
            for decision in decisions_of(game.case)
        ]

    def valued(
        self, case: str, policy: Sequence[Sequence[float]]
    ) -> tuple[Sequence[Sequence[float]], Mapping[str, float]]:
        """The expected returns on the scale "utility", for which an equilibrium is defined; and NashConv."""
        game = load(case)
        decisions = decisions_of(game.case)
        named = [tuple(game.action_names(decision.state, decision.seat)) for decision in decisions]
        table = {
            decision.key: dict(zip(actions, row, strict=True))
            for decision, actions, row in zip(decisions, named, policy, strict=True)
        }
        returns = action_returns(game, table)
        least, greatest = game.spiel.min_utility(), game.spiel.max_utility()
        values = [
            [(returns[decision.key][action] - least) / (greatest - least) for action in actions]
            for decision, actions in zip(decisions, named, strict=True)
        ]
        return values, {"nash_conv": worth_of(game.case, table).nash_conv}

    def next_step(self, cases: Collection[str]) -> tuple[str, str]:
        """An untrained game, or several games together if each was trained."""
        trained = {canonical(case) for case in cases}
        others = [case for case in NEXT_CASES if canonical(case) not in trained]
        words = "another game" if others else "several games together"
        named = others[0] if others else ",".join(NEXT_CASES[:3])
        command = f"GAME_TYPES={shlex.quote(named)} bash train/scripts/openspiel-ppo-trainer.sh"
        return f"{words}, on the same machine or on one with GPUs", command

    def trials(self, task: Task, model: str) -> Sequence[tuple[str, str]]:
        """A game against the user."""
        options = f"--opponent {shlex.quote(model)} --game {shlex.quote(task.case)} {asked_as(task)}"
        return [("play against the trained model", f"python train/tools/play.py {options}")]

    def small_model_warnings(self, cases: Collection[str]) -> Sequence[str]:
        """The measured trainings that did not show learning, see docs/games/what_two_cores_learn.md."""
        runs = learning_runs.read(learning_runs.PATH)
        shown = {canonical(run.case) for run in runs if run.shows_learning}
        failed = {case: run for run in runs if (case := canonical(run.case)) not in shown}
        wanted = dict.fromkeys(canonical(case) for case in cases)
        return [
            f"{case}: the small model did not learn to play it better in {failed[case].minutes:.0f} minutes "
            f"(docs/games/what_two_cores_learn.md). It learns GAME_TYPES={NEXT_CASES[0]!r}; AGENT_MODEL_REPO_ID=... "
            "trains a model of yours."
            for case in wanted
            if case in failed
        ]

    def small_model_steps(self, cases: Collection[str]) -> int | None:
        """The most steps of a game; None if a game has the usual number."""
        steps = [load(case).small_model_steps or 0 for case in cases]
        return max(steps) if steps and all(steps) else None

    def questions(self, task: Task) -> int | None:
        """The positions of a small game, for single moves. Whole games differ by the moves of both players."""
        own = OpenSpielTask.of(task)
        return positions.count(own.case, own.part, own.parameters.depth) if own.mode == "move" else None

    def group(self, task: Task) -> str:
        """The game's short name."""
        return task.case.partition("(")[0]

    def words(self, cases: Iterable[str]) -> Sequence[str]:
        """The action numbers and the symbols of cells of these games."""
        return tuple(dict.fromkeys(word for case in cases for word in load(case).words))

    def settings_from(self, task_id: int, count: int) -> Mapping[str, Any]:
        """The settings for consecutive task ids, see `ids`.

        Raises:
            UserError: An id does not exist.
        """
        numbers = tuple(range(task_id, task_id + count))
        for number in (numbers[0], numbers[-1]):
            ids.decode(number)
        return {"task_ids": numbers}

    def players_of(self, task: Task) -> int:
        """The number of players of the game."""
        return load(task.case).players

    def equivalence_class(self, task: Task, turn: Turn | None = None) -> str:
        """Moves belong to one class if their states are symmetric; every whole game is its own class."""
        if turn is not None:
            view: View = turn.view
            return f"{view.case}/{load(view.case).symmetry_key(view.state, turn.seat)}"
        if task.mode != "move":
            return task.id
        game, asked = load(task.case), OpenSpielTask.of(task)
        state, seat = positions.decision_of(game.case, task.k, task.seed, asked.part, asked.parameters.depth)
        return f"{game.case}/{game.symmetry_key(state, seat)}"

    def audit(self) -> OpenSpielAudit:
        return OpenSpielAudit(OpenSpielSession, self.start)

    def perturbations(self, task: Task) -> Mapping[str, str]:
        """Other labels if the prompt lists the actions; the mirror image in some games."""
        return {name: text for name, text in PERTURBATIONS.items() if fits(name, task.case, task.manner.prompt)}

    def start_perturbed(self, task: Task, name: str, seed: int | str = 0) -> Session:
        """A session of the perturbed task, see `perturb`."""
        return perturb(self.start(task), name, seed)

    def held_out(self, task: Task, turn: Turn) -> bool:
        """Whether the state's symmetry class belongs to validation, or validation has no classes of its own."""
        view: View = turn.view
        game, asked = load(view.case), OpenSpielTask.of(task)
        shared = asked.part == positions.ALL or not positions.is_split(view.case, asked.parameters.depth)
        return shared or positions.split_of(game, view.state, turn.seat) == "val"
