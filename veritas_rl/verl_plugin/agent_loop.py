"""Play tasks with the model in training: the asynchronous counterpart of `veritas_rl.envs.base.play`.

`TaskAgentLoop` (registered in verl as `game_agent`) plays one session. The model answers its turns, and `shape`
computes the reward of each reply from its seat's score, which a custom reward function may change. Tasks with one
answer use the loop too, so that truncated replies are recognized.
"""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any
from uuid import uuid4

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

from veritas_rl.chat_template import end_tokens, prompt_ids, reply_ids, with_limit
from veritas_rl.envs.abilities import listed
from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn, shape
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.registry import get_environment, task_of
from veritas_rl.envs.task import Task
from veritas_rl.errors import UserError
from veritas_rl.players.loading import ReplySettings
from veritas_rl.players.registry import ALL_SEATS, is_model, stand_in
from veritas_rl.players.reply_text import reply_text
from veritas_rl.seeding import digest
from veritas_rl.verl_plugin.chat import Chat
from veritas_rl.verl_plugin.opponents import ModelSettings, Opponent
from veritas_rl.verl_plugin.reward import PENALTY, reward_info
from veritas_rl.viewing.recording import RecordedSession

SHAPED = "shaped"
"""The name of the reward of `shape` in the metrics of a run with a custom reward function."""

LOGGED = ("reward", "opponent_wait", SHAPED, PENALTY)
"""Names of metrics, besides those of `reward_info`, that a custom reward function must not use."""


_LISTED = Score(1.0, True, Reason.LEGAL)
"""The score of an answer whose value is not known yet."""


@dataclass
class _Sample:
    """One trajectory of a game in progress.

    Attributes:
        seat: The seat of its replies.
        chat: Its tokens.
        opening: The number of tokens of the first prompt of its conversation, or of its own prompt.
        conversation: The id of its conversation, by which verl finds the server that has its prefix cached.
        accepted: Whether its last reply was a legal answer.
        number: The number of replies that this seat was asked for before.
        seconds: The time of generation.
        made_by: The rollout's extra fields.
        replies: The texts of its replies.
    """

    seat: int
    chat: Chat
    opening: int
    conversation: str = field(default_factory=lambda: uuid4().hex)
    accepted: bool = True
    number: int = 0
    seconds: float = 0.0
    made_by: dict[str, Any] = field(default_factory=dict)
    replies: list[str] = field(default_factory=list)


class TaskAgentLoop(AgentLoopBase):
    """Plays one session with the model in training on its seats, and the task's opponent on the others.

    In the context "turn" every reply of the model is a separate trajectory. In "conversation" a trajectory of a seat
    goes on as long as the chat template only appends, and only the replies have loss. All trajectories of a
    conversation have the same reward.

    Attributes:
        replies: The number of replies so far. A worker sets it back.
    """

    tokenizer: Any
    replies: int = 0

    def __init__(self, *args: Any, generation_config: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ends = end_tokens(self.tokenizer, generation_config)
        eos = self.tokenizer.eos_token_id
        self._unanswered = min(self._ends) if eos is None else eos
        """The token of a trajectory without a reply."""
        self._opponents: dict[tuple[str, str], Opponent] = {}
        self._enable_thinking = bool(self.apply_chat_template_kwargs.get("enable_thinking", False))
        self._say_limit = bool(OmegaConf.select(self.config, "veritas_rl.say_limit"))
        self._length_penalty = float(OmegaConf.select(self.config, "veritas_rl.length_penalty") or 0)
        self._custom_reward = CustomReward.read(self.config)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Play the row's task.

        Args:
            sampling_params: temperature, top_p and top_k from verl's rollout configuration, and optionally the seed of
                this play, from which each reply gets its own.
            row: A row of `DynamicEnvDataset`; its `extra_info` contains the task.

        Returns:
            The trajectories, in order. `reward_score` is the reward of a trajectory: that of `shape`, or what a custom
            reward function makes of it.
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
            samples.append(_Sample(max(task.manner.seat, 0), Chat(self.tokenizer, [self._unanswered]), 1))
            self._leave_unanswered(samples[0])
        share = waited / max(self.loop.time() - began, 1e-9)
        ended = (task, session.scores(), samples, share)
        # A custom reward function may take long, so it must not block the event loop.
        return self._outputs(*ended) if self._custom_reward is None else await asyncio.to_thread(self._outputs, *ended)

    def listed(self, task: Task) -> list[AgentLoopOutput]:
        """A trajectory for each legal answer to a task's decision, or to each decision of a whole game; nothing is
        generated. The value of an answer in a whole game depends on the policy, so the trainer computes it.

        Raises:
            UserError: The decisions or answers cannot be listed, or have more tokens than the limits.
        """
        outputs: list[AgentLoopOutput] = []
        whole = task.mode == "episode"
        tokens: dict[str, list[int]] = {}
        for number, turn in enumerate(listed(get_environment(task.env), task)):
            prompt = self._prompt(turn)
            for answer in turn.answers:
                if answer not in tokens:
                    tokens[answer] = reply_ids(self.tokenizer, answer, enable_thinking=self._enable_thinking)
                sample = _Sample(turn.seat, Chat(self.tokenizer, prompt), 0, replies=[answer])
                sample.chat.say(tokens[answer], None)
                self._check_length(task, sample)
                score = _LISTED if whole else _scored(task, turn.seat, answer)
                outputs += self._outputs(task, {turn.seat: score}, [sample], 0.0)
                outputs[-1].extra_fields["move"] |= {"decision": number, "case": task.case if whole else None}
        return outputs

    def _check_length(self, task: Task, sample: _Sample) -> None:
        for tokens, setting in ((sample.chat.prompt_ids, "prompt"), (sample.chat.response_ids, "response")):
            limit = self.rollout_config[f"{setting}_length"]
            if len(tokens) > limit:
                raise UserError(
                    f"a {setting} of {task.id} has {len(tokens)} tokens: raise data.max_{setting}_length={limit}"
                )

    def _outputs(
        self, task: Task, scores: Mapping[int, Score], samples: list[_Sample], waited: float
    ) -> list[AgentLoopOutput]:
        later = dict.fromkeys(scores, 0)
        outputs: list[AgentLoopOutput] = []
        together = task.manner.context == "conversation"
        for sample in reversed(samples):
            score = scores[sample.seat]
            accepted = score.legal if together else sample.accepted
            reward, info = shape(score, task, later[sample.seat], accepted), reward_info(task, score)
            if self._custom_reward is not None and sample.replies:
                reward, info = self._customized(self._custom_reward, task, score, reward, info, sample)
            if self._length_penalty:
                info[PENALTY] = self._penalty(sum(sample.chat.response_mask))
                reward -= info[PENALTY]
            output = sample.chat.output(
                sample.seconds,
                {
                    **sample.made_by,
                    "reward_extra_info": info,
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
            output.reward_score = reward
            output.num_turns = len(samples)
            outputs.append(output)
            later[sample.seat] += sample.accepted and not together
        return outputs[::-1]

    @staticmethod
    def _customized(
        custom: CustomReward, task: Task, score: Score, shaped: float, info: dict[str, Any], sample: _Sample
    ) -> tuple[float, dict[str, Any]]:
        """The reward that a custom reward function makes of a trajectory's shaped reward, and what is logged."""
        tokens = list(compress(sample.chat.response_ids, sample.chat.response_mask))
        text = "\n\n".join(sample.replies)
        reward, logged = custom(task, score, shaped, text, tokens, sample.number)
        if taken := sorted(logged.keys() & {*info, *LOGGED}):
            raise UserError(f"the reward function {custom} returned {taken[0]!r}, which a run logs itself: rename it")
        return reward, {**info, **logged, SHAPED: shaped}

    def _penalty(self, tokens: int) -> float:
        """What a trajectory of so many tokens of the model loses near the limit: 0 to 1, rising over the last part."""
        limit = self.rollout_config.response_length
        near = self._length_penalty * limit
        return min(1.0, max(0.0, (tokens - (limit - near)) / near))

    def _prompt(self, turn: Turn) -> list[int]:
        limit = self.rollout_config.response_length
        messages = with_limit(turn.messages, limit, turn.opening) if self._say_limit else turn.messages
        return prompt_ids(self.tokenizer, messages, enable_thinking=self._enable_thinking)

    def _sample(self, turn: Turn, samples: list[_Sample]) -> _Sample | None:
        """The trajectory to which the reply to a turn belongs; None if a conversation has no room for a reply."""
        limit, prompt = self.rollout_config.response_length, self._prompt(turn)
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
        sample = _Sample(turn.seat, Chat(self.tokenizer, prompt), opening)
        if before:
            sample.number = before[-1].number
            if turn.opening:
                sample.conversation = before[-1].conversation
        samples.append(sample)
        return sample

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
            chat.response_ids, chat.response_mask, chat.log_probs = [self._unanswered], [0], [0.0]
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
            request_id=sample.conversation, prompt_ids=chat.ids, sampling_params=asked
        )
        self.replies += 1
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
        sample.replies.append(reply_text(self.tokenizer, token_ids))
        return Reply(sample.replies[-1], truncated)


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


def _scored(task: Task, seat: int, answer: str) -> Score:
    """The score of an answer to a decision. A session is played once, so each answer has its own."""
    session = start(task)
    session.step({seat: Reply(answer)})
    return session.scores()[seat]
