"""Checks before a run starts. Each error is one line that states what to type instead."""

import dataclasses
import importlib.metadata
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.chat_template import check_template, end_warning, prompt_ids, render, reply_ids
from veritas_rl.checkpoints.adapter import (
    EMBEDDINGS,
    base_name,
    check_adapter,
    check_mergeable,
    check_size,
    check_targets,
    dropout_of,
    headers,
    only_bin,
    rank_and_alpha,
    target_modules,
)
from veritas_rl.checkpoints.packaged import local_name, provide
from veritas_rl.checkpoints.room import cannot_write, nearest_existing
from veritas_rl.curriculum.mixture import open_sources, split_of
from veritas_rl.envs.custom_reward import CustomReward
from veritas_rl.envs.registry import get_environment, is_remote, spread
from veritas_rl.envs.task import SPLITS, Task
from veritas_rl.errors import UserError
from veritas_rl.launch import attention, keys, limits, quantization, rollout_backend, shared_prompts
from veritas_rl.launch.configuration import (
    compose_configuration,
    context_tokens,
    dataset_settings,
    tasks_of,
)
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.recipes import Recipe
from veritas_rl.launch.stall_watch import Bound
from veritas_rl.paths import TOKEN, has_token
from veritas_rl.pins import required_version
from veritas_rl.planning.compose import plan_of, plan_of_known, sft_plan_of, this_machine
from veritas_rl.planning.devices import DEVICES, Device
from veritas_rl.planning.forecast import Forecast
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.sft import SftPlan
from veritas_rl.players.loading import check_player
from veritas_rl.players.registry import ALL_SEATS, CHECKPOINT, PAST, check_bot, is_model, stand_in
from veritas_rl.verl_plugin import algorithms, dropout

MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"

TRAINERS = {"game": "sync", "game_async": "colocate_async"}
"""The trainers of `verl_plugin.trainer`, each with the verl trainer that it extends."""

LEAST_GPU_BYTES = 15 << 30
"""The memory that hardware=rtx16g, the smallest GPU group, needs."""


def check_verl() -> None:
    """Check that the pinned verl is installed and loads this package's plugin.

    Raises:
        UserError: verl is missing or has another version, or this package is not installed. verl finds the plugin by
            its entry point, and does not report a missing plugin.
    """
    plugins = importlib.metadata.entry_points(group="verl.plugins", name="veritas_rl")
    if not plugins:
        raise UserError("verl cannot find this package's plugin: run pip install -e . in the repository's root")
    required = required_version("verl")
    try:
        installed = importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        raise UserError(f"verl {required} is not installed: run bash train/scripts/setup.sh") from None
    if installed != required:
        raise UserError(f"verl {installed} is installed, but {required} is required: run pip install verl=={required}")
    try:
        # verl imports the plugin too, but logs a failure at debug level only.
        next(iter(plugins)).load()
    except ImportError as error:
        raise UserError(
            f"this package's verl plugin cannot be imported ({error}): run bash train/scripts/setup.sh"
        ) from error


def check_devices(configuration: DictConfig, hardware: Hardware) -> None:
    """Check that the machine has the configured GPUs and packages.

    Raises:
        UserError: A GPU, the rollout backend or the package of a 4-bit base is missing.
    """
    quantization.check_installed(configuration)
    if configuration.trainer.device != "cpu":
        wanted = configuration.trainer.n_gpus_per_node
        if wanted > hardware.gpus:
            fitting = f"hardware={hardware.group}"
            raise UserError(
                f"the configuration needs {wanted} GPUs, and this machine has {hardware.gpus}: use {fitting}"
            )
        attention.check(configuration)
    rollout_backend.check_installed(configuration)


def idle_note(configuration: DictConfig, hardware: Hardware) -> str | None:
    """Say which GPUs of this machine the run does not use, and what to type; None if it uses all.

    Args:
        configuration: The resolved configuration.
        hardware: The machine.
    """
    trainer, batch, gpus = configuration.trainer, configuration.data.train_batch_size, hardware.gpus
    if trainer.device == "cpu" or trainer.nnodes > 1 or trainer.n_gpus_per_node >= gpus:
        return None
    # Each GPU gets as many rows; in fine-tuning whole micro-batches.
    unit = gpus * (configuration.data.get("micro_batch_size_per_gpu") or 1)
    typed = [f"trainer.n_gpus_per_node={gpus}"]
    typed += [f"data.train_batch_size={max(unit, batch // unit * unit)}"] if batch % unit else []
    return f"note: {gpus - trainer.n_gpus_per_node} of {gpus} GPUs are idle: {' '.join(typed)} uses them"


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
    if estimate and estimate.advantages and algorithm.use_kl_in_reward:
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


PROMPTS = 3
"""The number of tasks of a catalogue whose prompts are checked before the start."""

MEASURED = 64
"""The number of tasks whose prompts are measured for a forecast."""


def check_model(path: str, context: int = 0, *, critic: bool = False) -> None:
    """Check that a model's configuration and tokenizer can be read from a local folder or the hub. The folder of a
    packaged model is written if necessary.

    Args:
        path: The folder, or the hub id.
        context: The required context in tokens.
        critic: Whether the run also needs a critic of this model.

    Raises:
        UserError: The model cannot be read, its weights are incomplete, it has no chat template that shows a question,
            its context is too small, or it has no critic class.
    """
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
        AutoConfig,
        AutoTokenizer,
    )

    path = provide(path)
    try:
        config = AutoConfig.from_pretrained(path)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except Exception as error:  # a damaged file makes transformers and tokenizers raise many types of errors
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"the model {path} cannot be read ({reason}): set AGENT_MODEL_REPO_ID to a hub id, or to a folder with "
            "config.json, weights and a tokenizer"
        ) from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise UserError(
            f"transformers has no causal language model for {path} (model type {config.model_type}): choose "
            "another model"
        )
    check_weights(path)
    check_template(tokenizer, path)
    if critic and type(config) not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        raise UserError(
            f"transformers has no critic for {path} (model type {config.model_type}): set ALGORITHM=grpo or "
            "ALGORITHM=rae, which need no critic"
        )
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and limit < context:
        raise UserError(
            f"{path} has a context of {limit} tokens, and the run needs {context}: set data.max_prompt_length and "
            "data.max_response_length to less, and actor_rollout_ref.rollout.max_model_len if you set it"
        )


def check_weights(path: str) -> None:
    """Check that a model's weights are complete safetensors files. Only headers are read. On the hub only their kind is
    looked up, and nothing is if the hub does not answer.

    Args:
        path: The model's folder, or its hub id.

    Raises:
        UserError: Weights are missing, damaged, or not in safetensors.
    """
    from huggingface_hub import get_safetensors_metadata
    from huggingface_hub.errors import NotASafetensorsRepoError

    if Path(path).is_dir():
        headers(Path(path))
        return
    try:
        get_safetensors_metadata(path)
    except NotASafetensorsRepoError as error:
        raise UserError(only_bin(path)) from error
    except Exception:  # a hub that cannot be asked is reported when the weights are downloaded
        return


def check_prompts(path: str, catalogues: Iterable[Sequence[Task]]) -> None:
    """Check that a model's chat template accepts the prompts of a run: its system messages, and in conversations its
    earlier replies.

    Args:
        path: The model's folder, or its hub id.
        catalogues: The tasks of the run.

    Raises:
        UserError: The template does not accept a prompt.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    for task in (task for catalogue in catalogues for task in spread(catalogue, PROMPTS)):
        if is_remote(task):
            continue  # its server writes the prompts, and would begin a game for each
        for turn in get_environment(task.env).start(task).turns():
            talks = task.manner.context == "conversation"
            try:
                render(tokenizer, turn.chat_after("...", "...") if talks else turn.messages)
            except UserError as error:
                raise UserError(f"{path} cannot answer tasks of {task.env}: {error}; choose another model") from error


def tokenizer_of(model: str | Path | None, words: Sequence[str] = (), *, conversation: bool = False) -> Any:
    """A run's tokenizer.

    Args:
        model: The model's folder or hub id, or a packaged model's name; None for the model that the launcher makes.
        words: The words of that model's tokenizer.
        conversation: Whether the chat template of a named model must show earlier turns.

    Raises:
        UserError: The tokenizer cannot be read, or its chat template does not show a conversation.
    """
    # These import torch, which a run with one reply in each row does not need before its start.
    from transformers import AutoTokenizer

    from veritas_rl.launch.tiny_model import byte_tokenizer

    if model is None:
        return byte_tokenizer(words)
    try:
        tokenizer = AutoTokenizer.from_pretrained(local_name(str(model)))
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"the tokenizer of {model} cannot be read ({' '.join(str(error).split())[:100]})") from error
    if conversation:
        check_template(tokenizer, model, conversation=True)
    return tokenizer


def check_replies(
    tokenizer: Any, catalogues: Iterable[Sequence[Task]], key: str, limit: int, *, enable_thinking: bool
) -> None:
    """Check that some task of a run can be answered within the limit of a reply.

    Args:
        tokenizer: The model's tokenizer, with a chat template.
        catalogues: The tasks of the run.
        key: The key of the limit.
        limit: The most tokens of a reply, its end included.
        enable_thinking: Whether a hybrid model thinks before it answers.

    Raises:
        UserError: Every known answer of the tasks looked at is longer.
    """
    shortest: tuple[int, str] | None = None
    for task in (task for catalogue in catalogues for task in spread(catalogue, PROMPTS)):
        if is_remote(task):
            return
        for turn in get_environment(task.env).start(task).turns():
            answers = turn.answers or ((turn.solution,) if turn.solution else ())
            if not answers:
                return
            for answer in answers:
                length = len(reply_ids(tokenizer, answer, enable_thinking=enable_thinking))
                if length <= limit:
                    return
                shortest = min(shortest or (length, answer), (length, answer))
    if shortest is not None:
        raise UserError(
            f"{key}={limit} is too short for any answer: the shortest, {shortest[1]!r}, has {shortest[0]} tokens with "
            f"its end: set {key} to {shortest[0]} or more"
        )


def end_note(path: str) -> str | None:
    """A warning if tokenizer and generation config of a model end replies differently; see `end_warning`.

    Args:
        path: The model's folder, or its hub id.
    """
    from transformers import AutoTokenizer

    from veritas_rl.checkpoints.models import generation_config_of

    return end_warning(AutoTokenizer.from_pretrained(path), generation_config_of(path), path)


def mean_prompt(configuration: DictConfig) -> dict[str, int]:
    """The mean tokens of a prompt of training as `{"prompt": tokens}`; empty if the model's tokenizer is not on this
    machine, or a server writes the prompts.

    Args:
        configuration: The resolved configuration, with a named model.
    """
    from transformers import AutoTokenizer

    tasks = list(spread(tasks_of(configuration, "train"), MEASURED))
    if any(map(is_remote, tasks)):
        return {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            local_name(configuration.actor_rollout_ref.model.path), local_files_only=True
        )
    except (OSError, ValueError):
        return {}
    turns = [turn for task in tasks for turn in get_environment(task.env).start(task).turns()]
    return {"prompt": round(fmean(len(prompt_ids(tokenizer, turn.messages)) for turn in turns))}


def dropout_note(path: str, adapter: str | None) -> str | None:
    """What RL turns off in a model, in one line; None if there is nothing.

    Args:
        path: The model's folder or hub id.
        adapter: The folder of the adapter from which training continues, or None.
    """
    from transformers import AutoConfig

    names = dropout.typed(dropout.found(AutoConfig.from_pretrained(path)))
    if adapter is not None and (share := dropout_of(Path(adapter))):
        names.append(f"lora_dropout={share}")
    if not names:
        return None
    return f"dropout is off in RL, because rollout and reference have none: {', '.join(names)} of the model is set to 0"


def forecast(configuration: DictConfig, overrides: Sequence[str], hardware: Hardware) -> Plan | None:
    """Forecast the run's memory, time and storage; None if no model is named, or its architecture is unknown.

    Args:
        configuration: The resolved configuration.
        overrides: The configuration's overrides, which name the hardware group unless a recipe chooses it.
        hardware: The machine.
    """
    path, device = configuration.actor_rollout_ref.model.path, _device(configuration, hardware)
    return plan_of_known(plan_of, configuration, path, _group(overrides), device)


def sft_forecast(configuration: DictConfig, overrides: Sequence[str], hardware: Hardware) -> SftPlan | None:
    """As `forecast`, for a run of supervised fine-tuning."""
    path, device = configuration.model.path, _device(configuration, hardware)
    return plan_of_known(sft_plan_of, configuration, path, _group(overrides), device)


def _group(overrides: Sequence[str]) -> str:
    return next((item.partition("=")[2] for item in overrides if re.match("(sft_)?hardware=", item)), "of the recipe")


def _device(configuration: DictConfig, hardware: Hardware) -> Device | None:
    """A GPU of the machine; None for its processor, at the rates of the run's dtype."""
    if configuration.trainer.device == "cpu":
        return None
    # Only the time depends on the device's speed, and it is not used here for GPUs.
    return dataclasses.replace(DEVICES["h200"], name="this GPU", memory=hardware.gpu_bytes)


def check_memory(
    configuration: DictConfig, plan: Forecast | None, hardware: Hardware, model: str | None = None
) -> None:
    """Check that the run is forecast to fit into the machine's memory; without a forecast, that the weights do.

    Args:
        configuration: The resolved configuration.
        plan: The forecast, if known.
        hardware: The machine.
        model: The model's folder, or its hub id.

    Raises:
        UserError: The run does not fit, even within the forecast's error.
    """
    if not configuration.veritas_rl.check_memory:
        return
    if plan is None and model is not None and Path(model).is_dir():
        cpu, gpus = configuration.trainer.device == "cpu", configuration.trainer.n_gpus_per_node
        memory = this_machine().memory if cpu else hardware.gpu_bytes * gpus * configuration.trainer.nnodes
        check_size(Path(model), memory, "; veritas_rl.check_memory=false skips this check")
    if plan is None or (reason := plan.refusal()) is None:
        return
    group = hardware.sft_group if isinstance(plan, SftPlan) else hardware.group
    suited, changes = f"hardware={group}", plan.changes()[:1]
    if 0 < hardware.gpu_bytes < LEAST_GPU_BYTES:
        fitting = "; set hardware=cpu to train a small model"
    elif configuration.trainer.device != "cpu" and suited != f"hardware={plan.hardware}":
        fitting = f"; set {suited} for this machine"
    else:
        fitting = f"; it fits with {changes[0]}" if changes else "; no setting makes it fit: choose a smaller model"
        keys = [item.partition("=")[0] for change in changes for item in change.split()]
        given = [f"{key}={OmegaConf.select(configuration, key)}" for key in keys if "." in key]
        reason += f", with {' and '.join(given)}" if given else ""
    raise UserError(
        f"{reason}{fitting}; train/tools/plan.py shows the forecast, and veritas_rl.check_memory=false skips this check"
    )


def check_disk(configuration: DictConfig, plan: Forecast | None) -> None:
    """Check that the disk has room for the run's checkpoints.

    Args:
        configuration: The resolved configuration.
        plan: The forecast, if known. It includes the size of a checkpoint.

    Raises:
        UserError: The disk is too full, or the folder is not writable.
    """
    # One checkpoint more than is kept: the oldest is removed after the newest is complete.
    kept = (plan.kept + 1) * sum(plan.checkpoint().values()) if plan is not None else 0
    needed = spare_bytes(configuration) + kept
    existing = nearest_existing(Path(configuration.trainer.default_local_dir))
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise UserError(
            f"{existing} has {free / 2**30:.1f} GiB free, and the checkpoints need {needed / 2**30:.1f} GiB: free some "
            "space, or set trainer.default_local_dir to a larger disk"
        )
    if reason := cannot_write(existing):
        raise UserError(f"{reason}: set trainer.default_local_dir to a folder that can")


def check_token(configuration: DictConfig) -> None:
    """Check that a Ray of the run's own can write its token, which it does once for a user.

    Raises:
        UserError: The user's home is not writable.
    """
    own = configuration.ray_kwargs.ray_init.address == "local"
    if not own or os.environ.get("RAY_AUTH_MODE", "token").lower() != "token" or has_token():
        return
    if reason := cannot_write(nearest_existing(TOKEN.expanduser().parent)):
        raise UserError(
            f"{reason}, and Ray keeps its token in {TOKEN.parent}: set HOME to a folder that can be written"
        )


def spare_bytes(configuration: DictConfig) -> int:
    """The bytes that a run needs besides checkpoints, for logs, metrics and curves.

    Raises:
        UserError: `veritas_rl.spare_disk_gib` is not a valid size.
    """
    spare = configuration.veritas_rl.spare_disk_gib
    if isinstance(spare, bool) or not isinstance(spare, int | float) or not 0 <= spare < math.inf:
        raise UserError(f"veritas_rl.spare_disk_gib={spare} is no size: a number of GiB, such as 1")
    return int(spare * 2**30)


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
    spare_bytes(configuration)


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
    catalogues = [*stages_of(configuration), *(tasks_of(configuration, split) for split in SPLITS)]
    check_opponents(catalogues, configuration.trainer.device)


def stages_of(configuration: DictConfig) -> list[Sequence[Task]]:
    """The training tasks of each stage, of all environments.

    Raises:
        UserError: An environment, a stage or a setting is wrong.
    """
    sources = open_sources(dataset_settings(configuration)).sources.values()
    return [stage for source in sources for stage in source.tasks.values()]
