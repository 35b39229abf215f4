"""Checks before a run starts. Each error is one line that states what to type instead."""

import dataclasses
import importlib.metadata
import importlib.util
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf

from veritas_rl.chat_template import check_template, render
from veritas_rl.checkpoints.adapter import base_name, dropout_of, rank_and_alpha
from veritas_rl.checkpoints.room import cannot_write, nearest_existing
from veritas_rl.curriculum.mixture import open_sources
from veritas_rl.envs.registry import get_environment, is_remote, spread
from veritas_rl.envs.task import SPLITS, Task
from veritas_rl.errors import UserError
from veritas_rl.launch import attention, limits, quantization
from veritas_rl.launch.configuration import context_tokens, dataset_settings, group_of, tasks_of
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.stall_watch import Bound
from veritas_rl.pins import required_version
from veritas_rl.planning.compose import plan_of, sft_plan_of, this_machine
from veritas_rl.planning.devices import DEVICES
from veritas_rl.planning.forecast import Forecast
from veritas_rl.planning.models import UnknownShape, find_shape
from veritas_rl.planning.plan import Plan
from veritas_rl.planning.sft import SftPlan
from veritas_rl.players.loading import check_player
from veritas_rl.players.registry import ALL_SEATS, CHECKPOINT, PAST, check_bot, is_model, stand_in
from veritas_rl.verl_plugin import dropout

AnyPlan = TypeVar("AnyPlan", bound=Forecast)

MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"

TRAINERS = {"game": "sync", "game_async": "colocate_async"}
"""The trainers of `verl_plugin.trainer`, each with the verl trainer that it extends."""

LEAST_GPU_BYTES = 15 << 30
"""The memory that hardware=rtx16g, the smallest GPU group, needs."""

LOOKED_AT = 1000
"""How many tasks, spread over a catalogue, are searched for opponents."""


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
    """Check that the machine has the configured GPUs and rollout backend.

    Raises:
        UserError: A GPU or the rollout backend is missing.
    """
    wanted = configuration.trainer.n_gpus_per_node
    backend = configuration.actor_rollout_ref.rollout.name
    if configuration.trainer.device == "cpu":
        if backend != "transformers":
            raise UserError(f"rollout={backend} needs a GPU: with hardware=cpu, use rollout=transformers")
        return
    if wanted > hardware.gpus:
        fitting = hardware.overrides()[0]
        raise UserError(f"the configuration needs {wanted} GPUs, and this machine has {hardware.gpus}: use {fitting}")
    attention.check(configuration)
    if backend != "transformers" and importlib.util.find_spec(backend) is None:
        others = [name for name in ("vllm", "sglang") if name != backend and importlib.util.find_spec(name)]
        other = others[0] if others else "transformers"
        raise UserError(
            f"rollout={backend} needs {backend}, which is not installed: set ROLLOUT_BACKEND={other}, or install it "
            f"with ROLLOUT_BACKEND={backend} VENV=.venv-{backend} bash train/scripts/setup.sh"
        )


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
    if algorithm.adv_estimator in ("grpo", "rae") and algorithm.use_kl_in_reward:
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
    if model.lora_adapter_path is None:
        return
    if not lora:
        raise UserError("LORA_ADAPTER_PATH is set, but adapters are off: set ENABLE_LORA=1")
    adapter = Path(model.lora_adapter_path)
    if model.path is None:
        raise UserError(
            f"LORA_ADAPTER_PATH={adapter} needs its base model: set AGENT_MODEL_REPO_ID to {base_name(adapter)}"
        )
    if (model.lora_rank, model.lora_alpha) != (fixed := rank_and_alpha(adapter)):
        raise UserError(
            f"the adapter {adapter} has rank {fixed[0]} and alpha {fixed[1]}, so {model.lora_rank} and "
            f"{model.lora_alpha} have no effect: leave actor_rollout_ref.model.lora_rank and lora_alpha out, and name "
            "the adapter by LORA_ADAPTER_PATH"
        )


def check_batch(configuration: DictConfig) -> None:
    """Check that the batch is divisible into mini-batches and ranks.

    Raises:
        UserError: The batch is not divisible.
    """
    prompts, samples = configuration.data.train_batch_size, configuration.actor_rollout_ref.rollout.n
    mini = configuration.actor_rollout_ref.actor.ppo_mini_batch_size
    ranks = configuration.trainer.n_gpus_per_node * configuration.trainer.nnodes
    steps = configuration.trainer.total_training_steps
    for name, number in (
        ("data.train_batch_size", prompts),
        ("actor_rollout_ref.rollout.n", samples),
        (MINI, mini),
        ("trainer.total_training_steps", steps),
    ):
        if not isinstance(number, int) or number < 1:
            raise UserError(f"{name}={number} must be a positive integer")
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
    for role in ("actor_rollout_ref.actor", *(["critic"] if configuration.algorithm.adv_estimator == "gae" else [])):
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


def check_model(path: str, context: int = 0, *, critic: bool = False) -> None:
    """Check that a model's configuration and tokenizer can be read from a local folder or the hub.

    Args:
        path: The folder, or the hub id.
        context: The required context in tokens.
        critic: Whether the run also needs a critic of this model.

    Raises:
        UserError: The model cannot be read, it has no chat template that shows a question, its context is too small, or
            it has no critic class.
    """
    from transformers import MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING, AutoConfig, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(path)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"the model {path} cannot be read ({reason}): set AGENT_MODEL_REPO_ID to a hub id, or to a folder with "
            "config.json, weights and a tokenizer"
        ) from error
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
        overrides: The configuration's overrides, which name the hardware group.
        hardware: The machine.
    """
    group = next((item.partition("=")[2] for item in overrides if group_of(item) == "hardware"), "h200x1")
    return _forecast(plan_of, configuration, configuration.actor_rollout_ref.model.path, group, hardware)


def sft_forecast(configuration: DictConfig, group: str, hardware: Hardware) -> SftPlan | None:
    """As `forecast`, for a run of supervised fine-tuning."""
    return _forecast(sft_plan_of, configuration, configuration.model.path, group, hardware)


def _forecast(
    make: Callable[..., AnyPlan], configuration: DictConfig, path: str | None, group: str, hardware: Hardware
) -> AnyPlan | None:
    if path is None:
        return None
    device = this_machine()
    if configuration.trainer.device != "cpu":
        # Only the time depends on the device's speed, and it is not used here.
        device = dataclasses.replace(DEVICES["h200"], name="this GPU", memory=hardware.gpu_bytes)
    try:
        # `check_model` has already cached the configuration.
        return make(configuration, group, device, find_shape(path, ask_hub=False))
    except UnknownShape:
        return None


def check_memory(configuration: DictConfig, plan: Forecast | None, hardware: Hardware) -> None:
    """Check that the run is forecast to fit into the machine's memory.

    Args:
        configuration: The resolved configuration.
        plan: The forecast, if known.
        hardware: The machine.

    Raises:
        UserError: The run does not fit, even within the forecast's error.
    """
    if plan is None or not configuration.veritas_rl.check_memory or (reason := plan.refusal()) is None:
        return
    suited, changes = hardware.overrides()[0], plan.changes()[:1]
    if 0 < hardware.gpu_bytes < LEAST_GPU_BYTES:
        fitting = "; set hardware=cpu to train a small model"
    elif configuration.trainer.device != "cpu" and suited != f"hardware={plan.hardware}":
        fitting = f"; set {suited} for this machine"
    else:
        fitting = "".join(f"; it fits with {change}" for change in changes)
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
    for task in spread(catalogue, LOOKED_AT):
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


def check(configuration: DictConfig, overrides: Sequence[str]) -> None:
    """Run all checks that need no model and no device.

    Args:
        configuration: The resolved configuration.
        overrides: The overrides of environment variables and command line.

    Raises:
        UserError: The first mistake.
    """
    check_outputs(configuration)
    check_watches(configuration)
    check_template_arguments(configuration)
    check_trainer(configuration)
    check_games_to_show(configuration)
    limits.check_names(configuration, overrides)
    limits.check_rl(configuration)
    check_switches(configuration, overrides)
    quantization.check(configuration)
    check_batch(configuration)
    check_lengths(configuration)
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
