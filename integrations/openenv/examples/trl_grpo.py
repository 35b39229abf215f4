"""GRPO by TRL on whole games of a veritas-rl server: the model against a random player, paid at the end of each game.

    python train/tools/serve.py --games tic_tac_toe --port 8000           # in veritas-rl
    python trl_grpo.py --model MODEL --url http://127.0.0.1:8000 --steps 100

All replies of a group play the same deal from the same seat: the prompt of a row is its seed. A game is one sequence,
in which the model's own tokens alone are trained.
"""

import argparse
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer
from veritas_games import GameAction, VeritasGamesEnv


def encode(tokenizer: Any, messages: list[dict[str, str]]) -> list[int]:
    """The tokens of messages, up to where the model begins to write."""
    return tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)


@torch.no_grad()
def write(trainer: GRPOTrainer, tokens: list[int], most: int) -> tuple[list[int], list[float]]:
    """A reply to some tokens, and the log-probability of each of its tokens."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    asked = torch.tensor([tokens], device=model.device)
    made = model.generate(
        asked,
        attention_mask=torch.ones_like(asked),
        max_new_tokens=most,
        do_sample=True,
        temperature=trainer.args.temperature,
        pad_token_id=trainer.processing_class.pad_token_id,
        output_logits=True,
        return_dict_in_generate=True,
    )
    said = made.sequences[0, len(tokens) :].tolist()
    scaled = (torch.stack(made.logits)[:, 0] / trainer.args.temperature).log_softmax(-1)
    return said, [scaled[place, token].item() for place, token in enumerate(said)]


def play(env: Any, trainer: GRPOTrainer, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One game: its tokens, which of them are the model's, and what it paid."""
    tokenizer = trainer.processing_class
    shown = env.reset(case=given.case, seed=seed, opponent="random")
    prompt = encode(tokenizer, shown.observation.messages)
    completion: list[int] = []
    logprobs: list[float] = []
    mine: list[int] = []
    while not shown.done:
        said, likely = write(trainer, prompt + completion, given.reply_tokens)
        completion, logprobs, mine = completion + said, logprobs + likely, mine + [1] * len(said)
        shown = env.step(GameAction(text=tokenizer.decode(said, skip_special_tokens=True)))
        if not shown.done:
            asked = encode(tokenizer, shown.observation.messages[-1:])
            if len(prompt) + len(completion) + len(asked) + given.reply_tokens > given.longest:
                break  # an unfinished game pays nothing
            completion, logprobs, mine = completion + asked, logprobs + [0.0] * len(asked), mine + [0] * len(asked)
    reward = float(shown.reward or 0.0)
    return {
        "prompt_ids": prompt,
        "completion_ids": completion,
        "logprobs": logprobs,
        "env_mask": mine,
        "game_reward": reward,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--case", default="tic_tac_toe")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--group", type=int, default=4, help="number of games of each seed; default: 4")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds in a training step; default: 2")
    parser.add_argument("--reply_tokens", type=int, default=16)
    parser.add_argument("--longest", type=int, default=2048, help="maximum number of tokens of a game; default: 2048")
    parser.add_argument("--output", default="trl-output")
    given = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    config = GRPOConfig(
        output_dir=given.output,
        max_steps=given.steps,
        num_generations=given.group,
        per_device_train_batch_size=given.group * given.seeds,
        max_completion_length=given.longest,
        temperature=1.0,
        learning_rate=1e-5,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=not torch.cuda.is_available(),
    )
    with VeritasGamesEnv(base_url=given.url).sync() as env:

        def rollout(prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[Any]]:
            games = [play(env, trainer, int(prompt), given) for prompt in prompts]
            return {name: [game[name] for game in games] for name in games[0]}

        def paid(completions: list[Any], game_reward: list[float], **ignored: Any) -> list[float]:
            return game_reward

        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(given.model),
            reward_funcs=[paid],
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [str(seed) for seed in range(given.steps * given.seeds)]}),
            processing_class=tokenizer,
            rollout_func=rollout,
        )
        trainer.train()
    for row in trainer.state.log_history:
        print({key: row[key] for key in ("step", "loss", "reward", "completions/mean_length") if key in row})


if __name__ == "__main__":
    main()
