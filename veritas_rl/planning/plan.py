"""The plan of a run: the memory of each phase of a step, whether it fits, and the largest settings that fit."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from veritas_rl.planning.devices import GIB
from veritas_rl.planning.duration import phase_seconds, rollout_seconds, tokens_of
from veritas_rl.planning.forecast import CPU_PROCESS, JUDGING, Forecast, Phase, phase_of, process_bytes, with_fragments
from veritas_rl.planning.serving import CONTEXT, Server, server_of
from veritas_rl.planning.settings import Role, Settings
from veritas_rl.planning.storage import AVERAGE_BYTES, checkpoint_parts, host_parts
from veritas_rl.planning.training import Engine

TOKENS, CRITIC_TOKENS = (f"{node}.ppo_max_token_len_per_gpu" for node in ("actor_rollout_ref.actor", "critic"))
SEQUENCES, SHARE = (f"actor_rollout_ref.rollout.{name}" for name in ("max_num_seqs", "gpu_memory_utilization"))
OFFLOAD = tuple(
    f"{engine}.{what}_offload"
    for engine in ("actor_rollout_ref.actor.fsdp_config", "critic.fsdp")
    for what in ("param", "optimizer")
)

ADAPTER_RANK = 32
"""The rank of the adapters of lora=on."""


@dataclass(frozen=True)
class Plan(Forecast):
    """The forecast of a run of reinforcement learning.

    Attributes:
        settings: The settings of the run.
    """

    settings: Settings

    @property
    def server(self) -> Server:
        """The rollout's server on one GPU."""
        return server_of(self.settings, self.shape, self.device)

    def engine(self, role: Role) -> Engine:
        """A trained model on one device."""
        rollout, cpu = self.settings.rollout, self.settings.cpu
        kept = (rollout.reply + 1) / rollout.context if cpu and not role.packed else 1.0
        # Shorter prompts leave more logits in a micro-batch, and prompts that are as long as the limit are not shared.
        prompt = min(self.assumed.prompt, rollout.prompt)
        together = self.settings.together(role, prompt, rollout.reply)
        if together > 1:
            replies = together * rollout.reply
            shared = prompt + replies
            # The last token of a prompt predicts the first of its replies.
            return Engine(self.shape, role, cpu=cpu, kept_logits=(replies + 1) / shared, shared=shared)
        padding = 1.0 if role.packed or cpu else self.assumed.padding
        return Engine(self.shape, role, cpu=cpu, kept_logits=kept, padding=padding)

    @property
    def actor(self) -> Engine:
        """The actor in training."""
        return self.engine(self.settings.actor)

    @property
    def critic(self) -> Engine | None:
        """The critic in training; None without a critic."""
        return None if self.settings.critic is None else self.engine(self.settings.critic)

    def phases(self) -> list[Phase]:
        """Each phase of a step, in verl's order."""
        return list(self._phases())

    def _phases(self) -> Iterator[Phase]:
        settings, server, actor, critic = self.settings, self.server, self.actor, self.critic
        idle = {"actor, waiting": actor.idle, "critic, waiting": critic.idle if critic else 0}
        process = {"processes": self._processes()}
        limit = "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu"
        if server.cpu:
            parts = {"rollout's weights": server.asleep, "rollout's activations": server.activations}
            yield phase_of("rollout", {**idle, **process, **parts, "KV cache": server.cache}, SEQUENCES)
        else:
            parts = {"rollout": server.share, "rollout's graphs": server.context - CONTEXT}
            yield phase_of("rollout", {**idle, **process, **parts}, SHARE)
        asleep = {**process, "rollout, asleep": server.asleep}
        beside_actor = {**asleep, "critic, waiting": idle["critic, waiting"]}
        beside_critic = {**asleep, "actor, waiting": idle["actor, waiting"]}
        if settings.old_log_prob:
            parts = actor.inference_parts(entropy=True)
            yield phase_of("old log-probabilities", {**beside_actor, **with_fragments(parts)}, limit)
        if settings.reference:
            parts = actor.inference_parts(entropy=False)
            if not actor.role.lora_rank:
                # Without LoRA the reference is a separate model. Its layers come from the host while the actor waits.
                beside = {**beside_actor, "actor, waiting": actor.idle}
                parts = {name: size for name, size in parts.items() if name not in ("weights", "optimizer")}
                yield phase_of("reference", {**beside, **with_fragments(parts)}, limit)
            else:
                yield phase_of("reference", {**beside_actor, **with_fragments(parts)}, limit)
        if critic is not None:
            yield phase_of(
                "values", {**beside_critic, **with_fragments(critic.inference_parts(entropy=False))}, CRITIC_TOKENS
            )
            yield phase_of("critic's update", {**beside_critic, **with_fragments(critic.update_parts())}, CRITIC_TOKENS)
        yield phase_of("actor's update", {**beside_actor, **with_fragments(actor.update_parts())}, TOKENS)
        yield self._sync(beside_actor)
        saved = {"weights": actor.weights, "optimizer": 0 if actor.role.optimizer_offload else actor.optimizer}
        yield phase_of("checkpoint", {**beside_actor, **saved}, "trainer.save_freq")

    def _sync(self, beside: Mapping[str, int]) -> Phase:
        """The transfer of weights to the rollout, which has allocated its weights again, but not its cache."""
        server, actor = self.server, self.actor
        staged = bool(actor.role.lora_rank) or not actor.role.fsdp2 or not actor.role.param_offload
        sent = server.adapter if actor.role.lora_rank else 2 * self.settings.rollout.bucket
        if server.cpu:
            sent = min(sent, 2 * server.weights)
        parts = {
            **beside,
            "weights": actor.weights if staged else 0,
            "optimizer": 0 if actor.role.optimizer_offload else actor.optimizer,
            "rollout, asleep": server.asleep + (server.weights if self.settings.rollout.sleeps else 0),
            "weights on their way": sent,
        }
        return phase_of("weights to the rollout", parts, "rollout.checkpoint_engine.update_weights_bucket_megabytes")

    def _processes(self) -> int:
        if self.settings.cpu:
            return CPU_PROCESS * (2 + self.settings.workers)
        return process_bytes(self.settings.ranks)

    @property
    def fits(self) -> bool:
        """Whether every phase fits into the device, and the cache holds one sequence."""
        return super().fits and self.server.at_once >= 1

    def refusal(self) -> str | None:
        server = self.server
        if server.room < server.token * server.longest and self.settings.rollout.name != "transformers":
            needed = server.share - server.room + server.token * server.longest
            return (
                f"the rollout's share of a GPU is {server.share / GIB:.1f} GiB, and weights with one sequence of "
                f"{server.longest} tokens in the cache need {needed / GIB:.1f} GiB"
            )
        return super().refusal()

    def with_settings(self, settings: Settings) -> "Plan":
        """The same run with other settings."""
        return dataclasses.replace(self, settings=settings)

    def with_tokens(self, tokens: int) -> "Plan":
        """The same run with micro-batches of `tokens` tokens in every phase."""
        return self._with_roles(update_tokens=tokens, infer_tokens=tokens)

    @property
    def kept(self) -> int:
        return self.settings.kept

    @property
    def longest(self) -> int:
        return self.settings.rollout.context

    def trains(self, tokens: int) -> bool:
        """Whether micro-batches of `tokens` tokens fit in every phase of the trainer."""
        plan = self.with_tokens(tokens)
        return all(phase.total <= self.device.memory for phase in plan.phases() if phase.name != "rollout")

    def largest_share(self) -> float | None:
        """The largest share of the GPU for the rollout, in steps of 0.01; None if the rollout takes no share, or no
        share fits."""
        if self.settings.rollout.name == "transformers":
            return None
        for hundredths in range(90, 4, -1):
            plan = self._with_rollout(share=hundredths / 100)
            if plan._rolls_out():
                return hundredths / 100 if plan.server.at_once else None
        return None

    def largest_sequences(self) -> int | None:
        """The most sequences at once that fit, up to those of the settings; None if the rollout takes a share of a GPU,
        or not even one fits."""
        if self.settings.rollout.name != "transformers":
            return None
        fits, too_many = 0, self.settings.rollout.sequences + 1
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if self._with_rollout(sequences=middle)._rolls_out() else (fits, middle)
        return fits or None

    def _with_rollout(self, **changes: float) -> "Plan":
        rollout = dataclasses.replace(self.settings.rollout, **changes)
        return self.with_settings(dataclasses.replace(self.settings, rollout=rollout))

    def _with_roles(self, **changes: object) -> "Plan":
        critic = self.settings.critic
        return self.with_settings(
            dataclasses.replace(
                self.settings,
                actor=dataclasses.replace(self.settings.actor, **changes),
                critic=critic and dataclasses.replace(critic, **changes),
            )
        )

    def _rolls_out(self) -> bool:
        rollout = next(phase for phase in self.phases() if phase.name == "rollout")
        return rollout.total <= self.device.memory

    def changes(self) -> list[str]:
        if self.fits:
            return []
        moves = (self._fewer_tokens, self._less_rollout, self._offloaded, self._without_critic, self._with_adapters)
        if self._made(moves) is None:
            return []
        for number in range(1, len(moves) + 1):
            found = [made for chosen in combinations(moves, number) if (made := self._made(chosen)) is not None]
            if found:
                return found[:3]
        return []

    def _made(self, moves: "tuple[Move, ...]") -> str | None:
        """The overrides of those changes that are possible; None if the run does not fit with them."""
        typed: list[str] = []
        plan = self
        # The sizes last, because they depend on the others.
        for move in reversed(moves):
            if (changed := move(plan)) is not None:
                typed.insert(0, changed[0])
                plan = changed[1]
        return " ".join(typed) if plan.fits else None

    @staticmethod
    def _fewer_tokens(plan: "Plan") -> "tuple[str, Plan] | None":
        if (tokens := plan.largest_tokens()) is None:
            return None
        keys = (TOKENS, CRITIC_TOKENS) if plan.settings.critic else (TOKENS,)
        return " ".join(f"{key}={tokens}" for key in keys), plan.with_tokens(tokens)

    @staticmethod
    def _less_rollout(plan: "Plan") -> "tuple[str, Plan] | None":
        if (share := plan.largest_share()) is not None:
            return f"{SHARE}={share}", plan._with_rollout(share=share)
        if (sequences := plan.largest_sequences()) is not None:
            return f"{SEQUENCES}={sequences}", plan._with_rollout(sequences=sequences)
        return None

    @staticmethod
    def _offloaded(plan: "Plan") -> "tuple[str, Plan] | None":
        if plan.settings.cpu:
            return None  # the host's memory is the device's
        keys = OFFLOAD if plan.settings.critic else OFFLOAD[:2]
        changed = plan._with_roles(param_offload=True, optimizer_offload=True)
        return " ".join(f"{key}=true" for key in keys), changed

    @staticmethod
    def _without_critic(plan: "Plan") -> "tuple[str, Plan] | None":
        if plan.settings.critic is None:
            return None
        return "algorithm=grpo", plan.with_settings(dataclasses.replace(plan.settings, critic=None))

    @staticmethod
    def _with_adapters(plan: "Plan") -> "tuple[str, Plan] | None":
        if plan.settings.actor.lora_rank or not plan.settings.cpu:
            return None  # on GPUs the group lora also chooses what is offloaded
        return "lora=on", plan._with_roles(lora_rank=ADAPTER_RANK, lora_only=True)

    def host(self) -> dict[str, int]:
        return host_parts(self.settings, self.shape, self.server)

    def checkpoint(self) -> dict[str, int]:
        parts = checkpoint_parts(self.settings.roles, self.shape)
        if self.settings.averaged:
            parts["reference's average"] = self.shape.parameters() * AVERAGE_BYTES
        return parts

    def seconds(self) -> dict[str, float]:
        return phase_seconds(self.settings, self.shape, self.device, self.assumed)

    def run_seconds(self) -> dict[str, float]:
        settings = self.settings

        def answered(tasks: int, samples: int) -> float:
            return rollout_seconds(settings, self.shape, self.device, self.assumed, tasks, samples) if tasks else 0.0

        rows, times = settings.validated
        parts = {
            f"{settings.steps:,} steps": settings.steps * sum(self.seconds().values()),
            "validation": times * answered(rows, 1),
            JUDGING: 2 * answered(*settings.judged),
        }
        return {name: seconds for name, seconds in parts.items() if seconds}

    def tokens(self) -> tuple[float, float]:
        return tokens_of(self.settings, self.assumed)


Move = Callable[[Plan], tuple[str, Plan] | None]
"""A change of a plan: its overrides, and the changed plan; None if it is not possible or changes nothing."""
