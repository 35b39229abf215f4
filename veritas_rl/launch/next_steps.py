"""The commands that a run recommends at its end, complete: typed as printed, they go on from what was just done."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

from veritas_rl.checkpoints.origin import TASKS
from veritas_rl.composition import quoted
from veritas_rl.envs.abilities import SuggestsRuns, SuggestsTrials
from veritas_rl.envs.environment import Environment, asked_as
from veritas_rl.envs.places import as_typed
from veritas_rl.envs.task import Task
from veritas_rl.launch.configuration import CONFIG_DIR, group_of
from veritas_rl.launch.recipes import WORD
from veritas_rl.launch.variables import VARIABLES

TRAINER = "bash train/scripts/openspiel-ppo-trainer.sh"
MERGE = "bash train/scripts/merge-ppo.sh"

START = ("GAME_TYPES", "AGENT_MODEL_REPO_ID", "LORA_ADAPTER_PATH", "RESUME_FROM")
"""Variables that name the tasks and the start of a run. The next run has its own."""

OWN = re.compile(
    r"trainer\.(experiment_name|default_local_dir|resume_mode|resume_from_path)$|hydra\.|"
    r"((actor_rollout_ref|critic)\.)?model\.(path|hf_config_path|tokenizer_path|lora_adapter_path)$|"
    r"data\.custom_cls\.config\.environments\b"
)
"""Overrides of one run alone: its folders, its model, and its tasks of several environments."""


def in_shell(variables: Mapping[str, object], command: str, words: Iterable[str] = ()) -> str:
    """A command line of bash.

    Args:
        variables: The environment variables that are set for the command.
        command: The command, already quoted.
        words: More words.
    """
    named = [f"{name}={shlex.quote(str(value))}" for name, value in variables.items()]
    return " ".join([*named, command, *map(shlex.quote, words)])


def kept_variables(environment: Mapping[str, str], *, sft: bool = False) -> dict[str, str]:
    """The variables of a run that RL reads and the next run keeps, such as ENABLE_LORA.

    Args:
        environment: The process environment.
        sft: Whether the run is supervised fine-tuning.
    """
    named = [one.name for one in VARIABLES if one.name not in START and one.overrides and (one.sft or not sft)]
    return {name: environment[name].strip() for name in named if environment.get(name, "").strip()}


def kept_overrides(typed: Sequence[str], environment: Environment, command: str) -> list[str]:
    """The overrides of a run of RL that the next run keeps: those that name neither this run nor its tasks.

    Args:
        typed: The overrides as the user typed them.
        environment: The environment of the tasks.
        command: The command of the next run. What it sets is not kept.
    """
    kind = environment.config_type
    selecting = {*kind.selecting_keys, kind.cases_key, "cases"}
    selecting |= {key for key, field in kind.user_keys.items() if field in selecting}
    tasks = {f"{TASKS}.env", *(f"{TASKS}.adapter_config.{key}" for key in selecting)}

    def stays(override: str) -> bool:
        key = override.lstrip("+~").partition("=")[0]
        named = override.startswith(WORD) or OWN.match(key) or group_of(override) == "environment"
        return not named and key not in tasks and f" {key}=" not in command

    return [override for override in typed if stays(override)]


def trials(environment: Environment, task: Task, model: str) -> Sequence[tuple[str, str]]:
    """What to try with a trained model, each in words and as a command.

    Args:
        environment: The environment of the task.
        task: A trained task.
        model: The model's folder.
    """
    options = f"--checkpoint {shlex.quote(model)} --env {shlex.quote(as_typed(environment.name))}"
    options += f" --games {shlex.quote(task.case)}"
    own = environment.trials(task, model) if isinstance(environment, SuggestsTrials) else ()
    return [("judge the trained model", f"python train/tools/evaluate.py {options} {asked_as(task)}"), *own]


def next_run(environment: Environment, cases: Collection[str]) -> tuple[str, str]:
    """A suggestion after a training run, in words and as a command.

    Args:
        environment: The environment of the run.
        cases: The trained cases.
    """
    if isinstance(environment, SuggestsRuns):
        return environment.next_step(cases)
    return (
        "a longer run, on the same machine or on one with GPUs",
        f"{TRAINER} environment={shlex.quote(as_typed(environment.name))} trainer.total_training_steps=200",
    )


def training(
    start: Mapping[str, object], cases: Mapping[str, Iterable[str]], prompts: Mapping[str, str], words: Iterable[str]
) -> str:
    """The command of a training with rewards on given tasks.

    Args:
        start: The environment variables that name what training starts from.
        cases: The cases to train on, by environment.
        prompts: The prompt of the tasks, by environment.
        words: More overrides.
    """
    variables, chosen = dict(start), []
    for env, names in sorted(cases.items()):
        node = f"{TASKS}.adapter_config"
        if len(cases) > 1:
            node = f"+{TASKS}.environments.{env}.config"
        elif env != "openspiel":
            grouped = (CONFIG_DIR / f"environment/{env}.yaml").is_file()
            chosen.append(f"environment={env if grouped else as_typed(env)}")
        if len(cases) == 1 and env == "openspiel":
            variables["GAME_TYPES"] = ",".join(sorted(names))
        else:
            chosen.append(f"{node}.cases=[{','.join(map(quoted, sorted(names)))}]")
        chosen.append(f"{node}.prompt={prompts[env]}")
    return in_shell(variables, TRAINER, [*chosen, *words])
