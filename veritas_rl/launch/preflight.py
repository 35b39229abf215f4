"""What is checked before anything is started: each check ends in one line that says what to type instead."""

import dataclasses
import importlib.metadata
import importlib.util
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from omegaconf import DictConfig, OmegaConf

from veritas_rl.checkpoints.adapter import base_name
from veritas_rl.checkpoints.room import cannot_write, nearest_existing
from veritas_rl.curriculum.mixture import open_sources
from veritas_rl.envs.registry import spread
from veritas_rl.envs.task import SPLITS, Task
from veritas_rl.errors import UserError
from veritas_rl.launch import attention, quantization
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

AnyPlan = TypeVar("AnyPlan", bound=Forecast)

MINI = "actor_rollout_ref.actor.ppo_mini_batch_size"

TRAINERS = {"game": "sync", "game_async": "colocate_async"}
"""The trainers of `verl_plugin.trainer`, each with verl's name for what it is made from."""

LEAST_GPU_BYTES = 15 << 30
"""What hardware=rtx16g needs: no group is for less."""

LOOKED_AT = 1000
"""Of how many tasks, spread over a catalogue, the opponents are looked at."""


def check_verl() -> None:
    """The pinned verl is installed, and loads the plugin of this package.

    Raises:
        UserError: verl is missing or of another version, or the package was not installed (verl finds its plugin by
            the entry point, and says nothing when there is none).
    """
    plugins = importlib.metadata.entry_points(group="verl.plugins", name="veritas_rl")
    if not plugins:
        raise UserError("verl cannot find the plugin of this package: pip install -e . in the repository's root")
    required = required_version("verl")
    try:
        installed = importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        raise UserError(f"verl is not installed: bash train/scripts/setup.sh installs verl {required}") from None
    if installed != required:
        raise UserError(f"verl {installed} is installed, {required} is needed: pip install verl=={required}")
    try:
        # verl imports it too, but where that fails it says so at debug level only.
        next(iter(plugins)).load()
    except ImportError as error:
        raise UserError(f"the plugin for verl cannot be imported ({error}): bash train/scripts/setup.sh") from error


def check_devices(configuration: DictConfig, hardware: Hardware) -> None:
    """The machine has the GPUs that the configuration names, and the rollout backend is there.

    Raises:
        UserError: Something is missing.
    """
    wanted = configuration.trainer.n_gpus_per_node
    backend = configuration.actor_rollout_ref.rollout.name
    if configuration.trainer.device == "cpu":
        if backend != "transformers":
            raise UserError(f"rollout={backend} needs a GPU, and hardware=cpu has none: rollout=transformers")
        return
    if wanted > hardware.gpus:
        fitting = hardware.overrides()[0]
        raise UserError(f"{wanted} GPUs are wanted and {hardware.gpus} are here: {fitting} fits this machine")
    attention.check(configuration)
    if backend != "transformers" and importlib.util.find_spec(backend) is None:
        others = [name for name in ("vllm", "sglang") if name != backend and importlib.util.find_spec(name)]
        other = others[0] if others else "transformers"
        raise UserError(
            f"rollout={backend} needs {backend}, which is not installed here: ROLLOUT_BACKEND={other} is, or make an "
            f"environment for it with ROLLOUT_BACKEND={backend} VENV=.venv-{backend} bash train/scripts/setup.sh"
        )


def check_switches(configuration: DictConfig, overrides: Sequence[str]) -> None:
    """What is switched on is there to be switched.

    Args:
        configuration: The resolved configuration.
        overrides: What was set by variables and by the person.

    Raises:
        UserError: A setting would change nothing, or cannot work with another.
    """
    rollout, model = configuration.actor_rollout_ref.rollout, configuration.actor_rollout_ref.model
    lora = model.lora_rank > 0
    if configuration.trainer.device == "cpu" and configuration.actor_rollout_ref.actor.strategy == "fsdp":
        raise UserError("FSDP_STRATEGY=fsdp needs a GPU: leave it out, or set FSDP_STRATEGY=fsdp2")
    if rollout.layered_summon and not lora:
        raise UserError("LAYERED_SUMMON=1 sends adapters, and there are none: leave it out, or set ENABLE_LORA=1")
    if rollout.layered_summon and rollout.name == "transformers":
        raise UserError("LAYERED_SUMMON=1 is for rollout=vllm: leave it out")
    if rollout.name == "sglang" and lora:
        # verl names a field of the request that SGLang has from 0.5.18 on, and pins 0.5.12.
        raise UserError(
            "verl 0.9.1 cannot send adapters to the SGLang 0.5.12 that it installs: leave rollout=sglang out, or set "
            "ENABLE_LORA=0"
        )
    if model.get("lora", {}).get("merge"):
        raise UserError(
            "actor_rollout_ref.model.lora.merge=true sends the whole model, rounded to bf16, and garbled replies are "
            "known after the second time: leave it out, and the adapter alone is sent"
        )
    if rollout.name == "transformers" and any("rollout.gpu_memory_utilization=" in item for item in overrides):
        raise UserError("GPU_MEMORY_UTILIZATION is for rollout=vllm and rollout=sglang: leave it out")
    tensor, ranks = rollout.tensor_model_parallel_size, configuration.trainer.n_gpus_per_node
    if tensor < 1 or ranks % tensor:
        fitting = max(number for number in range(1, ranks + 1) if ranks % number == 0 and number <= max(tensor, 1))
        raise UserError(
            f"actor_rollout_ref.rollout.tensor_model_parallel_size={tensor} does not divide the {ranks} GPUs of a "
            f"node: set it to {fitting}"
        )
    algorithm = configuration.algorithm
    if algorithm.adv_estimator == "grpo" and rollout.n < 2:
        raise UserError(
            "ALGORITHM=grpo compares several games of one task: set actor_rollout_ref.rollout.n to 2 or more"
        )
    if algorithm.adv_estimator in ("grpo", "rae") and algorithm.use_kl_in_reward:
        raise UserError("algorithm.use_kl_in_reward is for ALGORITHM=ppo: use actor_rollout_ref.actor.use_kl_loss")
    if model.lora_adapter_path is None:
        return
    if not lora:
        raise UserError("LORA_ADAPTER_PATH is set, and adapters are off: set ENABLE_LORA=1")
    adapter = Path(model.lora_adapter_path)
    if model.path is None:
        raise UserError(f"the base of {adapter} is not named: set AGENT_MODEL_REPO_ID to {base_name(adapter)}")


def check_batch(configuration: DictConfig) -> None:
    """A batch divides into mini-batches and ranks.

    Raises:
        UserError: It does not.
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
            raise UserError(f"{name}={number} is no whole number above 0")
    if prompts % mini:
        raise UserError(f"data.train_batch_size={prompts} is no multiple of {MINI}={mini}")
    if mini * samples % ranks:
        raise UserError(
            f"a mini-batch of {mini} prompts with {samples} samples each does not divide into {ranks} ranks: "
            f"choose data.train_batch_size a multiple of {ranks}"
        )


def check_lengths(configuration: DictConfig) -> None:
    """One prompt with its reply fits into the rollout's context, and into what is computed at once.

    Raises:
        UserError: It does not.
    """
    rollout = configuration.actor_rollout_ref.rollout
    longest = rollout.prompt_length + rollout.response_length
    least = {"actor_rollout_ref.rollout.max_model_len": context_tokens(configuration)}
    for role in ("actor_rollout_ref.actor", *(["critic"] if configuration.algorithm.adv_estimator == "gae" else [])):
        settings = OmegaConf.select(configuration, role)
        if settings.use_dynamic_bsz:
            # verl computes so many times more at once where a sequence is divided among ranks.
            least[f"{role}.ppo_max_token_len_per_gpu"] = -(-longest // settings.ulysses_sequence_parallel_size)
    for name, tokens in least.items():
        if (given := OmegaConf.select(configuration, name)) < tokens:
            raise UserError(
                f"{name}={given} is less than one prompt and reply need, "
                f"data.max_prompt_length + data.max_response_length = {longest}: set it to {tokens} or more"
            )


def check_model(path: str, context: int = 0, *, critic: bool = False) -> None:
    """A model's configuration and tokenizer can be read from a local folder or the hub.

    Args:
        path: The folder, or the hub id.
        context: How many tokens it has to read.
        critic: Whether a critic is made of it too.

    Raises:
        UserError: They cannot, or it reads fewer, or no critic can be made of it.
    """
    from transformers import MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING, AutoConfig, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(path)
        AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"{path} is no model that can be read ({reason}): set AGENT_MODEL_REPO_ID to a hub id or to a folder with "
            "config.json, weights and a tokenizer"
        ) from error
    if critic and type(config) not in MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING:
        raise UserError(
            f"{path} is a model of type {config.model_type}, of which transformers makes no critic: ALGORITHM=grpo or "
            "ALGORITHM=rae needs none"
        )
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and limit < context:
        raise UserError(
            f"{path} reads {limit} tokens and {context} are wanted: set data.max_prompt_length and "
            "data.max_response_length to less (and rollout.max_model_len, where you named it)"
        )


def forecast(configuration: DictConfig, overrides: Sequence[str], hardware: Hardware) -> Plan | None:
    """What the run takes; None where no model is named, or where the shape of its family is not known.

    Args:
        configuration: The resolved configuration.
        overrides: What it was made of; they name the hardware group.
        hardware: The machine.
    """
    group = next((item.partition("=")[2] for item in overrides if group_of(item) == "hardware"), "h200x1")
    return _forecast(plan_of, configuration, configuration.actor_rollout_ref.model.path, group, hardware)


def sft_forecast(configuration: DictConfig, group: str, hardware: Hardware) -> SftPlan | None:
    """What a run of supervised fine-tuning takes; as `forecast`."""
    return _forecast(sft_plan_of, configuration, configuration.model.path, group, hardware)


def _forecast(
    make: Callable[..., AnyPlan], configuration: DictConfig, path: str | None, group: str, hardware: Hardware
) -> AnyPlan | None:
    if path is None:
        return None
    device = this_machine()
    if configuration.trainer.device != "cpu":
        # Rates decide the time alone, which is not asked for.
        device = dataclasses.replace(DEVICES["h200"], name="this GPU", memory=hardware.gpu_bytes)
    try:
        # The check of the model has brought its configuration into the hub's cache.
        return make(configuration, group, device, find_shape(path, ask_hub=False))
    except UnknownShape:
        return None


def check_memory(configuration: DictConfig, plan: Forecast | None, hardware: Hardware) -> None:
    """The run fits into the machine's memory, as far as that can be forecast.

    Args:
        configuration: The resolved configuration.
        plan: What the run takes, where it is known.
        hardware: The machine.

    Raises:
        UserError: It does not, even if the forecast is too large by its error.
    """
    if plan is None or not configuration.veritas_rl.check_memory or (reason := plan.refusal()) is None:
        return
    suited, changes = hardware.overrides()[0], plan.changes()[:1]
    if 0 < hardware.gpu_bytes < LEAST_GPU_BYTES:
        fitting = "; hardware=cpu trains a small model"
    elif configuration.trainer.device != "cpu" and suited != f"hardware={plan.hardware}":
        fitting = f"; {suited} is for this machine"
    else:
        fitting = "".join(f"; with {change} it fits" for change in changes)
    raise UserError(
        f"{reason}{fitting}; train/tools/plan.py shows all of it, and veritas_rl.check_memory=false starts anyway"
    )


def check_disk(configuration: DictConfig, plan: Forecast | None) -> None:
    """There is room for the checkpoints that the run keeps.

    Args:
        configuration: The resolved configuration.
        plan: What the run takes, where it is known: it says how large a checkpoint is.

    Raises:
        UserError: There is not.
    """
    # One checkpoint more than is kept: the oldest goes when the newest is whole.
    kept = (plan.kept + 1) * sum(plan.checkpoint().values()) if plan is not None else 0
    needed = spare_bytes(configuration) + kept
    existing = nearest_existing(Path(configuration.trainer.default_local_dir))
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise UserError(
            f"{existing} has {free / 2**30:.1f} GiB free and the checkpoints need {needed / 2**30:.1f}: free some, or "
            "set trainer.default_local_dir to a larger disk"
        )
    if reason := cannot_write(existing):
        raise UserError(f"{reason}: set trainer.default_local_dir to a folder that can")


def spare_bytes(configuration: DictConfig) -> int:
    """What a run writes besides checkpoints: logs, metrics, curves.

    Raises:
        UserError: The setting is no number.
    """
    spare = configuration.veritas_rl.spare_disk_gib
    if isinstance(spare, bool) or not isinstance(spare, int | float) or not 0 <= spare < math.inf:
        raise UserError(f"veritas_rl.spare_disk_gib={spare} is no size: a number of GiB, such as 1")
    return int(spare * 2**30)


def check_opponents(catalogues: Iterable[Sequence[Task]], device: str) -> None:
    """Each opponent exists, and can play its cases.

    Args:
        catalogues: The tasks of each stage. The opponents of one task of each case are looked at.
        device: On what the run trains: verl's `trainer.device`.

    Raises:
        UserError: It does not, or cannot.
    """
    for name, env, case in dict.fromkeys(met for catalogue in catalogues for met in _opponents_of(catalogue)):
        if is_model(name):
            served = name.startswith((f"{CHECKPOINT}http://", f"{CHECKPOINT}https://"))
            if device != "cpu" and not served:
                raise UserError(
                    f"opponent={name} would be played by the CPUs, while the GPUs wait: serve it with vLLM and name "
                    f"its address, such as {CHECKPOINT}http://host:8000/v1"
                )
            if name != PAST:
                check_player(name.removeprefix(CHECKPOINT), env)
        elif name not in ALL_SEATS:
            check_bot(name, env, [case] if stand_in(name, env, case) == name else [])


def _opponents_of(catalogue: Sequence[Task]) -> Iterator[tuple[str, str, str]]:
    """Opponent, environment and case of tasks that are spread over a catalogue."""
    for task in spread(catalogue, LOOKED_AT):
        yield task.manner.opponent, task.env, task.case


def check_outputs(configuration: DictConfig) -> None:
    """What the launcher and a person read afterwards will be written.

    Raises:
        UserError: It will not.
    """
    if "file" not in configuration.trainer.logger:
        raise UserError("trainer.logger must hold file: the progress bar and the learning curve are read from it")


def check_watches(configuration: DictConfig) -> None:
    """What is watched during the run can be.

    Raises:
        UserError: A setting is not understood.
    """
    Bound.read(configuration.veritas_rl.stall)
    spare_bytes(configuration)


def check_trainer(configuration: DictConfig) -> None:
    """The trainer is one of ours: verl's own know nothing of curriculum, replay and whole checkpoints.

    Raises:
        UserError: It is another, or it would lose games.
    """
    mode, strategy = configuration.trainer.v1.trainer_mode, configuration.trainer.v1.sampler.max_off_policy_strategy
    if mode == "game_async" and strategy != "wait":
        raise UserError(f"trainer.v1.sampler.max_off_policy_strategy={strategy} would throw games away: wait is ours")
    if mode not in TRAINERS:
        ours = " or ".join(f"{name} (verl's {theirs})" for name, theirs in TRAINERS.items())
        raise UserError(f"trainer.v1.trainer_mode={mode} is none that plays games: {ours}")


def check_games_to_show(configuration: DictConfig) -> None:
    """A number of games can be shown after each validation.

    Raises:
        UserError: They cannot.
    """
    shown = configuration.veritas_rl.games_to_show
    if not isinstance(shown, int) or shown < 0:
        raise UserError(f"veritas_rl.games_to_show={shown} is no whole number: 0 shows none")


def check(configuration: DictConfig, overrides: Sequence[str]) -> None:
    """Every check that needs no model and no device.

    Args:
        configuration: The resolved configuration.
        overrides: What was set by variables and by the person.

    Raises:
        UserError: The first mistake that was found.
    """
    check_outputs(configuration)
    check_watches(configuration)
    check_trainer(configuration)
    check_games_to_show(configuration)
    check_switches(configuration, overrides)
    quantization.check(configuration)
    check_batch(configuration)
    check_lengths(configuration)
    catalogues = [tasks_of(configuration, split) for split in SPLITS]
    # Validation meets the opponent of the configuration, training that of each stage.
    sources = open_sources(dataset_settings(configuration)).sources.values()
    stages = [stage for source in sources for stage in source.tasks.values()]
    check_opponents([*stages, *catalogues], configuration.trainer.device)
