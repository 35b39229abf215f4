"""Forecast memory and time of a run before a machine is rented.

    python train/tools/plan.py --model Qwen/Qwen3-4B-Instruct-2507 --hardware h200x2 lora=off algorithm=grpo

The last arguments are the Hydra overrides of `openspiel-ppo-trainer.sh`, or with --sft of `openspiel-SFT-trainer.sh`.
The exit code is 0 if the run fits, else 1. docs/planning.md explains each number.
"""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from veritas_rl.errors import exit_on_user_error
from veritas_rl.launch import sft
from veritas_rl.launch.configuration import compose_configuration, overrides_for
from veritas_rl.launch.hardware import Hardware
from veritas_rl.planning.compose import plan_of, sft_plan_of, this_machine
from veritas_rl.planning.devices import DEVICES, GIB, device_for
from veritas_rl.planning.models import find_shape
from veritas_rl.planning.report import as_dict, print_plan

ASSUMPTIONS = {
    "prompt": "assumed mean number of tokens of a prompt",
    "reply": "assumed mean number of tokens of a reply",
    "turns": "assumed number of replies of a task: 1 for single moves, more in whole games",
    "mfu": "assumed share of the device's matrix rate that the trainer reaches",
}


def parse(typed: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="the model: a folder or a hub id; default: the model of the settings")
    parser.add_argument("--hardware", default="h200x1", help="the hardware group, such as h200x2 (default: h200x1)")
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
    cpu = asked.hardware == "cpu"
    key = "model.path" if asked.sft else "actor_rollout_ref.model.path"
    named = [f"{key}={asked.model}"] if asked.model else []
    environment = {name: os.environ[name] for name in ("AGENT_MODEL_REPO_ID",) if name in os.environ}
    hardware = Hardware(cores=2, gpus=0 if cpu else 1, gpu_bytes=0)
    typed = [f"hardware={asked.hardware}", *named, *asked.overrides]
    if asked.sft:
        configuration = compose_configuration(sft.overrides_for(typed, environment, hardware), sft.SFT_CONFIG)
    else:
        configuration = compose_configuration(overrides_for(typed, environment, hardware))
    device = this_machine() if cpu and asked.gpu is None else device_for(asked.hardware, asked.gpu)
    if asked.memory is not None:
        device = dataclasses.replace(device, memory=int(asked.memory * GIB))
    assumed = {name: getattr(asked, name) for name in ASSUMPTIONS if getattr(asked, name) is not None}
    shape = find_shape(asked.model) if asked.model else None
    plan = (sft_plan_of if asked.sft else plan_of)(configuration, asked.hardware, device, shape, assumed)
    if asked.json:
        print(json.dumps(as_dict(plan)))
    else:
        print_plan(plan, Console(width=max(100, Console().width)))
    return 0 if plan.fits else 1


if __name__ == "__main__":
    sys.path.pop(0)  # modules of this folder must not hide packages
    exit_on_user_error(main)
