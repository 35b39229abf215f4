"""The positions, prompts and rewards of every case agree with `contract.json` and do not change.

Runs of different versions are compared, and published numbers are read years later, so a difference is a change of the
benchmark. For an intended change, `python tests/envs/openspiel/test_contract.py` writes the file.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Reply, Score, shape
from veritas_rl.envs.openspiel import cases, ids
from veritas_rl.envs.registry import get_environment, open_catalogue
from veritas_rl.seeding import generator

FILE = Path(__file__).with_name("contract.json")
MOST_STEPS = 40
ILLEGAL = "\\boxed{99999}"

MOVES: tuple[Mapping[str, Any], ...] = (
    {"reward_mode": "outcome", "prompt": "full"},
    {"reward_mode": "legal", "prompt": "unlisted", "legal_share": 0.3, "max_random_steps": 3},
    {"reward_mode": "outcome", "prompt": "brief", "scale": "utility", "legal_share": 0.1, "max_random_steps": 12},
    {"reward_mode": "outcome", "prompt": "unlisted", "seed": 7},
)
GAMES: tuple[Mapping[str, Any], ...] = (
    {"reward_mode": "outcome", "prompt": "full", "gamma": 0.9},
    {"reward_mode": "outcome", "prompt": "brief", "context": "conversation", "illegal": "retry:2", "scale": "utility"},
    {"reward_mode": "legal", "prompt": "unlisted", "illegal": "retry:1", "legal_share": 0.5, "max_moves": 25},
)
VALUED = (
    "tic_tac_toe",
    "kuhn_poker",
    "leduc_poker",
    "hex(board_size=5)",
    "connect_four",
    "pig",
    "blackjack",
    "phantom_ttt",
)
"""Cases for every method to find the best move: minimax, equilibrium, search, playouts."""


@dataclass(frozen=True)
class Sample:
    """A task of the contract.

    Attributes:
        split: "train" or "val".
        index: The index of the task in the catalogue.
        config: The environment's configuration.
    """

    split: str
    index: int
    config: Mapping[str, Any] = field(hash=False)

    def __str__(self) -> str:
        values = ",".join(f"{key}={value}" for key, value in sorted(self.config.items()) if key != "cases")
        return f"{self.config.get('cases', ['indexed'])[0]}|{self.split}|{self.index}|{values}"


def all_cases() -> list[str]:
    """The available cases, the default cases and the cases of the task ids."""
    indexed = [ids.case_of(n, variant) for n, g in enumerate(ids.INDEXED_GAMES) for variant in range(g.configurations)]
    return list(dict.fromkeys([*cases.AVAILABLE_CASES, *cases.DEFAULT_CASES, *indexed]))


def samples() -> list[Sample]:
    """Moves of almost every case with alternating settings, games of two thirds of the cases, best moves, task ids."""
    found = []
    for number, case in enumerate(all_cases()):
        split = ("train", "val")[number // 2 % 2]
        shared = {"cases": [case], "num_tasks_per_case": 300, "playouts": 4}
        slow = case.startswith("bridge(dealer_vul")  # to draw a position, random games are solved
        if not slow:
            found.append(Sample(split, (0, 1, 130)[number % 3], {**shared, **MOVES[number % 4]}))
        if slow or number % 3:
            settings = {**GAMES[2 if slow else number // 3 % 3]}
            if case == "solitaire":
                settings["scale"] = "auto"  # its greatest return is out of reach
            found.append(Sample(split, number % 7, {**shared, "mode": "episode", **settings}))
    for number, case in enumerate(VALUED):
        config = {"cases": [case], "reward_mode": "optimal", "prompt": "brief", "playouts": 4}
        found.append(Sample(("train", "val")[number % 2], number, config))
    for mode in ("move", "episode"):
        config = {"mode": mode, "reward_mode": "legal", "task_ids": [200000042, 500000007, 1900000001], "max_moves": 20}
        found += [Sample("train", index, config) for index in range(3)]
    return found


def digest(*words: object) -> str:
    return hashlib.sha256("\x1f".join(map(str, words)).encode()).hexdigest()[:16]


def paid(scores: Mapping[int, Score], task: Any) -> str:
    """The value, success, reward and mistake of each seat as text."""
    return "; ".join(
        f"{seat}: {score.value:.12g} {score.success} {shape(score, task):.12g}"
        + (f" {score.reason}" if score.reason.is_mistake else "")
        for seat, score in sorted(scores.items())
    )


def observed(sample: Sample) -> dict[str, Any]:
    """A digest of a task's prompts, and its rewards.

    For a single move, these are the rewards of the first, the last and an illegal answer. For a game, they are the
    rewards of all seats for random legal answers with occasional illegal answers.
    """
    task = open_catalogue({"env": "openspiel", "adapter_config": sample.config}, sample.split)[sample.index]
    environment = get_environment("openspiel")
    session = environment.start(task)
    shown: list[object] = []
    steps = 0
    if sample.config.get("mode", "move") == "move":
        (turn,) = session.turns()
        shown = [turn.seat, json.dumps(turn.messages), *turn.answers]
        results = []
        for reply in (turn.answers[0], turn.answers[-1], ILLEGAL):
            session = environment.start(task)
            session.step({turn.seat: Reply(reply)})
            results.append(paid(session.scores(), task))
        return {"shown": digest(*shown), "paid": results}
    while turns := session.turns():
        steps += 1
        replies = {}
        for turn in turns:
            shown += [turn.seat, json.dumps(turn.messages), *turn.answers]
            random = generator("contract", str(sample), steps, turn.seat)
            wrong = steps > MOST_STEPS or random.random() < 0.02
            replies[turn.seat] = Reply(ILLEGAL if wrong else random.choice(turn.answers))
        session.step(replies)
    return {"shown": digest(*shown), "steps": steps, "paid": paid(session.scores(), task)}


KEPT: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}


@pytest.mark.filterwarnings("ignore:.*has no description of its own")
@pytest.mark.parametrize("sample", samples(), ids=str)
def test_a_task_asks_shows_and_pays_what_it_always_did(sample: Sample) -> None:
    assert observed(sample) == KEPT[str(sample)]


def test_the_contract_covers_every_case_and_nothing_else() -> None:
    kept = {key.partition("|")[0] for key in KEPT}
    assert kept == {*all_cases(), "indexed"}
    assert set(KEPT) == set(map(str, samples()))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    FILE.write_text(json.dumps({str(sample): observed(sample) for sample in samples()}, indent=1) + "\n", "utf-8")
