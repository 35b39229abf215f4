"""Play tasks with the model in training: the asynchronous counterpart of `veritas_rl.envs.base.play`.

`TaskAgentLoop` (registered in verl as `game_agent`) plays one session. The model answers its turns, and `shape`
computes the reward of each reply from its seat's score. Tasks with one answer use it too, so that truncated replies are
recognized.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

from veritas_rl.chat_template import end_tokens, prompt_ids, with_limit
from veritas_rl.envs.base import Reply, Score, Session, Turn, shape
from veritas_rl.envs.registry import get_environment, task_of
from veritas_rl.envs.task import Task
from veritas_rl.players.loading import ReplySettings
from veritas_rl.players.registry import ALL_SEATS, is_model, stand_in
from veritas_rl.players.reply_text import reply_text
from veritas_rl.seeding import digest
from veritas_rl.verl_plugin.chat import Chat
from veritas_rl.verl_plugin.opponents import ModelSettings, Opponent
from veritas_rl.verl_plugin.reward import reward_info
from veritas_rl.viewing.recording import RecordedSession


@dataclass
class _Sample:
    """One trajectory of a game in progress.

    Attributes:
        seat: The seat of its replies.
        chat: Its tokens.
        opening: The number of tokens of the first prompt of its conversation, or of its own prompt.
        accepted: Whether its last reply was a legal answer.
        number: The number of replies that this seat was asked for before.
        seconds: The time of generation.
        made_by: The rollout's extra fields.
    """

    seat: int
    chat: Chat
    opening: int
    accepted: bool = True
    number: int = 0
    seconds: float = 0.0
    made_by: dict[str, Any] = field(default_factory=dict)


class TaskAgentLoop(AgentLoopBase):
    """Plays one session with the model in training on its seats, and the task's opponent on the others.

    In the context "turn" every reply of the model is a separate trajectory. In "conversation" a trajectory of a seat
    goes on as long as the chat template only appends, and only the replies have loss. All trajectories of a
    conversation have the same reward.
    """

    tokenizer: Any

    def __init__(self, *args: Any, generation_config: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ends = end_tokens(self.tokenizer, generation_config)
        self._opponents: dict[tuple[str, str], Opponent] = {}
        self._enable_thinking = bool(self.apply_chat_template_kwargs.get("enable_thinking", False))
        self._say_limit = bool(OmegaConf.select(self.config, "veritas_rl.say_limit"))

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Play the row's task.

        Args:
            sampling_params: temperature, top_p and top_k from verl's rollout configuration, and optionally the seed of
                this play, from which each reply gets its own.
            row: A row of `DynamicEnvDataset`; its `extra_info` contains the task.

        Returns:
            The trajectories, in order. `reward_score` is the shaped reward of a trajectory.
        """
        task = task_of(row["extra_info"])
        return await self.play(task, await asyncio.to_thread(start, task), sampling_params)

    async def play(self, task: Task, session: Session, sampling_params: dict[str, Any]) -> list[AgentLoopOutput]:
        """Play a session of a task to its end. Returns as `run`."""
        began, waited = self.loop.time(), 0.0
        opponent = self._opponent(stand_in(task.manner.opponent, task.env, task.case), task.env)
        samples: list[_Sample] = []
        while turns := session.turns():
            mine = [turn for turn in turns if is_trained(task, turn.seat)]
            others = [turn for turn in turns if not is_trained(task, turn.seat)]
            asked = self.loop.time()
            said = await asyncio.gather(
                *(self._answer(turn, samples, sampling_params) for turn in mine),
                *(opponent.act(turn) for turn in others),
            )
            waited += (self.loop.time() - asked) * (not mine)
            replies = {turn.seat: reply for turn, reply in zip([*mine, *others], said, strict=True)}
            # Scoring may search or simulate games, so it must not block the event loop.
            await asyncio.to_thread(session.step, replies)
            for turn in mine:
                self._last(samples, turn.seat).accepted = turn.seat not in session.rejected
        if not samples:
            # The game ended before the model was asked. It counts as a game without a learned token.
            samples.append(_Sample(max(task.manner.seat, 0), Chat(self.tokenizer, [self.tokenizer.eos_token_id]), 1))
            self._leave_unanswered(samples[0])
        share = waited / max(self.loop.time() - began, 1e-9)
        return self._outputs(task, session.scores(), samples, share)

    def _outputs(
        self, task: Task, scores: Mapping[int, Score], samples: list[_Sample], waited: float
    ) -> list[AgentLoopOutput]:
        later = dict.fromkeys(scores, 0)
        outputs: list[AgentLoopOutput] = []
        together = task.manner.context == "conversation"
        for sample in reversed(samples):
            score = scores[sample.seat]
            accepted = score.legal if together else sample.accepted
            output = sample.chat.output(
                sample.seconds,
                {
                    **sample.made_by,
                    "reward_extra_info": reward_info(task, score),
                    "move": {
                        "seat": sample.seat,
                        "left": later[sample.seat],
                        "discount": task.pay.gamma ** later[sample.seat],
                        "opponent": task.manner.opponent,
                        "opponent_wait": waited,
                    },
                    "turn_scores": [],
                    "tool_rewards": [],
                },
                log_probs=self.rollout_config.get("calculate_log_probs", True),
            )
            output.reward_score = shape(score, task, later[sample.seat], accepted)
            output.num_turns = len(samples)
            outputs.append(output)
            later[sample.seat] += sample.accepted and not together
        return outputs[::-1]

    def _sample(self, turn: Turn, samples: list[_Sample]) -> _Sample | None:
        """The trajectory to which the reply to a turn belongs; None if a conversation has no room for a reply."""
        limit = self.rollout_config.response_length
        messages = with_limit(turn.messages, limit, turn.opening) if self._say_limit else turn.messages
        prompt = prompt_ids(self.tokenizer, messages, enable_thinking=self._enable_thinking)
        before = [sample for sample in samples if sample.seat == turn.seat]
        if before and turn.opening:
            last, opening = before[-1], before[-1].opening
            most = opening + limit - 1
            if len(prompt) > most:
                return None
            if last.chat.goes_on(prompt, most):
                return last
        else:
            opening = len(prompt)
        number = before[-1].number if before else 0
        samples.append(_Sample(turn.seat, Chat(self.tokenizer, prompt), opening, number=number))
        return samples[-1]

    @staticmethod
    def _last(samples: list[_Sample], seat: int) -> _Sample:
        return next(sample for sample in reversed(samples) if sample.seat == seat)

    def _opponent(self, name: str, env: str) -> Opponent:
        """The player of the seats that are not trained. In self-play this player is never asked."""
        name = "random" if name in ALL_SEATS else name
        if (name, env) not in self._opponents:
            workers = math.ceil(self.rollout_config.agent.num_workers / self.config.trainer.nnodes)
            self._opponents[name, env] = Opponent(name, env, self._models() if is_model(name) else None, workers)
        return self._opponents[name, env]

    def _models(self) -> ModelSettings:
        return ModelSettings(
            checkpoints=Path(self.config.trainer.default_local_dir).absolute(),
            base=self.config.actor_rollout_ref.model.path,
            replies=ReplySettings(
                max_tokens=self.rollout_config.response_length,
                temperature=1.0,
                enable_thinking=self._enable_thinking,
                say_limit=self._say_limit,
            ),
        )

    def _leave_unanswered(self, sample: _Sample, *, overlong: bool = False) -> Reply:
        """End the trajectory without a reply. An empty trajectory gets one end token without loss."""
        chat = sample.chat
        if not chat.response_ids:
            chat.prompt_ids = chat.prompt_ids[: self.rollout_config.prompt_length]
            chat.response_ids, chat.response_mask, chat.log_probs = [self.tokenizer.eos_token_id], [0], [0.0]
        return Reply("", truncated=not overlong, overlong=overlong)

    async def _answer(self, turn: Turn, samples: list[_Sample], sampling_params: dict[str, Any]) -> Reply:
        sample = self._sample(turn, samples)
        if sample is None:
            return Reply("", truncated=True)
        chat = sample.chat
        if sample.opening > self.rollout_config.prompt_length:
            # verl would silently cut the start of the prompt, so the model is not asked.
            return self._leave_unanswered(sample, overlong=True)
        limit = self.rollout_config.response_length - (len(chat.ids) - sample.opening)
        # An inference server knows only the ends of the tokenizer and the generation config.
        asked = {**sampling_params, "max_tokens": limit, "stop_token_ids": sorted(self._ends)}
        if "seed" in asked:
            # vLLM's seeds are signed numbers of 64 bits.
            asked["seed"] = digest("reply", asked["seed"], sample.seat, sample.number) >> 1
        started = self.loop.time()
        generated = await self.server_manager.generate(
            request_id=uuid4().hex, prompt_ids=chat.ids, sampling_params=asked
        )
        sample.number += 1
        sample.seconds += self.loop.time() - started
        sample.made_by = {**generated.extra_fields, **_first_weights(sample.made_by)}
        token_ids = list(generated.token_ids)[:limit]
        if not token_ids:
            return self._leave_unanswered(sample)
        # verl's backends do not report why generation stopped. A reply at the limit without an end token is truncated.
        cut = len(token_ids) >= limit and token_ids[-1] not in self._ends
        truncated = generated.stop_reason == "aborted" or cut
        chat.say(token_ids, list(generated.log_probs or ())[: len(token_ids)])
        return Reply(reply_text(self.tokenizer, token_ids), truncated)


def _first_weights(made_by: Mapping[str, Any]) -> dict[str, Any]:
    return {"min_global_steps": made_by["min_global_steps"]} if "min_global_steps" in made_by else {}


def is_trained(task: Task, seat: int) -> bool:
    """Whether the model in training plays a seat. In self-play it plays all seats."""
    return task.manner.opponent in ALL_SEATS or seat == task.manner.seat


def recorded(task: Task, session: Session) -> RecordedSession:
    """A session that records the game, for viewing after `TaskAgentLoop` has played it."""
    opponent = stand_in(task.manner.opponent, task.env, task.case)
    return RecordedSession(session, lambda seat: "model" if is_trained(task, seat) else opponent)


def start(task: Task) -> Session:
    return get_environment(task.env).start(task)
