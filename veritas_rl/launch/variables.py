"""The environment variables that users set, and the Hydra overrides that they become.

Overrides on the command line take precedence over the variables.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from veritas_rl.checkpoints.adapter import rank_and_alpha, target_modules
from veritas_rl.composition import quoted
from veritas_rl.errors import UserError
from veritas_rl.verl_plugin import algorithms


@dataclass(frozen=True)
class Variable:
    """One environment variable.

    Attributes:
        name: The variable's name.
        meaning: One line for `.env.example` and the documentation.
        overrides: Turns a value into Hydra overrides; None if a program reads the variable itself.
        sft: The overrides for supervised fine-tuning; None if fine-tuning does not use the variable.
        workers: Whether verl's processes on all nodes also get the variable. Never true for secrets.
    """

    name: str
    meaning: str
    overrides: Callable[[str], list[str]] | None = None
    sft: Callable[[str], list[str]] | None = None
    workers: bool = False


def choice(name: str, value: str, known: Mapping[str, str]) -> str:
    """`known[value]`, ignoring upper and lower case.

    Raises:
        UserError: `known` does not contain the value.
    """
    if value.strip().lower() not in known:
        near = get_close_matches(value.strip().lower(), known, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UserError(f"{name}={value} is not supported: set it to one of {', '.join(known)}{hint}")
    return known[value.strip().lower()]


SWITCH = {"1": "on", "true": "on", "on": "on", "yes": "on", "0": "off", "false": "off", "off": "off", "no": "off"}
ALGORITHMS = {name: name for name in algorithms.known()}
BACKENDS = {name: name for name in ("vllm", "sglang", "transformers")}
STRATEGIES = {name: name for name in ("fsdp", "fsdp2")}


def _memory(value: str) -> list[str]:
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise UserError(f"GPU_MEMORY_UTILIZATION={value} is not supported: set it to a number between 0 and 1")
    return [f"actor_rollout_ref.rollout.gpu_memory_utilization={share}"]


def _adapter(model: str) -> Callable[[str], list[str]]:
    """What starts training from an adapter, with the settings that are written in it.

    Args:
        model: The key of verl's node of the model.
    """

    def overrides(value: str) -> list[str]:
        rank, alpha = rank_and_alpha(Path(value))
        written = {
            "lora_adapter_path": quoted(value),
            "lora_rank": rank,
            "lora_alpha": alpha,
            "target_modules": f"[{','.join(target_modules(Path(value)))}]",
        }
        return ["lora=on", *(f"{model}.{name}={setting}" for name, setting in written.items())]

    return overrides


def _lora(value: str) -> list[str]:
    return [f"lora={choice('ENABLE_LORA', value, SWITCH)}"]


def _resume(value: str) -> list[str]:
    return ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={quoted(value)}"]


def _strategy(value: str) -> str:
    return choice("FSDP_STRATEGY", value, STRATEGIES)


VARIABLES = (
    Variable(
        "GAME_TYPES",
        "Games to train on, as short names or full cases, such as hex,go,chess. Default: all.",
        lambda value: [f"data.custom_cls.config.adapter_config.game_types={quoted(value)}"],
    ),
    Variable("AGENT_MODEL_REPO_ID", "The model to train: a hub id, a local folder or smollm2-135m.", workers=True),
    Variable(
        "ALGORITHM",
        "ppo (with a critic), grpo (compares samples of one task), rae (for self-play), or a variant: "
        + ", ".join(name for name in ALGORITHMS if name not in ("ppo", "grpo", "rae"))
        + ".",
        lambda value: [f"algorithm={choice('ALGORITHM', value, ALGORITHMS)}"],
    ),
    Variable(
        "ENABLE_LORA",
        "1: train adapters only; 0: train every parameter.",
        _lora,
        _lora,
    ),
    Variable(
        "LORA_ADAPTER_PATH",
        "The folder of an adapter from which training continues.",
        _adapter("actor_rollout_ref.model"),
        _adapter("model"),
    ),
    Variable(
        "RESUME_FROM",
        "The checkpoint to start from: <experiment>/global_step_N.",
        _resume,
        _resume,
    ),
    Variable(
        "LAYERED_SUMMON",
        "1: send adapters to the rollout layer by layer, which saves memory with large models.",
        lambda value: [
            f"actor_rollout_ref.rollout.layered_summon={choice('LAYERED_SUMMON', value, SWITCH) == 'on'}".lower()
        ],
    ),
    Variable(
        "FSDP_STRATEGY",
        "How the model is sharded: fsdp or fsdp2.",
        lambda value: [f"actor_rollout_ref.actor.strategy={_strategy(value)}"],
        lambda value: [f"engine.strategy={_strategy(value)}"],
    ),
    Variable(
        "ROLLOUT_BACKEND",
        "The rollout backend: vllm, sglang or transformers.",
        lambda value: [f"rollout={choice('ROLLOUT_BACKEND', value, BACKENDS)}"],
    ),
    Variable("GPU_MEMORY_UTILIZATION", "The share of a GPU's memory for the rollout, such as 0.5.", _memory),
    Variable("CHECKPOINT_BASE", "merge-ppo.sh: the experiment's checkpoint folder. Default: the newest."),
    Variable("GLOBAL_STEP", "merge-ppo.sh: the step whose checkpoint is merged. Default: the newest complete one."),
    Variable("TARGET_DIR", "merge-ppo.sh: the model folder to write. Default: train/models/<experiment>-step-<N>."),
    Variable("DRY_RUN", "1: print the command and the whole configuration without starting anything."),
    Variable("DOCTOR", "0: the trainer scripts skip train/tools/doctor.py --fast."),
    Variable("HF_TOKEN", "The Hugging Face token, for gated models. Never printed."),
    Variable("HF_HUB_OFFLINE", "1: never connect to the Hugging Face hub.", workers=True),
    Variable("WANDB_API_KEY", "The Weights & Biases key. Never printed."),
    Variable("WANDB_MODE", "online, offline or disabled.", workers=True),
    Variable("WANDB_PROJECT", "The Weights & Biases project.", workers=True),
    Variable("WANDB_ENTITY", "The Weights & Biases team.", workers=True),
    Variable("IMAGE", "docker_run_verl.sh: the container image. Default: the image of the pinned verl."),
    Variable("PYTHON", "setup.sh: the Python interpreter for the virtual environment."),
    Variable("VENV", "setup.sh: the folder of the virtual environment. Default: .venv."),
)


def overrides_from(environment: Mapping[str, str], *, sft: bool = False) -> list[str]:
    """The Hydra overrides of the variables that are set. An empty variable counts as unset.

    Args:
        environment: The process environment.
        sft: Whether the run is supervised fine-tuning.

    Raises:
        UserError: A value is not supported.
    """
    made: list[str] = []
    for variable in VARIABLES:
        value, become = environment.get(variable.name, "").strip(), variable.sft if sft else variable.overrides
        if value and become is not None:
            made += become(value)
    return made
