"""Forecast memory and time of a run before a machine is rented.

    python train/tools/plan.py --model Qwen/Qwen3-4B-Instruct-2507 --hardware h200x2 lora=off algorithm=grpo

The last arguments are the Hydra overrides of `openspiel-ppo-trainer.sh`, or with --sft of `openspiel-SFT-trainer.sh`.
Variables and `.env` are read, and the settings composed, as these scripts do.
The exit code is 0 if the run fits, else 1. docs/planning.md explains each number.
"""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime

from rich.console import Console

from veritas_rl.composition import quoted
from veritas_rl.errors import exit_on_user_error
from veritas_rl.launch import rl, sft
from veritas_rl.launch.command import read_environment
from veritas_rl.launch.configuration import group_of
from veritas_rl.launch.hardware import Hardware, this_machine
from veritas_rl.launch.model_checks import mean_prompt
from veritas_rl.planning.compose import plan_of, sft_plan_of
from veritas_rl.planning.devices import DEVICES, GIB, device_for
from veritas_rl.planning.report import as_dict, print_plan

ASSUMPTIONS = {
    "prompt": "assumed mean number of tokens of a prompt",
    "reply": "assumed mean number of tokens of a reply",
    "turns": "assumed number of replies of a task: 1 for single moves, more in whole games",
    "mfu": "assumed share of the device's matrix rate that the trainer reaches in updates",
    "infer": "the same in passes without gradients",
}


def parse(typed: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", help="the model: a folder or a hub id; default: AGENT_MODEL_REPO_ID, or the model of the settings"
    )
    parser.add_argument("--hardware", help="the hardware group, such as h200x2; default: the group for this machine")
    parser.add_argument(
        "--sft", action="store_true", help="plan supervised fine-tuning instead of reinforcement learning"
    )
    gpus = ", ".join(DEVICES)
    parser.add_argument("--gpu", help=f"the type of GPU; default: the GPU of the hardware group. One of {gpus}")
    parser.add_argument("--memory", type=float, help="memory of each GPU in GiB, or of the machine with --hardware cpu")
    for name, meaning in ASSUMPTIONS.items():
        parser.add_argument(f"--{name}", type=float, help=meaning)
    parser.add_argument("--json", action="store_true", help="print the plan as one JSON object")
    parser.add_argument("overrides", nargs="*", help="Hydra overrides, such as lora=off")
    return parser.parse_intermixed_args(typed)


def main() -> int:
    """Print the plan."""
    asked = parse()
    if asked.model:
        os.environ["AGENT_MODEL_REPO_ID"] = asked.model
    typed = read_environment([*([f"hardware={asked.hardware}"] if asked.hardware else []), *asked.overrides])
    trainer, key = (sft, sft.SftRun.model_key) if asked.sft else (rl, rl.RlRun.model_key)
    if asked.model:  # as an override, which takes precedence over the model of a recipe
        typed.append(f"{key}={quoted(os.environ['AGENT_MODEL_REPO_ID'])}")
    chosen = next((item for item in typed if group_of(item) == "hardware"), None)
    machine = Hardware(cores=2, gpus=0 if chosen == "hardware=cpu" else 1, gpu_bytes=0) if chosen else this_machine()
    run = trainer.plan(typed, os.environ, machine, datetime.now(), dry=True)
    group = next(item.partition("=")[2] for item in run.overrides if item.removeprefix("sft_").startswith("hardware="))
    # A CPU without --gpu is this machine.
    device = None if group == "cpu" and asked.gpu is None else device_for(group, asked.gpu)
    assumed = {name: getattr(asked, name) for name in ASSUMPTIONS if getattr(asked, name) is not None}
    if asked.sft:
        plan = sft_plan_of(run.configuration, group, device, assumed=assumed)
    else:
        measured = mean_prompt(run.configuration) if run.model else {}
        plan = plan_of(run.configuration, group, device, assumed={**measured, **assumed})
    if asked.memory is not None:
        plan = dataclasses.replace(plan, device=dataclasses.replace(plan.device, memory=int(asked.memory * GIB)))
    if asked.json:
        print(json.dumps(as_dict(plan)))
    else:
        print_plan(plan, Console(width=max(100, Console().width)))
    return 0 if plan.fits else 1


if __name__ == "__main__":
    sys.path.pop(0)  # modules of this folder must not hide packages
    exit_on_user_error(main)
