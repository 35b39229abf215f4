"""The weights of real training runs equal those of `algorithms`, which shares no code with verl or this package.

A run is recorded by `recorded_trainer`. `algorithms` gets the weights before the run, and of each step the tokens, the
rewards, the groups, and which rows were in which mini-batch. It computes everything else.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from veritas_rl.checkpoints.shards import whole_state
from veritas_rl.envs.registry import open_catalogue
from veritas_rl.launch.small_model import lessons_of
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.warmup import warm_up

from .algorithms import Batch, Optimizer, Row, Settings, Training
from .model import Shape, Weights

ROOT = Path(__file__).resolve().parents[2]

STEPS = 3
"""Steps of a run, with four updates each."""

TOLERANCE = 2e-4
"""How far the product's weights may be from the reference's: the norm of all differences over the norm of all movements
since the start. The product computes in fp32; measured are 2e-6 to 3e-5."""

ROUNDING = 1e-4
"""How far any log-probability, value or advantage may be from the reference's; measured are 1e-5."""

NOTICED = 50 * TOLERANCE
"""How far the weights are at least from those of a reference with a fault."""

pytestmark = pytest.mark.training


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 0.1 million weights that often, but not always, plays a legal move of tic-tac-toe."""
    folder = tmp_path_factory.mktemp("reference")
    start = build_tiny_model(folder / "start", seed=0, hidden_size=32, weights=0.1, embeddings=0.3)
    tasks = open_catalogue({"env": "openspiel", "defaults": {"openspiel": TASKS}}, "train", num_tasks_per_case=500)
    lessons = [one for index in range(500) for one in lessons_of(tasks[index], str(index))]
    settings: dict[str, Any] = {"steps": 60, "batch_size": 48, "learning_rate": 1e-2, "seed": 0}
    warm_up(start, folder / "model", lessons, **settings, on_step=lambda _: None)
    return folder / "model"


TASKS = {"game_types": "tic_tac_toe", "prompt": "brief"}


def overrides(settings: Settings) -> Iterator[str]:
    """The product's names of the settings."""
    actor, algorithm = "actor_rollout_ref.actor", "algorithm"
    named = settings.loss if settings.loss != "ppo" else settings.estimator
    yield f"algorithm={'ppo' if named == 'gae' else named}"
    yield f"actor_rollout_ref.rollout.temperature={settings.temperature}"
    yield f"{actor}.clip_ratio_low={settings.clip_low}"
    yield f"{actor}.clip_ratio_high={settings.clip_high}"
    yield f"{actor}.clip_ratio_c={settings.clip_c}"
    yield f"{actor}.loss_agg_mode={settings.aggregation}"
    yield f"{actor}.entropy_coeff={settings.entropy}"
    yield f"{actor}.use_kl_loss={settings.kl_coefficient != 0}"
    yield f"{actor}.kl_loss_type={settings.kl_loss}"
    yield f"{actor}.kl_loss_coef={settings.kl_coefficient}"
    yield f"{algorithm}.use_kl_in_reward={settings.kl_reward != 0}"
    yield f"{algorithm}.kl_ctrl.kl_coef={settings.kl_reward}"
    yield f"{algorithm}.gamma={settings.gamma}"
    yield f"{algorithm}.lam={settings.lam}"
    yield f"{algorithm}.norm_adv_by_std_in_grpo={settings.normalize}"
    yield f"critic.cliprange_value={settings.value_clip}"
    yield f"{actor}.optim.override_optimizer_config.eps={settings.actor.epsilon}"
    yield f"+critic.optim.override_optimizer_config.eps={settings.critic.epsilon}"
    for learner, optimizer in ((actor, settings.actor), ("critic", settings.critic)):
        yield f"{learner}.ppo_epochs={settings.epochs}"
        yield f"{learner}.optim.lr={optimizer.rate}"
        yield f"{learner}.optim.lr_warmup_steps={optimizer.warmup}"
        yield f"{learner}.optim.lr_scheduler_type={'constant' if optimizer.lowest == 1 else 'cosine'}"
        yield f"{learner}.optim.min_lr_ratio={optimizer.lowest}"
        yield f"{learner}.optim.weight_decay={optimizer.weight_decay}"
        yield f"{learner}.optim.betas={list(optimizer.betas)}"
        yield f"{learner}.optim.clip_grad={optimizer.clip}"


def with_an_effect(words: Iterable[str], settings: Settings) -> Iterator[str]:
    """The overrides without those that the launcher refuses, because the algorithm does not read them."""
    dead = []
    if settings.estimator != "gae":
        dead += ["critic.", "algorithm.lam"]
    if settings.estimator not in ("gae", "reinforce_plus_plus"):
        dead.append("algorithm.gamma")
    if settings.estimator != "grpo":
        dead.append("algorithm.norm_adv_by_std_in_grpo")
    if not settings.kl_coefficient:
        dead.append("actor_rollout_ref.actor.kl_loss_")
    if not settings.kl_reward:
        dead.append("algorithm.kl_ctrl.")
    return (word for word in words if not word.lstrip("+").startswith(tuple(dead)))


@dataclass(frozen=True)
class Case:
    """A run: settings, ranks, prompts and replies to each, and more overrides."""

    settings: Settings
    ranks: int
    prompts: int
    copies: int = 1
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """What was recorded of a run: the weights before it and after each step, each batch, and the product's columns."""

    shape: Shape
    weights: list[dict[str, Weights]]
    batches: list[Batch]
    columns: list[dict[str, list[torch.Tensor]]]


def run(case: Case, model: Path, folder: Path) -> Recorded:
    """Train with the launcher, and read what was recorded."""
    few = [
        *("hardware=cpu", "start=made", "rollout=transformers", f"trainer.n_gpus_per_node={case.ranks}"),
        *(f"trainer.default_local_dir={folder}", f"trainer.total_training_steps={STEPS}", "trainer.save_freq=1"),
        *("trainer.max_actor_ckpt_to_keep=null", "data.max_prompt_length=80"),
        *("data.max_response_length=16", f"data.train_batch_size={case.prompts}", "veritas_rl.evaluation=null"),
        *("veritas_rl.critic_warmup=0", "veritas_rl.mini_batches.move=2", "veritas_rl.mini_batches.episode=2"),
        *(f"actor_rollout_ref.rollout.n={case.copies}", "data.custom_cls.config.curriculum=null"),
        # Each mini-batch has several micro-batches, also when old log-probabilities are computed.
        *(f"{name}.ppo_max_token_len_per_gpu=200" for name in ("actor_rollout_ref.actor", "critic")),
        *(f"data.custom_cls.config.adapter_config.{name}={value}" for name, value in TASKS.items()),
    ]
    words = [*few, *overrides(case.settings), *case.more]
    environment = {
        "PYTHONPATH": str(Path(__file__).parent),
        "VERL_USE_EXTERNAL_MODULES": "recorded_trainer",
        "RECORDED_RUN": str(folder),
        "AGENT_MODEL_REPO_ID": str(model),
    }
    done = subprocess.run(
        [sys.executable, "-m", "veritas_rl.launch.main", *with_an_effect(words, case.settings)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    config = json.loads((folder / "start/actor/huggingface/config.json").read_text())
    shape = Shape(
        config["num_hidden_layers"], config["head_dim"], config["rope_parameters"]["rope_theta"], config["rms_norm_eps"]
    )
    roles = [role for role in ("actor", "critic") if (folder / "start" / role).exists()]
    kept = [folder / "start", *(folder / f"global_step_{step}" for step in range(1, STEPS + 1))]
    weights = [{role: whole_state(sorted((each / role).glob("model_*.pt"))) for role in roles} for each in kept]
    records = [torch.load(folder / f"step_{step}.pt", weights_only=False) for step in range(1, STEPS + 1)]
    batches, columns = zip(*(read(record, case.ranks) for record in records), strict=True)
    return Recorded(shape, weights, list(batches), list(columns))


def read(record: dict[str, Any], ranks: int) -> tuple[Batch, dict[str, list[torch.Tensor]]]:
    """A recorded batch without its padding rows, and the product's columns of learned tokens."""
    columns, parsed = record["columns"], [key.rsplit("_", 2) for key in record["keys"]]
    real = [index for index, padding in enumerate(record["padding"]) if not padding]
    seats = {index: columns["extra_fields"][index]["move"]["seat"] for index in real}
    replies = defaultdict(list)
    for index in real:
        replies[*parsed[index][:2], seats[index]].append(int(parsed[index][2]))
    rows, learned = [], []
    for index in real:
        task, sample, reply = parsed[index]
        fields, mask = columns["extra_fields"][index], columns["response_mask"][index].bool()
        move, info = fields["move"], fields["reward_extra_info"]
        assert not columns["rm_scores"][index][~mask].any()
        learned.append(mask)
        rows.append(
            Row(
                ids=columns["input_ids"][index],
                learned=len(columns["prompts"][index]) + mask.nonzero().squeeze(-1),
                rewards=columns["rm_scores"][index][mask].double(),
                task=task,
                game=f"{task}_{sample}",
                seat=seats[index],
                turn=sorted(replies[task, sample, seats[index]]).index(int(reply)),
                role=f"{info['group']} {move['opponent']} {seats[index]}",
                value=info["value"],
                discount=move["discount"],
            )
        )
    found = {
        name: [columns[name][index][mask] for index, mask in zip(real, learned, strict=True)]
        for name in ("rollout_log_probs", "old_log_probs", "ref_log_prob", "advantages", "values", "returns")
        if name in columns
    }
    places, share = {index: place for place, index in enumerate(real)}, len(parsed) // ranks
    mini_batches = {
        role: [
            [
                places[index]
                for rank in range(ranks)
                for index in range(rank * share + start, rank * share + start + size // ranks)
                if index in places
            ]
            for start in range(0, share, size // ranks)
        ]
        for role, size in record["mini_batch_rows"].items()
    }
    return Batch(rows, mini_batches), found


def deviations(recorded: Recorded, settings: Settings) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    """For each step the largest difference of each column, and the relative distance of the weights of each role."""
    start = recorded.weights[0]
    training = Training(start["actor"], start.get("critic"), recorded.shape, settings)
    for batch, theirs, after in zip(recorded.batches, recorded.columns, recorded.weights[1:], strict=True):
        ours = training.step(batch)
        ours["rollout_log_probs"] = ours["old_log_probs"]
        columns = {
            name: max(float((one - other).abs().max()) for one, other in zip(ours[name], theirs[name], strict=True))
            for name in ours.keys() & theirs.keys()
        }
        yield (
            columns,
            {
                role: distance(after[role], learner.weights) / (distance(start[role], learner.weights) or 1e-9)
                for role, learner in (("actor", training.actor), ("critic", training.critic))
                if learner is not None and role in after
            },
        )


def distance(one: Weights, other: Weights) -> float:
    """The norm of the difference of all weights."""
    assert one.keys() == other.keys()
    return float(sum((one[name].double() - other[name].double()).square().sum() for name in one)) ** 0.5


FULL, DECOUPLED = "lora=off", "algorithm.rollout_correction.bypass_mode=false"
EPISODE = ("play=episode", "data.custom_cls.config.adapter_config.opponent=random")
SELF_PLAY = ("play=episode", "data.custom_cls.config.adapter_config.opponent=self")
CONVERSATION = (*EPISODE, "data.custom_cls.config.adapter_config.context=conversation", "data.max_response_length=120")
LORA = (
    "lora=on",
    *(f"{learner}.lora_rank=4" for learner in ("actor_rollout_ref.model", "critic.model")),
    *(f"{learner}.lora_alpha=8" for learner in ("actor_rollout_ref.model", "critic.model")),
    *(f"{learner}.checkpoint.save_lora_only=false" for learner in ("actor_rollout_ref.actor", "critic")),
)

OPTIMIZER = Optimizer(rate=1e-3, warmup=1, weight_decay=0.1, betas=(0.9, 0.95), epsilon=1e-6, clip=0.2, steps=STEPS)
FALLING = replace(OPTIMIZER, lowest=0.1)
ADAPTERS = replace(OPTIMIZER, rate=1e-2)
GRPO = Settings(
    "grpo",
    temperature=1.4,
    clip_low=0.02,
    clip_high=0.03,
    clip_c=1.05,
    entropy=0.01,
    kl_coefficient=0.05,
    epochs=2,
    actor=OPTIMIZER,
)
PPO = Settings(
    "gae",
    temperature=1.2,
    clip_low=0.05,
    clip_high=0.05,
    kl_reward=0.1,
    gamma=0.97,
    lam=0.9,
    value_clip=0.1,
    epochs=2,
    actor=OPTIMIZER,
    critic=Optimizer(rate=1e-2, weight_decay=0.05, epsilon=1e-6, clip=0.3),
)
RAE = replace(GRPO, estimator="rae", kl_loss="k2")

GRPO_ON_TWO_RANKS = Case(GRPO, 2, 8, 6, (FULL, DECOUPLED))
PPO_ON_ONE_RANK = Case(PPO, 1, 32, 1, (FULL, DECOUPLED))

MATRIX = {
    "grpo-1-lora-conversation": Case(
        replace(GRPO, actor=ADAPTERS, lora_scale=2.0, aggregation="seq-mean-token-mean", kl_loss="k2"),
        *(1, 4, 4, (*LORA, *CONVERSATION, DECOUPLED)),
    ),
    "grpo-2-full-episode": Case(
        replace(GRPO, aggregation="seq-mean-token-sum", normalize=False, actor=FALLING), 2, 4, 4, (FULL, *EPISODE)
    ),
    # Without a KL term in the reward, returns of lost games are exactly 0, and so are the gradients of the new critic.
    # With it they would be rounding errors, which AdamW scales to whole steps.
    "ppo-2-lora-episode": Case(
        replace(PPO, actor=ADAPTERS, lora_scale=2.0, kl_reward=0.0, kl_loss="k1", kl_coefficient=0.02),
        *(2, 12, 1, (*LORA, *EPISODE)),
    ),
    "ppo-2-full-move": Case(replace(PPO, aggregation="seq-mean-token-mean", actor=FALLING), 2, 32, 1, (FULL,)),
    "rae-1-full-self-play": Case(RAE, 1, 8, 1, (FULL, *SELF_PLAY, DECOUPLED)),
    "rae-2-lora-self-play": Case(
        replace(RAE, actor=ADAPTERS, lora_scale=2.0, kl_loss="mse"), 2, 8, 1, (*LORA, *SELF_PLAY)
    ),
    "gspo-1-full-move": Case(
        replace(GRPO, loss="gspo", aggregation="seq-mean-token-mean", clip_low=3e-3, clip_high=4e-3),
        *(1, 8, 6, (FULL, DECOUPLED)),
    ),
    "cispo-1-full-move": Case(replace(GRPO, loss="cispo", clip_low=1.0, clip_high=0.03), 1, 8, 6, (FULL, DECOUPLED)),
    "rloo-1-full-episode": Case(replace(GRPO, estimator="rloo"), 1, 4, 4, (FULL, *EPISODE, DECOUPLED)),
    "reinforce_plus_plus-2-full-move": Case(
        replace(GRPO, estimator="reinforce_plus_plus", gamma=0.97), 2, 32, 1, (FULL, DECOUPLED)
    ),
    "rae-2-full-move": Case(replace(RAE, aggregation="seq-mean-token-mean", kl_loss="k3"), 2, 32, 1, (FULL, DECOUPLED)),
}


def actor(settings: Settings, **changes: Any) -> Settings:
    return replace(settings, actor=replace(settings.actor, **changes))


FAULTS: dict[str, Callable[[Settings], Settings]] = {
    "half the clip": lambda right: replace(right, clip_low=right.clip_low / 2, clip_high=right.clip_high / 2),
    "means of rows": lambda right: replace(right, aggregation="seq-mean-token-mean"),
    "sums of rows": lambda right: replace(right, aggregation="seq-mean-token-sum"),
    "entropy with the wrong sign": lambda right: replace(right, entropy=-0.01),
    "another temperature": lambda right: replace(right, temperature=1.0),
    "one epoch": lambda right: replace(right, epochs=1),
    "no weight decay": lambda right: actor(right, weight_decay=0.0),
    "no clip of gradients": lambda right: actor(right, clip=1e9),
    "no warm-up": lambda right: actor(right, warmup=0),
    "Adam's usual betas": lambda right: actor(right, betas=(0.9, 0.999)),
}
OF_GRPO = {
    "no second clip": lambda right: replace(right, clip_c=3.0),
    "KL with the wrong sign": lambda right: replace(right, kl_coefficient=-right.kl_coefficient),
    "another estimator of KL": lambda right: replace(right, kl_loss="k1"),
    "advantages without the deviation": lambda right: replace(right, normalize=False),
}
OF_PPO = {
    "KL in the reward with the wrong sign": lambda right: replace(right, kl_reward=-right.kl_reward),
    "another discount": lambda right: replace(right, gamma=1.0),
    "another lambda": lambda right: replace(right, lam=1.0),
}
OF_CRITIC = {
    "no clip of values": lambda right: replace(right, value_clip=1e9),
    "no weight decay of the critic": lambda right: replace(right, critic=replace(right.critic, weight_decay=0.0)),
}


OTHERS: dict[str, Callable[[Settings], Settings]] = {
    "gspo-1-full-move": lambda right: replace(right, loss="ppo"),
    "cispo-1-full-move": lambda right: replace(right, loss="ppo"),
    "rloo-1-full-episode": lambda right: replace(right, estimator="grpo", normalize=False),
    "reinforce_plus_plus-2-full-move": lambda right: replace(right, gamma=1.0),
}
"""For variants of an algorithm, the one from which they must differ."""


def check(recorded: Recorded, settings: Settings) -> None:
    """Every column and the weights of every step are those of the reference."""
    lengths = {len(row.learned) for batch in recorded.batches for row in batch.rows}
    assert len(lengths) > 1
    for columns, weights in deviations(recorded, settings):
        assert columns.keys() >= {"rollout_log_probs", "old_log_probs", "advantages"}
        assert max(columns.values()) < ROUNDING, columns
        assert max(weights.values()) < TOLERANCE, weights


def deviation(recorded: Recorded, wrong: Settings, role: str) -> float:
    """How far the weights after the last step are from those of a wrong reference."""
    *_, (_, weights) = deviations(recorded, wrong)
    return weights[role]


def test_grpo_on_two_ranks_makes_the_updates_of_the_reference(model: Path, tmp_path: Path) -> None:
    recorded = run(GRPO_ON_TWO_RANKS, model, tmp_path)
    check(recorded, GRPO)
    found = {name: deviation(recorded, fault(GRPO), "actor") for name, fault in (FAULTS | OF_GRPO).items()}
    assert min(found.values()) > NOTICED, found
    one_mini_batch = [replace(batch, mini_batches={"actor": [[*range(len(batch.rows))]]}) for batch in recorded.batches]
    assert deviation(replace(recorded, batches=one_mini_batch), replace(GRPO, epochs=4), "actor") > NOTICED


@pytest.mark.long
def test_ppo_with_its_critic_makes_the_updates_of_the_reference(model: Path, tmp_path: Path) -> None:
    recorded = run(PPO_ON_ONE_RANK, model, tmp_path)
    check(recorded, PPO)
    found = {name: deviation(recorded, fault(PPO), "actor") for name, fault in OF_PPO.items()}
    found |= {name: deviation(recorded, fault(PPO), "critic") for name, fault in OF_CRITIC.items()}
    assert min(found.values()) > NOTICED, found


@pytest.mark.long
@pytest.mark.parametrize("name", MATRIX)
def test_every_algorithm_makes_the_updates_of_the_reference(name: str, model: Path, tmp_path: Path) -> None:
    recorded, settings = run(MATRIX[name], model, tmp_path), MATRIX[name].settings
    check(recorded, settings)
    if name in OTHERS:
        assert deviation(recorded, OTHERS[name](settings), "actor") > NOTICED
