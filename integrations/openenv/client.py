"""The client: each keeps one WebSocket, and plays one session after the other."""

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

from .models import GameAction, GameObservation, GameState


class VeritasGamesEnv(EnvClient[GameAction, GameObservation, GameState]):
    """Plays games of a veritas-rl server.

    Example:
        >>> with VeritasGamesEnv(base_url="http://127.0.0.1:8000").sync() as env:
        ...     shown = env.reset(case="tic_tac_toe", seed=1, opponent="random")
        ...     while not shown.done:
        ...         shown = env.step(GameAction(text=shown.observation.answers[0]))
        ...     print(shown.reward)

    With opponent="none" the client answers for every seat, `shown.observation.seat` says for which.
    """

    def _step_payload(self, action: GameAction) -> dict[str, Any]:
        return {"text": action.text}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[GameObservation]:
        observation = GameObservation(
            **payload.get("observation", {}), done=payload.get("done", False), reward=payload.get("reward")
        )
        return StepResult(
            observation=observation,
            reward=payload.get("reward"),
            done=payload.get("done", False),
            metadata=payload.get("metadata"),
        )

    def _parse_state(self, payload: dict[str, Any]) -> GameState:
        return GameState(**payload)
