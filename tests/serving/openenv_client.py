"""Prints the answers of a server to OpenEnv's client as JSON; needs a Python with openenv and the client package.

python openenv_client.py URL
"""

import json
import sys
from typing import Any

from veritas_games import GameAction, VeritasGamesEnv  # pyright: ignore[reportMissingImports]


def play(env: Any, **start: Any) -> dict[str, Any]:
    shown = env.reset(**start)
    seats = []
    while not shown.done:
        seats.append(shown.observation.seat)
        shown = env.step(GameAction(text=shown.observation.answers[0]))
    state = env.state()
    return {
        "seats": seats,
        "reward": shown.reward,
        "rewards": shown.metadata["rewards"],
        "text": shown.observation.text,
        "steps": state.step_count,
        "episode": state.episode_id,
        "task": state.task,
    }


def main() -> None:
    found: dict[str, Any] = {}
    with VeritasGamesEnv(base_url=sys.argv[1]).sync() as env:
        found["both"] = play(env, case="tic_tac_toe", seed=3, opponent="none")
        found["one"] = [play(env, case="kuhn_poker", seed=seed, opponent="random") for seed in range(6)]
        try:
            env.reset(case="no_such_game")
            found["refused"] = ""
        except Exception as error:
            found["refused"] = str(error)
        found["after"] = play(env, case="tic_tac_toe", seed=3, opponent="none")
    with VeritasGamesEnv(base_url=f"{sys.argv[1]}/lgc-v2").sync() as env:
        env.reset(task_id=300000005)
        found["puzzle"] = env.step(GameAction(text="no idea")).reward
    print("RESULT " + json.dumps(found))


main()
