"""The agent loop `game_agent`: the asynchronous twin of `veritas_rl.envs.base.play`.

verl runs one for each sample of a batch. It starts the task's session, lets the model answer every turn, and rewards
each reply with `shape`. Single moves run through it too, so that a reply cut at the token limit is known as one.
"""

import asyncio
from typing import Any
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from veritas_rl.envs.base import Reason, Reply, Score, Session, Turn, shape
from veritas_rl.envs.registry import get_environment
from veritas_rl.verl_plugin.reward import reward_info, task_of


class GameAgentLoop(AgentLoopBase):
    """Plays one session with the model that is trained; one trajectory for each of its replies."""

    tokenizer: Any

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Play the row's task.

        Args:
            sampling_params: temperature, top_p and top_k, as verl's rollout configuration says.
            row: A row of `DynamicEnvDataset`; its `extra_info` holds the task.

        Returns:
            One output for each reply, in order. `reward_score` is that reply's shaped reward.
        """
        task = task_of(row["extra_info"])
        session: Session = await asyncio.to_thread(get_environment(task.env).start, task)
        moves: list[tuple[int, AgentLoopOutput]] = []
        while turns := session.turns():
            answered = await asyncio.gather(*(self._answer(turn, sampling_params) for turn in turns))
            moves += [(turn.seat, output) for turn, (_, output) in zip(turns, answered, strict=True)]
            replies = {turn.seat: reply for turn, (reply, _) in zip(turns, answered, strict=True)}
            # Scoring may search or play games out: off the event loop, which serves every other sample too.
            await asyncio.to_thread(session.step, replies)
        scores = session.scores()
        later = dict.fromkeys(scores, 0)
        for seat, output in reversed(moves):
            score = self._overlong(scores[seat], output)
            output.reward_score = shape(score, task.reward, moves_left=later[seat])
            output.num_turns = len(moves)
            output.extra_fields |= {
                "reward_extra_info": reward_info(task, score),
                "turn_scores": [],
                "tool_rewards": [],
            }
            later[seat] += 1
        return [output for _, output in moves]

    @staticmethod
    def _overlong(score: Score, output: AgentLoopOutput) -> Score:
        """A prompt that did not fit left no reply to judge: say that, instead of "truncated"."""
        return Score(0.0, False, Reason.OVERLONG) if not any(output.response_mask) else score

    async def _answer(self, turn: Turn, sampling_params: dict[str, Any]) -> tuple[Reply, AgentLoopOutput]:
        prompt_ids: list[int] = self.tokenizer.apply_chat_template(
            list(turn.messages),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **self.apply_chat_template_kwargs,
        )
        end_token = self.tokenizer.eos_token_id
        limit = self.rollout_config.response_length
        if len(prompt_ids) > self.rollout_config.prompt_length:
            # verl would cut the prompt's beginning in silence. Nothing is asked and nothing is learned from it.
            output = AgentLoopOutput(
                prompt_ids=prompt_ids[: self.rollout_config.prompt_length],
                response_ids=[end_token],
                response_mask=[0],
                response_logprobs=[0.0],
                metrics=AgentLoopMetrics(num_preempted=0),
            )
            return Reply("", truncated=True), output
        started = self.loop.time()
        generated = await self.server_manager.generate(
            request_id=uuid4().hex, prompt_ids=prompt_ids, sampling_params={**sampling_params, "max_tokens": limit}
        )
        token_ids = list(generated.token_ids)[:limit]
        # No backend of verl's says why it stopped: a reply as long as the limit that does not end is a cut one.
        ends = {end_token, self.tokenizer.pad_token_id}
        truncated = generated.stop_reason == "aborted" or (len(token_ids) >= limit and token_ids[-1] not in ends)
        text = self.tokenizer.decode(token_ids, skip_special_tokens=True)
        log_probs = list(generated.log_probs or [])[: len(token_ids)] or None
        output = AgentLoopOutput(
            prompt_ids=prompt_ids,
            response_ids=token_ids,
            response_mask=[1] * len(token_ids),
            response_logprobs=log_probs,
            metrics=AgentLoopMetrics(generate_sequences=self.loop.time() - started, num_preempted=0),
            extra_fields=dict(generated.extra_fields),
        )
        return Reply(text, truncated), output
