"""The plan of a run: the memory of each phase of a step, whether it fits, and the largest settings that fit."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from veritas_rl.planning.devices import GIB
from veritas_rl.planning.duration import phase_seconds, tokens_of
from veritas_rl.planning.forecast import CPU_PROCESS, Forecast, Phase, phase_of, process_bytes, with_fragments
from veritas_rl.planning.serving import CONTEXT, Server, server_of
from veritas_rl.planning.settings import Role, Settings
from veritas_rl.planning.storage import AVERAGE_BYTES, checkpoint_parts, host_parts
from veritas_rl.planning.training import Engine


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
        of_actor, of_critic = "actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "critic.ppo_max_token_len_per_gpu"
        yield phase_of(
            "rollout",
            {
                **idle,
                **process,
                "rollout": server.share,
                "rollout's graphs": 0 if server.cpu else server.context - CONTEXT,
            },
            "actor_rollout_ref.rollout.gpu_memory_utilization",
        )
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
                "values", {**beside_critic, **with_fragments(critic.inference_parts(entropy=False))}, of_critic
            )
            yield phase_of("critic's update", {**beside_critic, **with_fragments(critic.update_parts())}, of_critic)
        yield phase_of("actor's update", {**beside_actor, **with_fragments(actor.update_parts())}, of_actor)
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
        changed = {"update_tokens": tokens, "infer_tokens": tokens}
        critic = self.settings.critic
        return self.with_settings(
            dataclasses.replace(
                self.settings,
                actor=dataclasses.replace(self.settings.actor, **changed),
                critic=None if critic is None else dataclasses.replace(critic, **changed),
            )
        )

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
            rollout = dataclasses.replace(self.settings.rollout, share=hundredths / 100)
            plan = self.with_settings(dataclasses.replace(self.settings, rollout=rollout))
            rolled = next(phase for phase in plan.phases() if phase.name == "rollout")
            if rolled.total <= self.device.memory:
                return hundredths / 100 if plan.server.at_once else None
        return None

    def changes(self) -> list[str]:
        if self.fits:
            return []
        found = [typed for typed, plan in self._changed() if plan.fits]
        return found[:3]

    def _changed(self) -> Iterator[tuple[str, "Plan"]]:
        settings = self.settings
        rl, critic = "actor_rollout_ref", settings.critic
        if (share := self.largest_share()) is not None:
            rollout = dataclasses.replace(settings.rollout, share=share)
            smaller = self.with_settings(dataclasses.replace(settings, rollout=rollout))
            yield f"{rl}.rollout.gpu_memory_utilization={share}", smaller
        if (tokens := self.largest_tokens()) is not None:
            typed = f"{rl}.actor.ppo_max_token_len_per_gpu={tokens}"
            yield typed + (f" critic.ppo_max_token_len_per_gpu={tokens}" if critic else ""), self.with_tokens(tokens)
        offload = {"param_offload": True, "optimizer_offload": True}
        typed = f"{rl}.actor.fsdp_config.param_offload=true {rl}.actor.fsdp_config.optimizer_offload=true"
        if critic:
            typed += " critic.fsdp.param_offload=true critic.fsdp.optimizer_offload=true"
        offloaded = self.with_settings(
            dataclasses.replace(
                settings,
                actor=dataclasses.replace(settings.actor, **offload),
                critic=dataclasses.replace(critic, **offload) if critic else None,
            )
        )
        yield typed, offloaded
        if (tokens := offloaded.largest_tokens()) is not None:
            more = f" {rl}.actor.ppo_max_token_len_per_gpu={tokens}"
            more += f" critic.ppo_max_token_len_per_gpu={tokens}" if critic else ""
            yield typed + more, offloaded.with_tokens(tokens)
        if critic:
            yield "algorithm=grpo", self.with_settings(dataclasses.replace(settings, critic=None))

    def host(self) -> dict[str, int]:
        return host_parts(self.settings, self.shape, self.server)

    def checkpoint(self) -> dict[str, int]:
        parts = checkpoint_parts(self.settings.roles, self.shape)
        if self.settings.averaged:
            parts["reference's average"] = self.shape.parameters() * AVERAGE_BYTES
        return parts

    def seconds(self) -> dict[str, float]:
        return phase_seconds(self.settings, self.shape, self.device, self.assumed)

    def tokens(self) -> tuple[float, float]:
        return tokens_of(self.settings, self.assumed)
