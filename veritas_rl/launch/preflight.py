"""Checks before a run starts. Each error is one line that states what to type instead."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from veritas_rl.checkpoints.adapter import (
    EMBEDDINGS,
    base_name,
    check_adapter,
    check_mergeable,
    check_targets,
    rank_and_alpha,
    target_modules,
)
from veritas_rl.curriculum.mixture import open_sources, split_of
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.registry import cases_by_environment, get_environment, spread
from veritas_rl.envs.task import SPLITS, Task
from veritas_rl.errors import UserError
from veritas_rl.launch import keys, limits, listed_answers, machine_checks, quantization, shared_prompts
from veritas_rl.launch.configuration import (
    compose_configuration,
    context_tokens,
    dataset_settings,
    tasks_of,
)
from veritas_rl.launch.recipes import Recipe
from veritas_rl.launch.stall_watch import Bound
from veritas_rl.players.loading import check_player, is_player, players_in
from veritas_rl.players.registry import ALL_SEATS, CHECKPOINT, PAST, check_bot, is_bot, is_model, stand_in
from veritas_rl.verl_plugin import algorithms, dropout

MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"

ANSWERS_JUDGED, GAMES_JUDGED = ("positions", "draws"), ("games", "opponents", "draws")
"""What `veritas_rl.evaluation` needs for single answers, and for whole games."""

TRAINERS = {"game": "sync", "game_async": "colocate_async"}
"""The trainers of `verl_plugin.trainer`, each with the verl trainer that it extends."""


def check_switches(configuration: DictConfig, overrides: Sequence[str]) -> None:
    """Check that settings have an effect and do not contradict each other.

    Args:
        configuration: The resolved configuration.
        overrides: The overrides of environment variables and command line.

    Raises:
        UserError: A setting has no effect, or contradicts another setting.
    """
    rollout, model = configuration.actor_rollout_ref.rollout, configuration.actor_rollout_ref.model
    lora = model.lora_rank > 0
    if configuration.trainer.device == "cpu" and configuration.actor_rollout_ref.actor.strategy == "fsdp":
        raise UserError("FSDP_STRATEGY=fsdp needs a GPU: leave it out, or set FSDP_STRATEGY=fsdp2")
    if rollout.layered_summon and not lora:
        raise UserError("LAYERED_SUMMON=1 needs adapters, which are off: leave it out, or set ENABLE_LORA=1")
    if rollout.layered_summon and rollout.name == "transformers":
        raise UserError("LAYERED_SUMMON=1 needs rollout=vllm: leave it out, or set rollout=vllm")
    if rollout.name == "sglang" and lora:
        # verl uses a request field that SGLang has from 0.5.18 on, but pins 0.5.12.
        raise UserError(
            "verl 0.9.1 cannot send adapters to its pinned SGLang 0.5.12: leave rollout=sglang out, or set "
            "ENABLE_LORA=0"
        )
    if model.get("lora", {}).get("merge"):
        raise UserError(
            "actor_rollout_ref.model.lora.merge=true is not supported, because replies are garbled from the second "
            "weight transfer on: leave it out, and only the adapter is sent"
        )
    if rollout.name == "transformers" and any("rollout.gpu_memory_utilization=" in item for item in overrides):
        raise UserError("GPU_MEMORY_UTILIZATION has no effect with rollout=transformers: leave it out")
    tensor, ranks = rollout.tensor_model_parallel_size, configuration.trainer.n_gpus_per_node
    if tensor < 1 or ranks % tensor:
        fitting = max(number for number in range(1, ranks + 1) if ranks % number == 0 and number <= max(tensor, 1))
        raise UserError(
            f"actor_rollout_ref.rollout.tensor_model_parallel_size={tensor} must divide the {ranks} GPUs of a node: "
            f"set it to {fitting}"
        )
    algorithm = configuration.algorithm
    if (reference := configuration.veritas_rl.reference) != "start":
        if reference not in ("checkpoint", "average"):
            raise UserError(f"veritas_rl.reference={reference} must be start, checkpoint or average")
        decay = configuration.veritas_rl.reference_decay
        if reference == "average" and not (isinstance(decay, float) and 0 < decay < 1):
            raise UserError(f"veritas_rl.reference_decay={decay} must be above 0 and below 1")
        if not configuration.actor_rollout_ref.actor.use_kl_loss and not algorithm.use_kl_in_reward:
            raise UserError(
                f"veritas_rl.reference={reference} needs a KL term: set actor_rollout_ref.actor.use_kl_loss=true"
            )
        if lora:
            raise UserError(
                f"veritas_rl.reference={reference} needs ENABLE_LORA=0: with adapters the reference is the start"
            )
    estimate = algorithms.of_estimator(algorithm.adv_estimator)
    if estimate and estimate.advantages and not estimate.lists and algorithm.use_kl_in_reward:
        raise UserError(
            "algorithm.use_kl_in_reward needs ALGORITHM=ppo: set actor_rollout_ref.actor.use_kl_loss instead"
        )
    for name, node in (("actor_rollout_ref", configuration.actor_rollout_ref), ("critic", configuration.critic)):
        given: Any = OmegaConf.to_container(node.model.get("override_config") or OmegaConf.create())
        for setting in dropout.typed(given):
            key, _, value = setting.partition("=")
            if dropout.RANDOM.search(key) and value not in ("0", "0.0"):
                raise UserError(
                    f"{name}.model.override_config.{setting} cannot be used: rollout and reference have no dropout, "
                    "so RL turns it off; leave it out"
                )
    check_adapter_settings(model, "actor_rollout_ref.model")


def check_adapter_settings(model: DictConfig, key: str) -> None:
    """Check that adapters can be merged, and that settings agree with the one from which training continues, if any.

    Args:
        model: verl's node of the model, resolved.
        key: The key of the node.

    Raises:
        UserError: An adapter could not be merged, the adapter cannot be read, its base is not named, or a setting
            differs from what it fixes.
    """
    if model.lora_rank > 0:
        check_mergeable_targets(f"{key}.target_modules", model.target_modules)
    if model.lora_adapter_path is None:
        return
    if model.lora_rank < 1:
        raise UserError("LORA_ADAPTER_PATH is set, but adapters are off: set ENABLE_LORA=1")
    adapter = Path(model.lora_adapter_path)
    check_mergeable(adapter)
    if model.path is None:
        raise UserError(
            f"LORA_ADAPTER_PATH={adapter} needs its base model: set AGENT_MODEL_REPO_ID to {base_name(adapter)}"
        )
    rank, alpha = rank_and_alpha(adapter)
    fixed: dict[str, Any] = {"lora_rank": rank, "lora_alpha": alpha}
    if model.target_modules != "all-linear":
        fixed["target_modules"] = target_modules(adapter)
    for name, value in fixed.items():
        given = sorted(model[name]) if OmegaConf.is_list(model[name]) else model[name]
        if given != value:
            raise UserError(
                f"the adapter {adapter} has {name}={value}, so {key}.{name}={given} has no effect: leave it out, and "
                "name the adapter by LORA_ADAPTER_PATH"
            )


def check_adapter_of(model: DictConfig, key: str, base: Path) -> None:
    """Check that the adapter that training begins with fits its base.

    Args:
        model: verl's node of the model, resolved.
        key: The key of the node.
        base: The folder of the base.

    Raises:
        UserError: The adapter is of another base, or the base does not have the modules of a new one.
    """
    if (adapter := model.get("lora_adapter_path")) is not None:
        check_adapter(Path(adapter), base)
    elif model.lora_rank > 0:
        check_targets(f"{key}.target_modules", model.target_modules, base)


def check_mergeable_targets(key: str, targets: Any) -> None:
    """Check that an adapter of these modules can be merged.

    Args:
        key: The setting's key.
        targets: "all-linear", a regular expression, or names.

    Raises:
        UserError: An embedding or the head is among them.
    """
    if isinstance(targets, str):
        found = [name for name in EMBEDDINGS if re.fullmatch(targets, name) or re.fullmatch(targets, f"model.{name}")]
    else:
        found = [name for name in targets or () if name.rpartition(".")[2] in EMBEDDINGS]
    if found:
        raise UserError(
            f"{key} includes {found[0]}, and an adapter of embeddings or the head cannot be merged: leave it out, or "
            f"set {key}=all-linear"
        )


COUNTS = {
    **dict.fromkeys(("data.train_batch_size", "actor_rollout_ref.rollout.n", MINI, "trainer.total_training_steps"), 1),
    **dict.fromkeys(("actor_rollout_ref.model.lora_rank", "critic.model.lora_rank"), 0),
}
"""The numbers from which the launcher computes others, each with the least that it may be."""


def check_counts(configuration: DictConfig) -> None:
    """Check the numbers of `COUNTS`.

    Raises:
        UserError: One is no integer, or too small.
    """
    for name, least in COUNTS.items():
        number = OmegaConf.select(configuration, name)
        if not isinstance(number, int) or number < least:
            allowed = "a positive integer" if least else "an integer of 0 or more"
            raise UserError(f"{name}={number} must be {allowed}")


def check_batch(configuration: DictConfig) -> None:
    """Check that the batch is divisible into mini-batches and ranks.

    Raises:
        UserError: The batch is not divisible.
    """
    prompts, samples = configuration.data.train_batch_size, configuration.actor_rollout_ref.rollout.n
    mini = configuration.actor_rollout_ref.actor.ppo_mini_batch_size
    ranks = configuration.trainer.n_gpus_per_node * configuration.trainer.nnodes
    if prompts % mini:
        raise UserError(f"data.train_batch_size={prompts} must be a multiple of {MINI}={mini}")
    if mini * samples % ranks:
        least = ranks // math.gcd(ranks, samples)
        raise UserError(
            f"a mini-batch of {mini} prompts with {samples} samples each is not divisible into {ranks} ranks: set "
            f"data.train_batch_size to a multiple of {prompts // mini * least}, or {MINI} to a multiple of {least}"
        )


def check_lengths(configuration: DictConfig) -> None:
    """Check that one prompt with its reply fits into the rollout's context and into a micro-batch.

    Raises:
        UserError: A limit is too small.
    """
    rollout = configuration.actor_rollout_ref.rollout
    longest = rollout.prompt_length + rollout.response_length
    least = {"actor_rollout_ref.rollout.max_model_len": context_tokens(configuration)}
    for role in ("actor_rollout_ref.actor", *(["critic"] if algorithms.has_critic(configuration) else [])):
        settings = OmegaConf.select(configuration, role)
        if settings.use_dynamic_bsz:
            # verl multiplies the limit by the number of ranks that share a sequence.
            least[f"{role}.ppo_max_token_len_per_gpu"] = -(-longest // settings.ulysses_sequence_parallel_size)
    for name, tokens in least.items():
        if (given := OmegaConf.select(configuration, name)) < tokens:
            raise UserError(
                f"{name}={given} is too small for one prompt and reply (data.max_prompt_length + "
                f"data.max_response_length = {longest}): set it to {tokens} or more"
            )


def check_opponents(catalogues: Iterable[Sequence[Task]], device: str) -> None:
    """Check that each opponent exists and can play its cases.

    Args:
        catalogues: The tasks of each stage. One task of each case is checked.
        device: verl's `trainer.device`.

    Raises:
        UserError: An opponent does not exist, or cannot play a case.
    """
    for name, env, case in dict.fromkeys(met for catalogue in catalogues for met in _opponents_of(catalogue)):
        if is_model(name):
            served = name.startswith((f"{CHECKPOINT}http://", f"{CHECKPOINT}https://"))
            if device != "cpu" and not served:
                raise UserError(
                    f"opponent={name} would run on CPUs while the GPUs wait: serve it with vLLM and name its address, "
                    f"such as {CHECKPOINT}http://host:8000/v1"
                )
            if name != PAST:
                check_player(name.removeprefix(CHECKPOINT), env)
        elif name not in ALL_SEATS:
            check_bot(name, env, [case] if stand_in(name, env, case) == name else [])


def check_judges(configuration: DictConfig, questions: Sequence[Task]) -> None:
    """Check the settings of the judge, and the opponents against which whole games are judged after training.

    Args:
        configuration: The resolved configuration.
        questions: The tasks of validation.

    Raises:
        UserError: A setting is missing, `evaluation.opponents` is no list of names, no environment has one of them, an
            environment has none of them, or one cannot play a case.
    """
    asked = configuration.veritas_rl.evaluation
    if asked is None:
        return
    tasks = list(spread(questions))
    games = [task for task in tasks if task.mode == "episode"]
    needed = [*(ANSWERS_JUDGED if len(games) < len(tasks) else ()), *(GAMES_JUDGED if games else ())]
    if missing := [name for name in needed if not isinstance(asked, DictConfig) or name not in asked]:
        raise UserError(f"veritas_rl.evaluation needs {' and '.join(missing)}, as in train/verl/config/start/made.yaml")
    if not games:
        return
    names = asked.get("opponents")
    if not isinstance(names, ListConfig) or not names or not all(isinstance(name, str) for name in names):
        raise UserError(f"veritas_rl.evaluation.opponents={names} must be a list of players, such as [random]")
    environments = dict.fromkeys(task.env for task in games)
    for name in names:
        if not any(is_player(name, env) for env in environments):
            check_player(name, games[0].env)
    met = cases_by_environment([task for task in games if get_environment(task.env).players_of(task) > 1])
    for env in environments:
        for name in players_in(env, names):
            if is_bot(name, env):
                check_bot(name, env, met.get(env, ()))


def _opponents_of(catalogue: Sequence[Task]) -> Iterator[tuple[str, str, str]]:
    for task in spread(catalogue):
        yield task.manner.opponent, task.env, task.case


def check_outputs(configuration: DictConfig) -> None:
    """Check that verl's file logger is on, whose metrics the launcher reads.

    Raises:
        UserError: The file logger is off.
    """
    if "file" not in configuration.trainer.logger:
        raise UserError(
            "trainer.logger must include file, because the progress bar and the learning curve are read from it"
        )


def check_template_arguments(configuration: DictConfig) -> None:
    """Check that the chat template gets no argument that evaluation and serving do not give it.

    Raises:
        UserError: There is an argument other than enable_thinking, or it is neither true nor false.
    """
    given = configuration.data.apply_chat_template_kwargs
    if not isinstance(given, DictConfig):
        raise UserError(f"data.apply_chat_template_kwargs={given} must be settings: leave it out, or set it to {{}}")
    if others := sorted(map(str, given.keys() - {"enable_thinking"})):
        raise UserError(
            f"data.apply_chat_template_kwargs.{others[0]} is not supported, because evaluation and serving would ask "
            "in other prompts: only enable_thinking is"
        )
    if not isinstance(given.get("enable_thinking", False), bool):
        raise UserError(
            f"data.apply_chat_template_kwargs.enable_thinking={given.enable_thinking} must be true or false"
        )


def check_watches(configuration: DictConfig) -> None:
    """Check the settings of the watches for stalled steps and disk space.

    Raises:
        UserError: A setting is invalid.
    """
    Bound.read(configuration.veritas_rl.stall)
    machine_checks.spare_bytes(configuration)


def check_trainer(configuration: DictConfig) -> None:
    """Check that the trainer is from this package. verl's own trainers have no curriculum, replay or atomic
    checkpoints.

    Raises:
        UserError: The trainer is not from this package, or its settings would drop games.
    """
    mode, strategy = configuration.trainer.v1.trainer_mode, configuration.trainer.v1.sampler.max_off_policy_strategy
    if mode == "game_async" and strategy != "wait":
        raise UserError(f"trainer.v1.sampler.max_off_policy_strategy={strategy} would drop games: set it to wait")
    if mode not in TRAINERS:
        ours = " or ".join(f"{name} (verl's {theirs})" for name, theirs in TRAINERS.items())
        raise UserError(f"trainer.v1.trainer_mode={mode} cannot play games: set it to {ours}")


def check_games_to_show(configuration: DictConfig) -> None:
    """Check the number of games that are shown after each validation.

    Raises:
        UserError: The number is not an integer, or is negative.
    """
    shown = configuration.veritas_rl.games_to_show
    if not isinstance(shown, int) or shown < 0:
        raise UserError(f"veritas_rl.games_to_show={shown} must be an integer: 0 shows no games")


def check(configuration: DictConfig, overrides: Sequence[str], recipe: Recipe | None = None) -> None:
    """Run all checks that need no model and no device.

    Args:
        configuration: The resolved configuration.
        overrides: The overrides of environment variables and command line.
        recipe: The recipe that `overrides` load.

    Raises:
        UserError: The first mistake.
    """
    check_outputs(configuration)
    check_watches(configuration)
    check_template_arguments(configuration)
    check_trainer(configuration)
    check_games_to_show(configuration)
    keys.check(configuration, overrides, compose_configuration, recipe)
    limits.check_rl(configuration)
    CustomReward.read(configuration)
    check_switches(configuration, overrides)
    quantization.check(configuration)
    shared_prompts.check(configuration)
    check_batch(configuration)
    check_lengths(configuration)
    for files in (configuration.data.train_files, configuration.data.val_files):
        split_of(files)
    # Validation uses the configured opponent. Training uses the opponent of each stage.
    trained, questions = (tasks_of(configuration, split) for split in SPLITS)
    stages = [*stages_of(configuration), trained]
    check_opponents([*stages, questions], configuration.trainer.device)
    listed_answers.check(configuration, stages)
    check_judges(configuration, questions)


def stages_of(configuration: DictConfig) -> list[Sequence[Task]]:
    """The training tasks of each stage, of all environments.

    Raises:
        UserError: An environment, a stage or a setting is wrong.
    """
    sources = open_sources(dataset_settings(configuration)).sources.values()
    return [stage for source in sources for stage in source.tasks.values()]
