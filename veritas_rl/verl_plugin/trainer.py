"""The trainers `game` and `game_async`, which extend two of verl's PPO trainers.

verl selects them by `trainer.v1.trainer_mode`. `game` extends verl's mode "sync", in which a step plays its games to
the end. `game_async` extends verl's mode "colocate_async", in which games continue from step to step, so that no game
waits for the longest. They add:

- A checkpoint is complete once it contains `checkpoint.json`, which is written last. Old checkpoints are removed after
  a newer checkpoint is complete. verl counts only checkpoints of its own process, and removes an old checkpoint before
  it writes the next.
- A file named `stop` beside the checkpoints ends the run after the step, with a checkpoint.
- A loss or gradient that is not a finite number ends the run, naming the step, the ranks, the tasks and the file of the
  batch, see `not_finite`.
- The first batch, and the newest of a step with a checkpoint or a validation, are saved, see `saved_batch`.
- A warning on the console reports a disk that is nearly full. Before the disk is too full for a checkpoint, a
  checkpoint is saved and the run ends, see `checkpoints.room`.
- An algorithm may have advantages of its own, which compare whole games seat by seat, see `algorithms`.
- The batches of DAPO consist of groups whose replies differ, see `replay_buffer`.
- How far a batch is played is written to a file for the launcher, see `rollout_progress`.
- A warning is printed once if many replies are truncated for several steps.
- A line is printed once if a custom reward function returns a reward outside of [0, 1].
- A warning is printed once if rollout and trainer disagree about the probabilities of the same tokens.
- The run ends with an error if nothing can be learned for several steps, see `learning_watch`. A step without a
  learned token makes no passes and no update, and counts as a step. A step in which every advantage is 0, or with
  `gae` every reward, does not update the actor: the entropy bonus, weight decay, Adam's moments or the critic's noise
  would move it without any reward.
- The dataset, with curriculum and failure replay, gets the outcomes of its tasks before a checkpoint is saved.
- Some validation games are written to a page, see `viewing.games_page`.
- The replies of a step are divided evenly into mini-batches. Whole games give varying numbers of replies. verl would
  fill the last mini-batch with padding, and make a whole update of a few remaining replies.
- A batch is in the order of its tasks, whichever game ended first. With `game`, a run on one machine can be repeated.
- The replies of a group stay together if its prompt is computed once, see `shared_prompts`.
- After a resume vLLM's engines have another seed, see `loop_worker.engine_seed`.
- The reference of the KL term follows the policy if `veritas_rl.reference` asks for it, see `reference`.
- On a CPU with enough cores, actor and critic are updated at the same time, see `cpu.separate_critic`.
- Dropout is off, see `dropout`.
- `trainer.critic_warmup` is the number of steps in which only the critic learns. verl's is one more.
- The critic's values do not depend on the reference pass. verl leaves the flag "without the adapter" on the batch,
  which would affect the critic.
"""

import json
import math
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import ray
import transfer_queue as tq
from omegaconf import DictConfig, open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import PPOTrainer, register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu

from veritas_rl.checkpoints.adapter import weights_fingerprint
from veritas_rl.checkpoints.layout import (
    STOP,
    CheckpointInfo,
    LoraInfo,
    reading,
    remove_info,
    step_folder,
    write_info,
)
from veritas_rl.checkpoints.prune import keep_newest
from veritas_rl.checkpoints.room import DiskWatch
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin import algorithms, dropout, loop_manager, loop_worker, not_finite, workers
from veritas_rl.verl_plugin.advantages import nothing_for_the_actor, signal, with_estimate, without_advantages
from veritas_rl.verl_plugin.agreement import METRIC, AgreementWatch
from veritas_rl.verl_plugin.batches import (
    VariedGroups,
    bound_losses,
    even_mini_batches,
    in_order,
    outcomes,
    whole_groups,
    with_tensors,
)
from veritas_rl.verl_plugin.cpu import room
from veritas_rl.verl_plugin.learning_watch import EQUAL, LEAVE_OUT, SKIPPED, UNLEARNED, LearningWatch
from veritas_rl.verl_plugin.reference import AVERAGE, REFRESH
from veritas_rl.verl_plugin.reward import RangeWatch
from veritas_rl.verl_plugin.rollout_progress import watch_rollout
from veritas_rl.verl_plugin.sample_key import SampleKey
from veritas_rl.verl_plugin.saved_batch import SavedBatches, logs_folder, other_folders
from veritas_rl.verl_plugin.truncation import TruncationWatch
from veritas_rl.viewing.games_page import GAMES_FOLDER, write_games

ASYNC_REPLAY_BUFFER = "AsyncTaskReplayBuffer"
"""A class in the file that `custom_sampler` names. It is not imported here, to avoid a circular import through verl."""

MEMORY = "baselines.json"
"""The memory of an algorithm in a checkpoint, such as the running means of `rae`."""


class TaskTraining(PPOTrainer):
    """The common base of `TaskTrainer` and `AsyncTaskTrainer`, combined with one of verl's trainers.

    Args:
        config: verl's full configuration.

    Attributes:
        verl_mode: The name of verl's mode, which verl checks in several places.
    """

    verl_mode: ClassVar[str]

    def __init__(self, config: DictConfig) -> None:
        with open_dict(config):
            config.trainer.v1.trainer_mode = self.verl_mode
            config.actor_rollout_ref.rollout.seed = loop_worker.engine_seed(config)
            self._keep = config.trainer.get("max_actor_ckpt_to_keep") or 0
            config.trainer.max_actor_ckpt_to_keep = None
            config.trainer.max_critic_ckpt_to_keep = None
            # verl updates the actor from the step of this number on, and counts steps from 1.
            config.trainer.critic_warmup += 1
            if algorithms.lists_answers(config):
                # No rollout has sampled the answers.
                config.actor_rollout_ref.rollout.calculate_log_probs = False
                config.algorithm.rollout_correction.bypass_mode = False
        dropout.turn_off(config)
        self._folder = Path(config.trainer.default_local_dir).absolute()
        self._batches = SavedBatches(config)
        self._disk = DiskWatch(self._folder, other_folders(config), int(config.veritas_rl.spare_disk_gib * 2**30))
        self._too_full: str | None = None
        self._saved = 0
        bound_losses(config)
        self._follows = config.veritas_rl.reference == "checkpoint"
        self._reference_step = 0
        averages = config.veritas_rl.reference == "average"
        self._average_decay: float | None = config.veritas_rl.reference_decay if averages else None
        self._algorithm = algorithms.of_estimator(config.algorithm.adv_estimator)
        self._memory: dict[str, float] = {}
        self._learning = LearningWatch(config)
        self._nothing_to_learn = False
        self._no_advantage = False
        self._truncation = TruncationWatch(config.data.max_response_length)
        self._custom_reward = CustomReward.read(config)
        self._range = RangeWatch(self._custom_reward)
        self._agreement = AgreementWatch(four_bit=config.veritas_rl.get("quantization") is not None)
        self._learners = [config.actor_rollout_ref.actor, config.critic]
        self._mini_batch_sizes = [learner.ppo_mini_batch_size for learner in self._learners]
        self._separate_critic = room.separate_critic(config)
        self._drawn: dict[str, int] = {}
        """The number of the dataset's draw, by verl's uid of the row."""
        loop_manager.TaskLoopManager.start_workers(config)
        room.start_servers(config)
        base = Path(config.actor_rollout_ref.model.path)
        self._lora = LoraInfo.of(config.actor_rollout_ref.model)
        self._base_fingerprint = weights_fingerprint(base) if any(base.glob("*.safetensors")) else None
        super().__init__(config)

    def fit(self, agent_loop_manager: Any) -> None:
        """Train, and write for the launcher how far each batch is played."""
        watch_rollout(agent_loop_manager.agent_loop_workers, logs_folder())
        super().fit(agent_loop_manager)

    def on_step_end(self) -> None:
        """End the run if a stop was requested or the disk is nearly full, and send the new weights to the rollout.

        Raises:
            UserError: The disk is so full that the last step could not be saved. verl would end as if it had been.
        """
        # As verl, save before the rollout wakes and takes its memory.
        stop = self._folder / STOP
        if line := self._disk.warning():
            print(line, flush=True)
        self._too_full = self._too_full or self._disk.too_full()
        if stop.exists() or self._too_full:
            if self._saved != self.global_steps:
                self._save_checkpoint()
            if self._saved != self.global_steps == self.total_training_steps:
                raise UserError(f"{self._too_full}: {self._disk.advice()}")
            self.total_training_steps = self.global_steps
            stop.unlink(missing_ok=True)
        super().on_step_end()

    def on_train_end(self) -> None:
        """Raise an error if the disk has ended the run early. The metrics of the last step are already written.

        Raises:
            UserError: The disk is nearly full.
        """
        super().on_train_end()
        if self._too_full is not None:
            raise UserError(f"{self._too_full}: {self._disk.advice()}")

    def on_validate_end(self) -> None:
        """Write the recorded games to the launcher's folder, if it has set one."""
        super().on_validate_end()
        loops = self.agent_loop_manager.agent_loop_workers
        recorded = [game for games in ray.get([loop.take_games.remote() for loop in loops]) for game in games]
        games, folder = recorded[: self.config.veritas_rl.games_to_show], os.environ.get(GAMES_FOLDER)
        if games and folder:
            title = f"{self.config.trainer.experiment_name}, step {self.global_steps}"
            page = write_games(Path(folder), f"step_{self.global_steps}", games, title)
            print(f"{len(games)} validation games: {page}", flush=True)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """One training step.

        Raises:
            UserError: A loss or gradient is not finite. verl has skipped the update, and would continue. Or nothing
                could be learned for some steps.
        """
        batch = super().step(metrics, timing_raw)
        ranks, of = not_finite.take_ranks(metrics), max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        if broken := not_finite.broken(metrics):
            tasks = sorted({info["task_id"] for _, info in self._infos()})
            raise UserError(not_finite.report(self.config, self.global_steps, batch, broken, ranks, of, tasks))
        last = self.global_steps >= self.total_training_steps
        if line := self._batches.after(self.global_steps, batch, of, last=last):
            print(line, flush=True)
        metrics |= self._record()
        if line := self._truncation.message(metrics.get("task/truncated", 0.0)):
            print(line, flush=True)
        # Replies that older weights have started also differ by the updates since then.
        if self.verl_mode == "sync" and (line := self._agreement.message(metrics.get(METRIC))):
            print(line, flush=True)
        for learner in ("actor", "critic") if self.use_critic else ("actor",):
            metrics.setdefault(f"{learner}/{SKIPPED}", 0.0)
        for line in self._learning.lines(metrics):
            print(line, flush=True)
        return batch

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        self.role_worker_mapping = workers.of_roles(self.role_worker_mapping)
        if self._separate_critic is not None:
            self.resource_pool_manager = self._separate_critic.pools(self.resource_pool_manager)

    def _step_once(self, metrics: dict[str, Any], timing_raw: dict[str, float], sample_batch_size: int) -> KVBatchMeta:
        batch = super()._step_once(metrics, timing_raw, sample_batch_size)
        if self._separate_critic is not None:
            self._separate_critic.finish(metrics, timing_raw)
        return batch

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> KVBatchMeta:
        self._nothing_to_learn = metrics[UNLEARNED] == 1
        copies, trainer = self.config.actor_rollout_ref.rollout.n, self.config.trainer
        ranks = trainer.n_gpus_per_node * trainer.nnodes
        sizes = self._mini_batch_sizes
        if algorithms.lists_answers(self.config):
            # A task has many answers.
            parts = self.config.veritas_rl.mini_batches[self.config.veritas_rl.play]
            sizes = [math.ceil(len(batch) / parts)] * len(sizes)
        sizes = even_mini_batches(len(batch), sizes, copies, ranks)
        with open_dict(self.config):
            for learner, size in zip(self._learners, sizes, strict=True):
                learner.ppo_mini_batch_size = size
        batch.reorder(in_order(batch.keys, self._drawn))
        batch = super()._balance_batch(batch, metrics, *args, **kwargs)
        if self.config.actor_rollout_ref.actor.use_prefix_grouper:
            groups = [SampleKey.parse(key).uid for key in batch.keys]
            batch.reorder(whole_groups(groups, [tag["seq_len"] for tag in batch.tags], ranks))
        return batch

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        self._no_advantage = False
        if self._nothing_to_learn:
            return without_advantages(batch)
        batch = super()._compute_advantage(batch, metrics)
        if self._algorithm is not None and self._algorithm.advantages is not None:
            custom = self._custom_reward is not None
            batch, found = with_estimate(batch, self._algorithm, self.config.algorithm, self._memory, custom=custom)
            metrics |= found
        metrics[EQUAL], earned = signal(batch)
        self._no_advantage = nothing_for_the_actor(self.config, zero_advantages=metrics[EQUAL], earned=earned)
        return batch

    def _submit_batch_to_rollout(self, batch: TensorDict) -> int:
        self._drawn |= zip(tu.get(batch, "uid"), map(int, tu.get(batch, "index")), strict=True)
        return super()._submit_batch_to_rollout(batch)

    def _val_metrics_update(
        self,
        data_sources: list[str],
        sample_uids: list[str],
        reward_extra_infos_dict: dict[str, list[Any]],
        sample_turns: list[int],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        """As verl's method, but by environment and group (`val-core/openspiel/hex/...`) instead of by data source
        only."""
        groups = reward_extra_infos_dict.get("group", data_sources)
        # verl counts by data source and by a score named "acc", which this trainer does not use.
        return super()._val_metrics_update(groups, sample_uids, reward_extra_infos_dict, sample_turns)

    def _build_replay_buffer(self) -> Any:
        buffer: Any = super()._build_replay_buffer()
        groups = self.config.algorithm.get("filter_groups")
        if groups and groups.enable:
            # verl filters only in its own buffers.
            buffer.varied = VariedGroups(groups.metric, groups.max_num_gen_batches, self._drawn)
        return buffer

    def _infos(self) -> list[tuple[str, dict[str, Any]]]:
        buffer: Any = self.replay_buffer
        return buffer.infos

    def _record(self) -> dict[str, float]:
        """Record the outcomes of a batch in the dataset, print passed stages, and return the dataset's metrics."""
        dataset: Any = self.train_dataset
        buffer: Any = self.replay_buffer
        found = outcomes([*self._infos(), *buffer.left_out])
        for line in dataset.record({self._drawn.pop(uid): outcome for uid, outcome in found.items()}):
            print(line, flush=True)
        return dataset.metrics()

    def _compute_metrics(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super()._compute_metrics(batch, metrics, *args, **kwargs)
        buffer: Any = self.replay_buffer
        if line := self._range.message(*buffer.range, step=self.global_steps):
            print(line, flush=True)
        if self._nothing_to_learn:
            # Means over no token.
            for name in [name for name, value in metrics.items() if isinstance(value, float) and value != value]:
                del metrics[name]

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        if self._nothing_to_learn:
            return batch
        return super()._compute_old_log_prob(with_tensors(batch), metrics)

    def _compute_values(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        if self._nothing_to_learn:
            return batch
        return super()._compute_values(with_tensors(batch), metrics)

    def _update_critic(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        if self._separate_critic is None:
            return super()._update_critic(with_tensors(batch), metrics)
        self._separate_critic.start(super()._update_critic, with_tensors(batch))
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch = with_tensors(batch)
        assert batch.extra_info is not None
        batch.extra_info[LEAVE_OUT] = self._no_advantage
        batch = super()._update_actor(batch, metrics)
        assert batch.extra_info is not None
        batch.extra_info.pop(LEAVE_OUT)
        return batch

    def _compute_ref_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        if self._nothing_to_learn:
            return batch
        batch = with_tensors(batch)
        assert batch.extra_info is not None
        if self._follows:
            batch.extra_info[REFRESH] = self._saved != self._reference_step
            self._reference_step = self._saved
            metrics["actor/reference_step"] = float(self._saved)
        if self._average_decay is not None:
            batch.extra_info[AVERAGE] = self._average_decay
        batch = super()._compute_ref_log_prob(batch, metrics)
        assert batch.extra_info is not None
        batch.extra_info.pop("no_lora_adapter", None)
        batch.extra_info.pop(REFRESH, None)
        batch.extra_info.pop(AVERAGE, None)
        return batch

    def _save_checkpoint(self) -> None:
        if not self._disk.has_room():
            # Something else has filled the disk during the step. The run ends after this step.
            self._too_full = self._disk.too_full() or "the disk had no room for a checkpoint"
            return
        folder = step_folder(self._folder, self.global_steps)
        remove_info(folder)
        super()._save_checkpoint()
        (folder / MEMORY).write_text(json.dumps(self._memory))
        for file in folder.rglob("*"):
            if file.is_file():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
        write_info(folder, self._info())
        self._saved = self.global_steps
        if self._keep:
            keep_newest(self._folder, self._keep)

    def _load_checkpoint(self) -> None:
        trainer = self.config.trainer
        named = Path(trainer.resume_from_path).absolute() if trainer.resume_mode == "resume_path" else None
        with reading(named) if named is not None else nullcontext():
            super()._load_checkpoint()
        saved = (named or step_folder(self._folder, self.global_steps)) / MEMORY
        if self.global_steps and saved.exists():
            self._memory = json.loads(saved.read_text())
        self._saved = self.global_steps

    def _info(self) -> CheckpointInfo:
        model, trainer = self.config.actor_rollout_ref.model, self.config.trainer
        return CheckpointInfo(
            global_step=self.global_steps,
            base_model=model.path,
            world_size=trainer.n_gpus_per_node * trainer.nnodes,
            lora=self._lora,
            base_fingerprint=self._base_fingerprint,
            device=trainer.device,
            critic_lora=LoraInfo.of(self.config.critic.model) if self.use_critic else None,
            custom_reward=self._custom_reward.identity if self._custom_reward is not None else None,
        )


@register_trainer("game")
class TaskTrainer(TaskTraining, PPOTrainerSync):
    """verl's synchronous trainer, for games."""

    verl_mode = "sync"

    def on_sample_begin(self) -> None:
        """Wait for the games, because polling the queue would slow them down."""
        super().on_sample_begin()
        ray.get([worker.finish.remote() for worker in self.agent_loop_manager.agent_loop_workers])

    def on_sample_end(self) -> None:
        """Let the idle agent loops prepare the next batch while the models are updated."""
        super().on_sample_end()
        if self.global_steps < self.total_training_steps:
            dataset: Any = self.train_dataset
            manager: Any = self.agent_loop_manager
            manager.prepare(dataset.upcoming())


@register_trainer("game_async")
class AsyncTaskTrainer(TaskTraining, PPOTrainerColocateAsync):
    """verl's asynchronous trainer on the devices of the rollout, for games."""

    verl_mode = "colocate_async"

    def __init__(self, config: DictConfig) -> None:
        correction = config.algorithm.rollout_correction
        with open_dict(config):
            config.trainer.v1.sampler.custom_sampler.name = ASYNC_REPLAY_BUFFER
            if not correction.bypass_mode and correction.rollout_is is None:
                # Replies may come from older weights, which recomputed log-probabilities do not show.
                correction.rollout_is = "token"
        super().__init__(config)

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        saved = (tq.kv_list("train") or {}).get("train", {})
        prompts = [uid for uid, tag in saved.items() if tag.get("is_prompt")]
        known = set(prompts)
        # The queue also saves replies that were already trained on, and these are never requested again.
        trained = [key for key in saved if key not in known and SampleKey.parse(key).uid not in known]
        if trained:
            tq.kv_clear(keys=trained, partition_id="train")
        failed = [uid for uid in prompts if saved[uid]["status"] == "failure"]
        if failed:
            tq.kv_batch_put(keys=failed, tags=[{"status": "pending"}] * len(failed), partition_id="train")
        # Finished games are trained on and unfinished games restart, so their tasks are not drawn again.
        if prompts:
            rows = tq.kv_batch_get(keys=prompts, partition_id="train", select_fields=["index"])
            self._drawn = dict(zip(prompts, map(int, tu.get(rows, "index")), strict=True))
            dataset: Any = self.train_dataset
            dataset.go_on_with(self._drawn.values())
