"""Training steps of PPO, GRPO and others in plain torch and double precision, written from the papers.

- PPO: Schulman et al. 2017, arXiv 1707.06347, with the second clip of Ye et al. 2020, arXiv 1912.09729
- GAE: Schulman et al. 2016, arXiv 1506.02438
- KL penalty in the reward: Ziegler et al. 2019, arXiv 1909.08593; estimators of KL: joschu.net/blog/kl-approx.html
- GRPO: Shao et al. 2024, arXiv 2402.03300, for whole games as `veritas_rl.verl_plugin.algorithms.grpo` says
- RAE: Liu et al. 2025 (SPIRAL), arXiv 2506.24119
- RLOO: Ahmadian et al. 2024, arXiv 2402.14740, for whole games as GRPO
- REINFORCE++: Hu et al. 2025, arXiv 2501.03262, equations of the version without groups
- GSPO: Zheng et al. 2025, arXiv 2507.18071
- CISPO: MiniMax 2025, arXiv 2506.13585
- AdamW: Loshchilov and Hutter 2019, arXiv 1711.05101

Nothing of verl or of this package is used. Every list has one tensor for each row, with one element for each learned
token, so there are no masks and no padding, and micro-batches and ranks do not exist.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from .model import Shape, Weights, is_adapter, merged, outputs, without_adapter

Rows = list[Tensor]

K3_BOUND = 10.0
"""A token whose estimate reaches it has no gradient: its probability is a 14th of the reference's or less."""


@dataclass(frozen=True)
class Optimizer:
    """AdamW. The rate rises from 0 in `warmup` of `steps` steps, stays, or falls as a cosine to `lowest` of it."""

    rate: float = 1e-3
    warmup: int = 0
    lowest: float = 1.0
    steps: int = 1
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    clip: float = 1.0

    def rate_of(self, step: int) -> float:
        """The rate of all updates of a step, counted from 0."""
        if step < self.warmup:
            return self.rate * step / self.warmup
        fallen = math.cos(math.pi * (step - self.warmup) / (self.steps - self.warmup))
        return self.rate * (self.lowest + (1 - self.lowest) * (1 + fallen) / 2)


@dataclass(frozen=True)
class Settings:
    """What defines a step.

    Attributes:
        estimator: "gae", "grpo", "rae", "rloo" or "reinforce_plus_plus".
        loss: "ppo", "gspo" or "cispo".
        clip_c: The second clip, of negative advantages.
        aggregation: "token-mean", "seq-mean-token-mean" or "seq-mean-token-sum".
        kl_loss: The estimator of the KL term in the loss, with `kl_coefficient`: "k1", "k2", "mse", "k3", "low_var_kl".
        kl_reward: The coefficient of the KL penalty in the reward, for "gae".
        lora_scale: alpha / rank of the adapters.
    """

    estimator: str
    loss: str = "ppo"
    temperature: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    clip_c: float = 3.0
    aggregation: str = "token-mean"
    entropy: float = 0.0
    kl_loss: str = "k3"
    kl_coefficient: float = 0.0
    kl_reward: float = 0.0
    gamma: float = 1.0
    lam: float = 1.0
    normalize: bool = True
    decay: float = 0.95
    value_clip: float = 0.5
    epochs: int = 1
    lora_scale: float = 0.0
    actor: Optimizer = Optimizer()
    critic: Optimizer = Optimizer()


@dataclass(frozen=True)
class Row:
    """One trajectory.

    Attributes:
        ids: Prompt and reply.
        learned: The positions in `ids` of the tokens that are learned.
        rewards: The reward of each learned token.
        task: What the games of a group share.
        game: The game.
        seat: The seat that replied.
        turn: The index of the trajectory among this seat's in this game.
        role: Game, opponent and seat, which share a baseline in RAE.
        value: The seat's final score.
        discount: The discount of the reward.
    """

    ids: Tensor
    learned: Tensor
    rewards: Tensor
    task: str
    game: str
    seat: int
    turn: int
    role: str
    value: float
    discount: float


@dataclass(frozen=True)
class Batch:
    """The rows of a training step, and the rows of each mini-batch of both learners, in their order."""

    rows: list[Row]
    mini_batches: dict[str, list[list[int]]]


@dataclass
class Learner:
    """Weights with the moments of AdamW. `trained` names the weights that are trained: all, or the adapters."""

    weights: Weights
    trained: tuple[str, ...] = ()
    updates: int = 0
    moments: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = {name: weight.double() for name, weight in self.weights.items()}
        self.trained = tuple(filter(is_adapter, self.weights)) or tuple(self.weights)
        self.moments = {name: (torch.zeros_like(self.weights[name]),) * 2 for name in self.trained}


def log_probs(weights: Weights, rows: Sequence[Row], shape: Shape, temperature: float) -> tuple[Rows, Rows]:
    """Log-probability of each learned token at the temperature of the rollout, and entropy of its distribution."""
    found, entropies = [], []
    for row, logits in zip(rows, outputs(weights, "lm_head", [row.ids for row in rows], shape), strict=True):
        all_ = torch.log_softmax(logits[row.learned - 1] / temperature, -1)
        found.append(all_.gather(-1, row.ids[row.learned, None]).squeeze(-1))
        entropies.append(-(all_.exp() * all_).sum(-1))
    return found, entropies


def values_of(weights: Weights, rows: Sequence[Row], shape: Shape) -> Rows:
    """The critic's value of the state before each learned token."""
    heads = outputs(weights, "score", [row.ids for row in rows], shape)
    return [head[row.learned - 1].squeeze(-1) for row, head in zip(rows, heads, strict=True)]


def divergence(new: Tensor, reference: Tensor, estimator: str) -> Tensor:
    """Estimates of KL(new, reference) from samples of new. `K3_BOUND` is verl's, the papers have no bound."""
    ratio = reference - new
    if estimator in ("k3", "low_var_kl"):
        return (ratio.exp() - 1 - ratio).clamp(max=K3_BOUND)
    return {"k1": -ratio, "kl": -ratio, "k2": ratio**2 / 2, "mse": ratio**2 / 2}[estimator]


def gae(rewards: Rows, values: Rows, gamma: float, lam: float) -> tuple[Rows, Rows]:
    """Generalized advantages, normalized over the batch, and returns. The state after the last token has value 0."""
    advantages = []
    for reward, value in zip(rewards, values, strict=True):
        delta = reward + gamma * torch.cat([value[1:], value.new_zeros(1)]) - value
        sums = [delta.new_zeros(())]
        for step in reversed(delta):
            sums.append(step + gamma * lam * sums[-1])
        advantages.append(torch.stack(sums[:0:-1]))
    together = torch.cat(advantages)
    normalized = [(row - together.mean()) / (together.var() + 1e-8).sqrt() for row in advantages]
    return normalized, [row + value for row, value in zip(advantages, values, strict=True)]


def group_relative(rows: Sequence[Row], normalize: bool) -> list[float]:
    """GRPO: a seat's turn is compared with the same turn of the task's other games. Each seat of a game counts once."""
    groups, replies = defaultdict(list), Counter((row.game, row.seat) for row in rows)
    for row in rows:
        groups[row.task, row.seat, row.turn].append(row.rewards.sum())
    found = []
    for row in rows:
        group = torch.stack(groups[row.task, row.seat, row.turn])
        advantage = row.rewards.sum() - group.mean()
        if normalize and len(group) > 1:
            advantage = advantage / (group.std() + 1e-6)
        found.append(float(advantage) * len(rows) / len(replies) / replies[row.game, row.seat])
    return found


def leave_one_out(rows: Sequence[Row]) -> list[float]:
    """RLOO: a reward minus the mean of the other games' of the task, with the weights of GRPO."""
    replies = Counter((row.game, row.seat) for row in rows)
    found = []
    for row in rows:
        others = [
            other.rewards.sum()
            for other in rows
            if other is not row and (other.task, other.seat, other.turn) == (row.task, row.seat, row.turn)
        ]
        advantage = float(row.rewards.sum() - torch.stack(others).mean()) if others else 0.0
        found.append(advantage * len(rows) / len(replies) / replies[row.game, row.seat])
    return found


def reinforce_plus_plus(rewards: Rows, gamma: float) -> Rows:
    """REINFORCE++: the discounted rewards that follow a token, normalized over the batch."""
    zeros = [torch.zeros_like(reward) for reward in rewards]
    return gae(rewards, zeros, gamma, 1.0)[0]


def role_conditioned(rows: Sequence[Row], baselines: dict[str, float], decay: float) -> list[float]:
    """RAE: a reward minus the running mean of its role's results, which takes in those of the batch first."""
    results: dict[tuple[str, int], Row] = {}
    for row in rows:
        results.setdefault((row.game, row.seat), row)
    for row in results.values():
        baselines[row.role] = decay * baselines.get(row.role, row.value) + (1 - decay) * row.value
    return [float(row.rewards.sum()) - row.discount * baselines[row.role] for row in rows]


def aggregated(losses: Rows, aggregation: str) -> Tensor:
    """One loss of the losses of all tokens of a mini-batch. A row without a learned token is no row."""
    losses = [row for row in losses if len(row)]
    if aggregation == "token-mean":
        return torch.cat(losses).mean()
    of_row = {"seq-mean-token-mean": torch.mean, "seq-mean-token-sum": torch.sum}[aggregation]
    return torch.stack([of_row(row) for row in losses]).mean()


def policy_losses(new: Tensor, old: Tensor, advantages: Tensor, settings: Settings) -> Tensor:
    """The objective of each token of a row, with its sign turned.

    PPO's is clipped, and a negative advantage counts at most `clip_c` times. GSPO's has the geometric mean of the row's
    ratios in each token, without the second clip. CISPO's is REINFORCE's with the clipped ratio as its weight.
    """
    ratio = (new - old).exp()
    if settings.loss == "cispo":
        return -ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high).detach() * advantages * new
    if settings.loss == "gspo":
        whole = (new - old).mean().exp().expand(len(new))
        clipped = whole.clamp(1 - settings.clip_low, 1 + settings.clip_high)
        return -torch.minimum(whole * advantages, clipped * advantages)
    objective = torch.minimum(
        ratio * advantages, ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high) * advantages
    )
    return -torch.where(advantages < 0, torch.maximum(objective, settings.clip_c * advantages), objective)


def value_losses(new: Tensor, old: Tensor, returns: Tensor, clip: float) -> Tensor:
    """Half of the squared error, of the value or of the clipped value, whichever is larger."""
    clipped = old + (new - old).clamp(-clip, clip)
    return torch.maximum((new - returns) ** 2, (clipped - returns) ** 2) / 2


def optimize(
    learner: Learner, loss_of: Callable[[Weights], Tensor], optimizer: Optimizer, step: int, scale: float
) -> None:
    """One update by AdamW, with the norm of the whole gradient clipped. As in torch, weights decay by rate times decay.

    Args:
        loss_of: The loss of plain weights.
        step: The number of steps of training before this one.
        scale: The scale of adapters.
    """
    trained = {name: learner.weights[name].clone().requires_grad_() for name in learner.trained}
    loss = loss_of(merged({**learner.weights, **trained}, scale))
    gradients = torch.autograd.grad(loss, list(trained.values()))
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    rate = optimizer.rate_of(step)
    learner.updates += 1
    for name, gradient in zip(learner.trained, gradients, strict=True):
        gradient = gradient * min(1.0, optimizer.clip / (float(norm) + 1e-6))
        moments = zip(learner.moments[name], optimizer.betas, (gradient, gradient**2), strict=True)
        first, second = learner.moments[name] = tuple(beta * old + (1 - beta) * new for old, beta, new in moments)
        corrected = [
            moment / (1 - beta**learner.updates) for moment, beta in zip((first, second), optimizer.betas, strict=True)
        ]
        moved = corrected[0] / (corrected[1].sqrt() + optimizer.epsilon)
        weight = learner.weights[name]
        learner.weights[name] = weight - rate * (moved + optimizer.weight_decay * weight)


class Training:
    """Steps of training from given weights of actor and critic.

    Attributes:
        actor: The actor after the steps.
        critic: The critic after the steps, for "gae".
    """

    def __init__(self, actor: Weights, critic: Weights | None, shape: Shape, settings: Settings) -> None:
        self.actor, self.critic = Learner(actor), None if critic is None else Learner(critic)
        self._reference = without_adapter(self.actor.weights)
        self._shape, self._settings = shape, settings
        self._baselines: dict[str, float] = {}
        self._steps = 0

    def step(self, batch: Batch) -> dict[str, Rows]:
        """One step of training.

        Returns:
            The columns that the losses read: "old_log_probs", "ref_log_prob", "advantages", and "values", "returns".
        """
        rows, settings, shape = batch.rows, self._settings, self._shape
        with torch.no_grad():
            policy = merged(self.actor.weights, settings.lora_scale)
            old, _ = log_probs(policy, rows, shape, settings.temperature)
            reference, _ = log_probs(self._reference, rows, shape, settings.temperature)
            columns = {"old_log_probs": old, "ref_log_prob": reference}
            if settings.estimator == "gae":
                assert self.critic is not None
                values = values_of(merged(self.critic.weights, settings.lora_scale), rows, shape)
                rewards = [
                    row.rewards - settings.kl_reward * divergence(new, start, "k1")
                    for row, new, start in zip(rows, old, reference, strict=True)
                ]
                advantages, returns = gae(rewards, values, settings.gamma, settings.lam)
                columns |= {"advantages": advantages, "values": values, "returns": returns}
            elif settings.estimator == "reinforce_plus_plus":
                columns["advantages"] = reinforce_plus_plus([row.rewards for row in rows], settings.gamma)
            else:
                found = {
                    "grpo": lambda: group_relative(rows, settings.normalize),
                    "rloo": lambda: leave_one_out(rows),
                    "rae": lambda: role_conditioned(rows, self._baselines, settings.decay),
                }[settings.estimator]()
                columns["advantages"] = [
                    torch.full_like(row.rewards, advantage) for row, advantage in zip(rows, found, strict=True)
                ]
        self._update(self.actor, batch, "actor", columns)
        if self.critic is not None:
            self._update(self.critic, batch, "critic", columns)
        self._steps += 1
        return columns

    def _update(self, learner: Learner, batch: Batch, role: str, columns: Mapping[str, Rows]) -> None:
        settings = self._settings
        loss, optimizer = {
            "actor": (self._actor_loss, settings.actor),
            "critic": (self._critic_loss, settings.critic),
        }[role]
        for chosen in batch.mini_batches[role] * settings.epochs:
            part = {name: [column[index] for index in chosen] for name, column in columns.items()}
            loss_of = partial(loss, [batch.rows[index] for index in chosen], part)
            optimize(learner, loss_of, optimizer, self._steps, settings.lora_scale)

    def _actor_loss(self, rows: Sequence[Row], columns: Mapping[str, Rows], weights: Weights) -> Tensor:
        settings = self._settings
        new, entropies = log_probs(weights, rows, self._shape, settings.temperature)
        losses = [
            policy_losses(now, old, advantages, settings)
            - settings.entropy * entropy
            + settings.kl_coefficient * divergence(now, reference, settings.kl_loss)
            for now, old, advantages, entropy, reference in zip(
                new, columns["old_log_probs"], columns["advantages"], entropies, columns["ref_log_prob"], strict=True
            )
        ]
        return aggregated(losses, settings.aggregation)

    def _critic_loss(self, rows: Sequence[Row], columns: Mapping[str, Rows], weights: Weights) -> Tensor:
        new = values_of(weights, rows, self._shape)
        losses = [
            value_losses(now, old, returns, self._settings.value_clip)
            for now, old, returns in zip(new, columns["values"], columns["returns"], strict=True)
        ]
        return aggregated(losses, self._settings.aggregation)
