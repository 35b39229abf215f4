"""What people type first: each slip gets one line with a spelling that works."""

from datetime import datetime

import pytest

from veritas_rl.errors import UserError
from veritas_rl.launch import rl, sft
from veritas_rl.launch.hardware import Hardware

TASKS = "data.custom_cls.config"
ACTOR = "actor_rollout_ref.actor"

SLIPS = {
    "GAME_TYPES=hex5": "GAME_TYPES=hex(board_size=5)",
    "GAME_TYPES=tictactoe": "GAME_TYPES=tic_tac_toe",
    "GAME_TYPES=tic-tac-toe": "GAME_TYPES=tic_tac_toe",
    "GAME_TYPES=connect4": "GAME_TYPES=connect_four",
    "GAME_TYPES=poker": "GAME_TYPES=leduc_poker",
    "GAME_TYPES=kuhn": "GAME_TYPES=kuhn_poker",
    "GAME_TYPES=Othello": "GAME_TYPES=othello",
    "ALGORITHM=GPRO": "ALGORITHM=grpo",
    "environment=lgc": "environment=lgc-v2",
    "environment=puzzles": "environment=lgc-v2",
    "environment=code": "environment=trace",
    "environment=open_spiel": "environment=openspiel",
    "env=trace": f"{TASKS}.env=trace",
    "algorithm=GRPO": "algorithm=grpo",
    "algorithm=reinforce": "algorithm=rloo",
    "algorithm=reinforce++": "algorithm=reinforce_plus_plus",
    "algorithm=Dr.GRPO": "algorithm=dr_grpo",
    "algorithm=GSPO": "algorithm=gspo",
    "ALGORITHM=RL00": "ALGORITHM=rloo",
    "algorithm=DAPO": "algorithm=dapo",
    "hardware=h100x8": "hardware=h200x8",
    "hardware=8xh100": "hardware=h200x8",
    "hardware=a100": "hardware=h100x1",
    "hardware=H200x1": "hardware=h200x1",
    "lora=true": "lora=on",
    "lora=none": "lora=off",
    "lora=16": "lora=on actor_rollout_ref.model.lora_rank=16",
    "rollout=hf": "rollout=transformers",
    "play=games": "play=episode",
    "play=self": f"play=episode {TASKS}.adapter_config.opponent=self",
    "start=scratch": "start=made",
    "recipe=hex": "recipe=hex_5",
    "prompt=full": f"{TASKS}.adapter_config.prompt=full",
    "game=othello": f"{TASKS}.adapter_config.game_types=othello",
    "opponent=random": f"play=episode {TASKS}.adapter_config.opponent=random",
    "mode=episode": "play=episode",
    "mode=move": "play=move",
    "lr=1e-5": f"{ACTOR}.optim.lr=1e-5",
    "kl=0.1": f"{ACTOR}.use_kl_loss=true {ACTOR}.kl_loss_coef=0.1",
    "steps=100": "trainer.total_training_steps=100",
    "trainer.total_steps=3": "trainer.total_training_steps=3",
    "batch_size=32": "data.train_batch_size=32",
    "max_length=16": "data.max_response_length=16",
    "model_path=Qwen/Qwen3-4B": "actor_rollout_ref.model.path=Qwen/Qwen3-4B",
    "n=1": "actor_rollout_ref.rollout.n=1",
    "group_size=1": "actor_rollout_ref.rollout.n=1",
    "temperature=0.7": "actor_rollout_ref.rollout.temperature=0.7",
    "seed=1": "veritas_rl.seed=1",
    "save_freq=5": "trainer.save_freq=5",
    "num_gpus=1": "trainer.n_gpus_per_node=1",
    "wandb=true": "trainer.logger=[console,file,wandb]",
    "wandb=false": "trainer.logger=[console,file]",
    "resume=true": "trainer.resume_mode=auto",
    "resume=false": "trainer.resume_mode=disable",
    "curriculum=off": f"{TASKS}.curriculum=null",
}


def plan(typed: str) -> None:
    """Plan a run on a machine that can have it, from words such as `GAME_TYPES=hex lora=on`."""
    words = typed.split()
    variables = dict(word.split("=", 1) for word in words if word.partition("=")[0].isupper())
    overrides = [word for word in words if word.partition("=")[0] not in variables]
    gpus = 1 if "hardware=h" in typed else 0
    rl.plan(overrides, variables, Hardware(cores=2, gpus=gpus, gpu_bytes=gpus << 37), datetime(2026, 1, 1), dry=True)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_answered_with_a_spelling_that_works(slip: str) -> None:
    works = SLIPS[slip]
    with pytest.raises(UserError) as caught:
        plan(slip)
    said = str(caught.value)
    assert "\n" not in said
    if f"type {works}" not in said and f'type "{works.partition("=")[2]}"' not in said:
        # One of the names that are likest, and not of all that there are.
        near = said.partition("did you mean ")[2].partition("?")[0].split(" or ")
        assert works.partition("=")[2] in near, said
    if "model.path" not in works and "wandb]" not in works:  # there is no such model here, and no key of wandb
        plan(works)


def test_fine_tuning_has_keys_of_its_own() -> None:
    for slip, said in (
        ("max_length=512", "type data.max_length=512"),
        ("kl=0.1", "unknown configuration key kl: docs/"),
    ):
        with pytest.raises(UserError) as caught:
            sft.plan([slip], {}, Hardware(cores=2, gpus=0, gpu_bytes=0), datetime(2026, 1, 1), dry=True)
        assert said in str(caught.value)
