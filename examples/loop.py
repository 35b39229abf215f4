"""The training loop in one file: tasks, play, rewards, advantages, updates, without Ray and verl.

    python examples/loop.py [--case tic_tac_toe] [--passes 5]

A small model learns the form of an answer from random legal moves, and then by GRPO which moves are good. The mean
reward rises from pass to pass over the questions, in about a minute on two CPU cores. docs/architecture.md
names the files that do each part in a real run.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from veritas_rl.chat_template import prompt_ids
from veritas_rl.envs.base import Reply, Turn, shape
from veritas_rl.envs.openspiel.env import OpenSpielEnvironment
from veritas_rl.envs.task import Task
from veritas_rl.launch.small_model import lessons_of
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.warmup import warm_up
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import LanguageModelPlayer, load_language_model
from veritas_rl.players.sampling import SamplingParams

QUESTIONS, TASKS, GROUP = 512, 64, 8
"""The tasks of a pass, those of a step, and the replies to each task."""
MINI_BATCHES, RATE, CLIP = 2, 3e-4, 0.2
"""The updates of a step, the learning rate, and the clip range of the ratio."""
REPLY_TOKENS, CONTEXT = 8, 128
"""The limits of a reply, and of a prompt with its reply, in tokens."""
LONGEST_WARM_UP = 100

ENVIRONMENT = OpenSpielEnvironment()


def tasks_of(case: str) -> Sequence[Task]:
    """Positions of a game, each a question for one move, which pays its exact or estimated value."""
    settings = {**ENVIRONMENT.config_type.single, "cases": case, "prompt": "brief", "reward": "outcome"}
    config = ENVIRONMENT.read_config({**settings, "legal_share": 0.5, "num_tasks_per_case": QUESTIONS})
    return ENVIRONMENT.catalogue(config, "train")


def start_of(case: str, tasks: Sequence[Task], folder: Path) -> tuple[Any, Any]:
    """A model that answers with legal moves, and its tokenizer."""
    words = ENVIRONMENT.words([case])
    random_weights = build_tiny_model(folder / "random", seed=0, words=words)
    lessons = [lesson for index, task in enumerate(tasks) for lesson in lessons_of(task, str(index))]
    size = {"steps": LONGEST_WARM_UP, "batch_size": 64, "learning_rate": 3e-3, "seed": 0}
    found = warm_up(random_weights, folder / "warm", lessons, **size, on_step=lambda progress: None)
    print(f"warm-up: {found['steps']:.0f} updates in {found['seconds']:.0f} s", flush=True)
    return load_language_model(folder / "warm", dtype=torch.float32)


def play(player: LanguageModelPlayer, tasks: Sequence[Task]) -> tuple[list[Turn], list[Reply], list[float]]:
    """The question of each task, the model's reply, and its reward in [0, 1]; 0 for every mistake."""
    sessions = [ENVIRONMENT.start(task) for task in tasks]
    turns = [session.turns()[0] for session in sessions]
    replies = player.act(turns)
    rewards = []
    for task, session, turn, reply in zip(tasks, sessions, turns, replies, strict=True):
        session.step({turn.seat: reply})
        rewards.append(shape(session.scores()[turn.seat], task))
    return turns, replies, rewards


def group_advantages(rewards: Sequence[float]) -> torch.Tensor:
    """GRPO: how much better a reply is than the others to its task, in standard deviations; one for each reply."""
    groups = torch.tensor(rewards).view(-1, GROUP)
    return ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-6)).flatten()


def log_probabilities(model: Any, prompts: Sequence[Sequence[int]], replies: Sequence[Sequence[int]]) -> torch.Tensor:
    """The log-probability of each token of each reply: [replies, tokens], 0 behind the end of a reply."""
    rows = [[*prompt, *reply] for prompt, reply in zip(prompts, replies, strict=True)]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    scores = model(ids, attention_mask=mask).logits[:, :-1].log_softmax(-1)
    chosen = scores.gather(2, ids[:, 1:, None])[..., 0]
    of_reply = torch.zeros_like(mask[:, 1:])
    for row, (prompt, reply) in enumerate(zip(prompts, replies, strict=True)):
        of_reply[row, len(prompt) - 1 : len(prompt) + len(reply) - 1] = 1
    return chosen * of_reply


def policy_loss(new: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
    """PPO's clipped loss, the mean over all tokens of replies. Behind a reply both log-probabilities are 0."""
    ratio = (new - old).exp()
    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * advantages)
    written = old != 0
    return -(gain * written).sum() / written.sum()


def update(
    model: Any,
    tokenizer: Any,
    optimizer: torch.optim.Optimizer,
    turns: Sequence[Turn],
    replies: Sequence[Reply],
    advantages: torch.Tensor,
) -> None:
    """Make replies with positive advantages more probable, and the others less."""
    prompts = [prompt_ids(tokenizer, turn.messages) for turn in turns]
    written = [reply.token_ids for reply in replies]
    with torch.no_grad():
        old = log_probabilities(model, prompts, written)
    for rows in torch.randperm(len(turns)).chunk(MINI_BATCHES):
        chosen = rows.tolist()
        new = log_probabilities(model, [prompts[row] for row in chosen], [written[row] for row in chosen])
        loss = policy_loss(new, old[rows][:, : new.shape[1]], advantages[rows, None])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default="tic_tac_toe", help="a small game; default: tic_tac_toe")
    parser.add_argument("--passes", type=int, default=5, help="passes over the questions; default: 5")
    given = parser.parse_args()
    torch.manual_seed(0)
    tasks = tasks_of(given.case)
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer = start_of(given.case, tasks, Path(folder))
        copied, _ = load_language_model(Path(folder) / "warm", dtype=torch.float32)
    # The engine writes many replies at once with its own copy of the weights, as vLLM does in a real run.
    engine = GenerationEngine.of(copied, tokenizer, max_batch_size=TASKS * GROUP, max_model_len=CONTEXT)
    player = LanguageModelPlayer(engine, tokenizer, SamplingParams(REPLY_TOKENS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    for number in range(1, given.passes + 1):
        earned: list[float] = []
        for asked in torch.randperm(len(tasks)).split(TASKS):
            turns, replies, rewards = play(player, [tasks[index] for index in asked.tolist() for _ in range(GROUP)])
            update(model, tokenizer, optimizer, turns, replies, group_advantages(rewards))
            engine.load_weights(model.state_dict().items())
            earned += rewards
        print(f"pass {number}/{given.passes}  reward {fmean(earned):.3f}", flush=True)
    engine.close()


if __name__ == "__main__":
    main()
