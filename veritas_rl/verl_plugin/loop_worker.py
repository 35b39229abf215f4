"""Plays batches of tasks in a Ray actor, and writes the replies of a batch to TransferQueue at once.

verl's own worker writes and configures one sample at a time, stores each row's prompt and task beside the replies, and
gives every reply of a game the reward of the last reply.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, AgentLoopWorker, DictConfigWrap, ToolListWrap
from verl.utils import tensordict_utils as tu
from verl.utils.checkpoint.checkpoint_manager import find_latest_ckpt_path
from verl.workers.config import RolloutConfig

from veritas_rl.checkpoints.layout import step_of
from veritas_rl.envs.base import Session
from veritas_rl.envs.registry import task_of
from veritas_rl.envs.task import Task
from veritas_rl.seeding import digest
from veritas_rl.verl_plugin.agent_loop import TaskAgentLoop, recorded, start
from veritas_rl.verl_plugin.algorithms import lists_answers
from veritas_rl.verl_plugin.columns import from_rows
from veritas_rl.verl_plugin.cpu.client import BatchingClient
from veritas_rl.verl_plugin.sample_key import SampleKey
from veritas_rl.viewing.recording import PlayedGame, RecordedSession

KEPT = ("uid", "data_source", "reward_model")
"""The columns of a row that verl still reads after the game."""

NEEDED = (*KEPT, "extra_info")
"""The columns that playing a row requires."""

LOWEST = 19
"""The nice value of the lowest priority. Ray's workers have 15."""

logger = logging.getLogger(__name__)


@ray.remote
class TaskLoopWorker(AgentLoopWorker):
    """Plays batches. It is created before the rollout exists, because its imports take seconds."""

    def __init__(self) -> None:
        """Only import."""

    def begin(self, *args: Any) -> None:
        """Initialize with the arguments of verl's own worker."""
        super().__init__(*args)
        tq.init()
        client = self.llm_client
        if self.rollout_config.name == "transformers":
            client = BatchingClient(self.config.trainer.n_gpus_per_node * self.config.trainer.nnodes)
        self.loop = TaskAgentLoop(
            trainer_config=DictConfigWrap(config=self.config),
            server_manager=client,  # pyright: ignore[reportArgumentType]
            tokenizer=self.tokenizer,
            processor=self.processor,
            dataset_cls=self.dataset_cls,  # pyright: ignore[reportArgumentType]
            data_config=DictConfigWrap(self.config.data),
            tools=ToolListWrap(self.tools),
            generation_config=self.model_config.generation_config,
        )
        self._playing: set[asyncio.Task[None]] = set()
        self._plays = threading.Event()
        self._games: list[PlayedGame] = []
        self._ended = self._begun = 0
        self._said: set[str] = set()
        """The errors whose tracebacks are in the log."""

    def played(self) -> tuple[int, int, int]:
        """The plays of the newest batch that have ended, all its plays, and their replies so far.

        With `game_async` there are no batches: all plays count that began since none was going on.
        """
        return self._ended, self._begun, self.loop.replies

    def take_games(self) -> list[PlayedGame]:
        """The validation games recorded since the last call, in the order of their rows."""
        taken, self._games = self._games, []
        return taken

    async def prepare(self, tasks: Sequence[Task]) -> None:
        """Begin to prepare tasks that are played soon, and return at once. `play` ends the preparation."""
        self._plays = threading.Event()
        threading.Thread(target=_prepare, args=(tasks, self._plays), daemon=True).start()

    async def play(self, rows: list[dict[str, Any]], step: int, validate: bool) -> None:
        """Start to play, and return at once. The results are written to TransferQueue.

        Args:
            rows: The columns `NEEDED` of rows of `DynamicEnvDataset`.
            step: The training step.
            validate: Whether the rows are validation rows.
        """
        self._plays.set()
        if not self._playing:
            self._ended = self._begun = self.loop.replies = 0
        # Asynchronous training takes each game as soon as it ends, so no game waits for another.
        together = validate or self.config.trainer.v1.trainer_mode == "sync"
        for part in [rows] if together else [[row] for row in rows]:
            playing = asyncio.create_task(self._play_or_fail(part, step, validate))
            self._playing.add(playing)
            playing.add_done_callback(self._playing.discard)

    async def finish(self) -> None:
        """Wait until all games have ended."""
        await asyncio.gather(*self._playing)

    async def _play_or_fail(self, rows: list[dict[str, Any]], step: int, validate: bool) -> None:
        """Play rows, and mark them as failed after an error. verl waits forever for rows without a status."""
        try:
            await self._play(rows, step, validate)
        except Exception:
            logger.exception("Error in playing a batch")
            uids, partition = [row["uid"] for row in rows], "val" if validate else "train"
            await tq.async_kv_batch_put(keys=uids, tags=[{"status": "failure"}] * len(uids), partition_id=partition)

    async def _counted(self, task: Task, session: Session, params: dict[str, Any] | None) -> list[AgentLoopOutput]:
        try:
            if params is None:
                return await asyncio.to_thread(self.loop.listed, task)
            return await self.loop.play(task, session, params)
        finally:
            self._ended += 1

    async def _play(self, rows: list[dict[str, Any]], step: int, validate: bool) -> None:
        config, partition = self.rollout_config, "val" if validate else "train"
        drawn = config.val_kwargs if validate else config
        params = {
            "temperature": drawn.temperature,
            "top_p": drawn.top_p,
            "top_k": drawn.top_k,
            "repetition_penalty": 1.0,
            "logprobs": config.calculate_log_probs,
        }
        lists = not validate and lists_answers(self.config)

        def seeds(row: dict[str, Any], copy: int) -> dict[str, int]:
            return {"seed": play_seed(config.seed, row, copy, step, validate)} if seeds_replies(config) else {}

        tasks = [task_of(row["extra_info"]) for row in rows]
        sessions = [(index, copy) for index in range(len(rows)) for copy in range(drawn.n)]
        self._begun += len(sessions)
        started = await asyncio.to_thread(lambda: [start(tasks[index]) for index, _ in sessions])
        shown: list[RecordedSession] = []
        if validate:
            room = self.config.veritas_rl.games_to_show - len(self._games)
            for place, (index, copy) in enumerate(sessions):
                if tasks[index].mode == "episode" and copy == 0 and len(shown) < room:
                    shown.append(recorded(tasks[index], started[place]))
                    started[place] = shown[-1]
        played = await asyncio.gather(
            *(
                self._counted(
                    tasks[index],
                    session,
                    None if lists else params | seeds(rows[index], copy),
                )
                for (index, copy), session in zip(sessions, started, strict=True)
            ),
            return_exceptions=True,
        )
        if not any(isinstance(outputs, BaseException) for outputs in played):
            self._games += [session.game() for session in shown]
        failed: set[str] = set()
        keys: list[str] = []
        replies: list[tuple[dict[str, Any], AgentLoopOutput]] = []
        for (index, copy), outputs in zip(sessions, played, strict=True):
            uid = rows[index]["uid"]
            if isinstance(outputs, BaseException):
                said = f"{type(outputs).__name__}: {next(iter(str(outputs).splitlines()), '')}"
                # One traceback of each error: that of an engine that died has 600 lines.
                traceback = None if said in self._said else outputs
                self._said.add(said)
                logger.error("Error in playing %s: %s", tasks[index].id, said, exc_info=traceback)
                failed.add(uid)
                continue
            for number, output in enumerate(outputs):
                keys.append(str(SampleKey(uid, copy, number)))
                replies.append((rows[index], output))
        if keys:
            tags = [tag(output, step) for _, output in replies]
            await tq.async_kv_batch_put(keys=keys, fields=columns(replies), tags=tags, partition_id=partition)
        uids = [row["uid"] for row in rows]
        done = [{"status": "failure" if uid in failed else "finished"} for uid in uids]
        await tq.async_kv_batch_put(keys=uids, tags=done, partition_id=partition)


def seeds_replies(rollout: RolloutConfig | DictConfig) -> bool:
    """Whether each reply gets a seed of its own.

    vLLM samples each seeded request with a generator of its own, which is slow, and verl cannot seed requests to
    SGLang. Their engines have one generator for all requests. With `full_determinism`, verl seeds all requests to vLLM,
    and with the same seed, which would make all replies to a prompt equal.
    """
    return rollout.name == "transformers" or (rollout.name == "vllm" and rollout.full_determinism)


def play_seed(seed: int, row: Mapping[str, Any], copy: int, step: int, validate: bool) -> int:
    """The seed of the replies of one play: 64 bits, whichever process plays it.

    Args:
        seed: The seed of the rollout.
        row: A row with the column `extra_info`.
        copy: The number of the play among those of the row.
        step: The training step. All validations share their random numbers, so that their results differ by the weights
            alone.
        validate: Whether the row is a validation row.
    """
    # The index distinguishes two rows of one task.
    which = (row["extra_info"]["task_id"], row["extra_info"]["index"], copy)
    return digest("validation", seed, *which) if validate else digest("rollout", seed, *which, step)


def _prepare(tasks: Sequence[Task], until: threading.Event) -> None:
    """Fill this process's caches with tasks. The thread has a low priority, because the trainer needs the cores."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST)
    for task in tasks:
        if until.is_set():
            return
        start(task).anticipate()


def columns(replies: Sequence[tuple[dict[str, Any], AgentLoopOutput]]) -> TensorDict:
    """The columns that verl's trainer and engines read, one sample per reply. Tokens are (samples, jagged).

    Args:
        replies: For each reply, the row of its task with at least the columns `KEPT`, and the agent loop's output.
    """
    rows, outputs = zip(*replies, strict=True)
    whole = [[*output.prompt_ids, *output.response_ids] for output in outputs]
    mask = from_rows([output.response_mask for output in outputs], torch.int64)
    made = {
        **{name: [row[name] for row in rows] for name in KEPT},
        "prompts": from_rows([output.prompt_ids for output in outputs], torch.int64),
        "responses": from_rows([output.response_ids for output in outputs], torch.int64),
        "input_ids": from_rows(whole, torch.int64),
        "position_ids": from_rows([range(len(tokens)) for tokens in whole], torch.int64),
        "response_mask": mask,
        "loss_mask": mask,
        # verl expects a reward per token. A reply's reward is at its last token.
        "rm_scores": from_rows(
            [[*[0.0] * (len(output.response_ids) - 1), output.reward_score or 0.0] for output in outputs], torch.float32
        ),
        "num_turns": [output.num_turns for output in outputs],
        "extra_fields": [output.extra_fields for output in outputs],
    }
    log_probs = [output.response_logprobs for output in outputs if output.response_logprobs is not None]
    if len(log_probs) == len(outputs):
        made["rollout_log_probs"] = from_rows(log_probs, torch.float32)
    return tu.get_tensordict(made)


def tag(output: AgentLoopOutput, step: int) -> dict[str, Any]:
    """The tag of a reply for verl's replay buffer and rank balancing. Lengths are in tokens."""
    prompt, response = len(output.prompt_ids), len(output.response_ids)
    weights = {
        name: step - 1 if (made_by := output.extra_fields.get(name)) is None else made_by
        for name in ("min_global_steps", "max_global_steps")
    }
    return {
        "status": "success",
        "prompt_len": prompt,
        "response_len": response,
        "seq_len": prompt + response,
        "global_steps": step,
        **weights,
    }


def engine_seed(config: DictConfig) -> int:
    """The seed of the rollout's engines, to which verl adds the number of the replica.

    A checkpoint does not contain the engines' generators. After a resume they get another seed, because they would
    repeat the random numbers of the first steps. Where each reply has its own seed, which depends on the step, the seed
    stays.

    Args:
        config: verl's full configuration.
    """
    trainer, rollout = config.trainer, config.actor_rollout_ref.rollout
    start = trainer.resume_from_path if trainer.resume_mode == "resume_path" else None
    if trainer.resume_mode == "auto":
        start = find_latest_ckpt_path(str(Path(trainer.default_local_dir).absolute()))
    if start is None or seeds_replies(rollout):
        return rollout.seed
    # Seeds of NumPy have 32 bits.
    return digest("engine", rollout.seed, step_of(Path(start))) % 2**31
