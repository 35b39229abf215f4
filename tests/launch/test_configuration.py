"""Overrides and variables give the right configuration for verl."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.import_utils import load_extern_object

from veritas_rl.curriculum.mixture import open_sources
from veritas_rl.envs.registry import get_environment, task_of
from veritas_rl.errors import UserError
from veritas_rl.launch import attention
from veritas_rl.launch import configuration as conf
from veritas_rl.launch import hardware as hardware_module
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.machine_checks import check_devices, check_memory, forecast, idle_note
from veritas_rl.launch.preflight import check_lengths
from veritas_rl.launch.recipes import absolute
from veritas_rl.launch.rl import plan
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.variables import ALGORITHMS

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
ONE_GPU = Hardware(cores=16, gpus=1, gpu_bytes=141 << 30)
ADAPTER = "data.custom_cls.config.adapter_config"


def configured(*typed: str, hardware: Hardware = CPU, **environment: str) -> DictConfig:
    return plan(typed, environment, hardware, datetime(2026, 1, 2, 3, 4, 5)).configuration


def test_a_cpu_is_the_default_where_there_is_no_gpu() -> None:
    made = configured()
    assert made.trainer.device == "cpu"
    assert made.actor_rollout_ref.rollout.name == "transformers"
    assert made.actor_rollout_ref.model.path is None
    assert made.algorithm.adv_estimator == "gae"
    assert [task.case for task in conf.tasks_of(made, "train")[:1]] == ["tic_tac_toe"]


@pytest.mark.parametrize("plus", ["", "+"])
def test_adapter_overrides_work_with_and_without_a_plus(plus: str) -> None:
    made = configured(f"{plus}{ADAPTER}.num_tasks_per_case=200", f"{plus}{ADAPTER}.max_random_steps=5")
    tasks = conf.tasks_of(made, "val")
    assert len(tasks) == 200
    assert tasks[0].to_dict()["depth"] == 5


def test_game_types_selects_every_game_that_it_names() -> None:
    tasks = conf.tasks_of(configured(GAME_TYPES="hex,go,chess"), "train")
    assert {task.case.partition("(")[0] for task in tasks[:: len(tasks) // 60]} == {"hex", "go", "chess"}


def test_a_case_with_commas_is_one_case() -> None:
    tasks = conf.tasks_of(configured(GAME_TYPES="clobber(rows=5,columns=5),tic_tac_toe"), "train")
    assert {task.case for task in tasks[:40]} == {"clobber(columns=5,rows=5)", "tic_tac_toe"}


def test_the_command_line_wins_over_the_environment() -> None:
    made = configured("algorithm=ppo", "data.train_batch_size=8", ALGORITHM="grpo")
    assert made.algorithm.adv_estimator == "gae"
    assert made.data.train_batch_size == 8


def test_one_seed_reaches_all() -> None:
    made = configured("veritas_rl.seed=7")
    assert conf.tasks_of(made, "train")[0].seed == 7
    assert (made.data.seed, made.actor_rollout_ref.rollout.seed) == (7, 7)
    assert made.actor_rollout_ref.actor.fsdp_config.seed == 7


def test_a_machine_without_a_driver_of_gpus_does_not_import_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "driver"
    monkeypatch.setattr(hardware_module, "DRIVERS", (driver,))
    monkeypatch.setitem(sys.modules, "torch", None)  # so that its import fails
    found = hardware_module.this_machine.__wrapped__
    assert (found().gpus, found().cores) == (0, len(os.sched_getaffinity(0)))
    driver.touch()
    with pytest.raises(ImportError):
        found()


def test_hardware_that_is_named_brings_what_suits_it() -> None:
    made = configured("hardware=h200x2")
    assert (made.actor_rollout_ref.rollout.name, made.actor_rollout_ref.model.lora_rank) == ("vllm", 32)
    made = configured("hardware=cpu", hardware=ONE_GPU)
    assert (made.actor_rollout_ref.rollout.name, made.actor_rollout_ref.model.lora_rank) == ("transformers", 0)


@pytest.mark.parametrize(("typed", "context"), [([], 2560 + 2048), (["rollout.max_model_len=9000"], 9000)])
def test_the_rollout_has_memory_for_a_prompt_and_a_reply_and_not_for_the_models_whole_context(
    typed: list[str], context: int
) -> None:
    made = configured(*(f"actor_rollout_ref.{item}" for item in typed), hardware=ONE_GPU)
    assert made.actor_rollout_ref.rollout.max_model_len == context


def test_sglang_gets_the_token_that_verl_keeps_free_under_it_and_its_correction() -> None:
    made = configured(hardware=ONE_GPU, ROLLOUT_BACKEND="sglang", ENABLE_LORA="0")
    assert made.actor_rollout_ref.rollout.max_model_len == 2560 + 2048 + 1
    assert made.algorithm.rollout_correction.rollout_is == "token"


@pytest.mark.parametrize("hardware", ["h200x1", "h200x8", "rtx24g", "cpu"])
def test_verls_critic_computes_as_many_tokens_at_once_as_is_said(hardware: str, tmp_path: Path) -> None:
    named = f"actor_rollout_ref.model.path={build_tiny_model(tmp_path / 'model', seed=0)}"
    made = configured(f"hardware={hardware}", named, "critic.ppo_max_token_len_per_gpu=5000")
    # PPOTrainer passes this value to the critic's engine for inference and updates.
    assert omega_conf_to_dataclass(made.critic).ppo_infer_max_token_len_per_gpu == 5000


GPU_GROUPS = sorted(path.stem for path in (conf.CONFIG_DIR / "hardware").glob("*.yaml") if path.stem != "cpu")


@pytest.mark.parametrize("group", GPU_GROUPS)
@pytest.mark.parametrize("play", ["move", "episode"])
def test_actor_and_critic_pack_their_rows_on_every_gpu(group: str, play: str) -> None:
    made = conf.compose_configuration([f"hardware={group}", f"play={play}"])
    actor = made.actor_rollout_ref
    assert (actor.model.use_remove_padding, made.critic.model.use_remove_padding) == (True, True)
    longest = made.data.max_prompt_length + made.data.max_response_length
    for pack in (actor.actor.ppo_max_token_len_per_gpu, made.critic.ppo_max_token_len_per_gpu):
        # The pack fits one longest row, and is not much longer because the cost of torch's attention grows with it.
        assert longest <= pack < 6144
    # If the run starts its own Ray cluster, the number of Ray's logical CPUs is fixed.
    assert made.ray_kwargs.ray_init.num_cpus == (None if group == "multinode" else 64)


@pytest.mark.parametrize("environment", ["openspiel", "lgc-v2", "trace", "mixture"])
@pytest.mark.parametrize("group", ["rtx16g", "h200x1"])
def test_every_environment_fits_every_gpu_group(group: str, environment: str) -> None:
    check_lengths(
        conf.compose_configuration(
            [f"hardware={group}", f"environment={environment}", "actor_rollout_ref.rollout.max_model_len=9000"]
        )
    )


def test_two_nodes_divide_weights_within_each() -> None:
    made = configured("hardware=multinode")
    for settings in (
        made.actor_rollout_ref.actor.fsdp_config,
        made.actor_rollout_ref.ref.fsdp_config,
        made.critic.fsdp,
    ):
        assert settings.fsdp_size == made.trainer.n_gpus_per_node == 8
    # Gradients cross the network once per update.
    for settings in (made.actor_rollout_ref.actor.fsdp_config, made.critic.fsdp):
        assert settings.use_no_sync_for_gradient_accumulation


@pytest.mark.parametrize(
    ("typed", "workers"),
    [
        (["hardware=h200x8"], 8),
        (["hardware=multinode"], 16),
        (["hardware=multinode", "trainer.nnodes=4"], 32),
        (["hardware=multinode", "actor_rollout_ref.rollout.agent.num_workers=12"], 12),
    ],
)
def test_each_node_has_as_many_processes_that_play(typed: list[str], workers: int) -> None:
    assert configured(*typed).actor_rollout_ref.rollout.agent.num_workers == workers


def test_tokens_of_vllm_are_weighted_by_how_the_trainer_sees_them() -> None:
    for group in GPU_GROUPS:
        made = conf.compose_configuration([f"hardware={group}"])
        assert (made.actor_rollout_ref.rollout.name, made.algorithm.rollout_correction.rollout_is) == ("vllm", "token")
        assert not made.algorithm.rollout_correction.bypass_mode
    # Nothing is recomputed there, so there is nothing to correct.
    made = configured("hardware=h200x1", "start=made")
    assert made.algorithm.rollout_correction.bypass_mode
    assert configured().algorithm.rollout_correction.rollout_is is None


def test_whole_games_on_gpus_are_few_and_their_replies_short() -> None:
    made = configured("hardware=h200x1", "episode")
    assert (made.data.val_max_samples, made.data.max_response_length, made.data.train_batch_size) == (64, 512, 32)
    moves = configured("hardware=h200x1")
    assert (moves.data.val_max_samples, moves.data.max_response_length) == (512, 2048)


@pytest.mark.parametrize(
    ("gpus", "gib", "group"),
    [
        (0, 0, "cpu"),
        (1, 16, "rtx16g"),
        (1, 24, "rtx24g"),
        (1, 48, "rtx24g"),
        (2, 24, "rtx24g"),
        (1, 80, "h100x1"),
        (1, 141, "h200x1"),
        (2, 80, "h200x2"),
        (2, 40, "h200x2"),
        (8, 40, "h200x8"),
        (4, 48, "h200x4"),
        (4, 32, "rtx24g"),
        (7, 141, "h200x4"),
        (8, 80, "h200x8"),
    ],
)
def test_a_machine_chooses_what_fits_it(gpus: int, gib: int, group: str) -> None:
    # A card has slightly less memory than its nominal size.
    machine = Hardware(cores=16, gpus=gpus, gpu_bytes=int(gib * 0.985 * 2**30))
    assert machine.group == group
    for name, config, chosen in (("hardware", "rl", group), ("sft_hardware", "sft", machine.sft_group)):
        made = conf.compose_configuration([f"{name}={chosen}"], config)
        assert made.trainer.n_gpus_per_node <= max(gpus, 1)
    if gpus:
        made = configured(hardware=machine)
        check_memory(made, forecast(made, [f"hardware={group}"], machine), machine)


@pytest.mark.parametrize(
    ("gpus", "gib", "idle"), [(4, 24, 3), (8, 80, 0), (7, 141, 3), (6, 40, 2), (1, 24, 0), (2, 16, 1)]
)
def test_gpus_that_are_idle_are_said_with_what_uses_them(gpus: int, gib: int, idle: int) -> None:
    machine = Hardware(cores=16, gpus=gpus, gpu_bytes=int(gib * 0.985 * 2**30))
    said = idle_note(configured(hardware=machine), machine)
    if not idle:
        assert said is None
        return
    assert said is not None
    assert said.startswith(f"note: {idle} of {gpus} GPUs are idle: ")
    typed = said.partition("idle: ")[2].removesuffix(" uses them").split()
    made = configured(*typed, hardware=machine)  # which is checked
    assert made.trainer.n_gpus_per_node == gpus
    assert idle_note(made, machine) is None
    check_memory(made, forecast(made, [f"hardware={machine.group}"], machine), machine)


def test_attention_is_said_and_flash_attention_is_taken_where_it_can_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def implementations(*typed: str) -> set[str]:
        made = configured("hardware=h200x1", *typed)
        attention.check(made)
        models = (made.actor_rollout_ref.model, made.critic.model)
        return {model.override_config.attn_implementation for model in models}

    for fault, used in (
        (None, "flash_attention_2"),
        ("it is not installed", "sdpa"),
        ("undefined symbol: _Zx", "sdpa"),
    ):
        monkeypatch.setattr(attention, "flash_attention_fault", lambda fault=fault: fault)
        assert implementations() == {used}
        said = attention.described(configured("hardware=h200x1"))
        assert used in said
        assert (fault is None) or fault in said
    assert implementations("veritas_rl.attention=sdpa") == {"sdpa"}
    with pytest.raises(UserError, match=r"undefined symbol: _Zx.*set veritas_rl.attention=sdpa"):
        implementations("veritas_rl.attention=flash_attention_2")
    with pytest.raises(UserError, match=r"unknown veritas_rl.attention 'flash': .*sdpa"):
        implementations("veritas_rl.attention=flash")


@pytest.mark.parametrize(("hardware", "waits"), [("h200x1", True), ("h200x2", True), ("h200x4", False), ("cpu", False)])
def test_whole_models_wait_in_the_machines_memory_where_they_do_not_fit_beside_the_rollout(
    hardware: str, waits: bool
) -> None:
    made = configured(f"hardware={hardware}", "lora=off")
    for settings in (made.actor_rollout_ref.actor.fsdp_config, made.critic.fsdp):
        assert (settings.param_offload, settings.optimizer_offload) == (waits, waits)


def test_a_run_has_a_ray_of_its_own_unless_it_is_for_several_nodes() -> None:
    assert configured().ray_kwargs.ray_init.address == "local"
    assert configured("hardware=multinode").ray_kwargs.ray_init.address == "auto"


@pytest.mark.parametrize(
    ("typed", "sizes"),
    [
        ([], [64, 64]),
        (["data.train_batch_size=36"], [3, 3]),
        (["data.train_batch_size=34"], [17, 17]),
        (["veritas_rl.mini_batches.move=2"], [512, 512]),
        (["critic.ppo_mini_batch_size=8"], [64, 8]),
        (["play=episode"], [128, 128]),
    ],
)
def test_a_step_is_split_into_mini_batches_that_divide_it(typed: list[str], sizes: list[int]) -> None:
    made = configured(*typed)
    assert [made.actor_rollout_ref.actor.ppo_mini_batch_size, made.critic.ppo_mini_batch_size] == sizes


@pytest.mark.parametrize(
    ("games", "typed", "steps"),
    [
        ("othello", [], 7),
        ("othello,goofspiel", [], 14),
        ("tic_tac_toe", [], 48),
        ("othello,tic_tac_toe", [], 48),
        ("othello,hex(board_size=5)", [], 40),
        ("hex(board_size=5)", [], 40),
        ("othello", ["trainer.total_training_steps=40"], 40),
        ("othello", ["play=episode"], 40),
        ("othello", ["actor_rollout_ref.model.path=somewhere"], 40),
        ("othello", ["hardware=h200x1"], 500),
    ],
)
def test_a_game_may_have_a_number_of_steps_of_its_own(games: str, typed: list[str], steps: int) -> None:
    wanted = conf.overrides_for(typed, {"GAME_TYPES": games}, CPU)
    made = conf.compose_configuration(wanted)
    own = conf.step_overrides(made, wanted)
    assert own == ([] if steps in (40, 500) else [f"trainer.total_training_steps={steps}"])
    assert conf.compose_configuration([*wanted, *own]).trainer.total_training_steps == steps


@pytest.mark.parametrize("group", sorted(path.stem for path in (conf.CONFIG_DIR / "hardware").glob("*.yaml")))
@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
def test_every_group_composes(group: str, algorithm: str) -> None:
    overrides = [f"hardware={group}", f"algorithm={algorithm}", "lora=off", "rollout=transformers"]
    made = conf.compose_configuration(overrides)
    assert made.algorithm.adv_estimator == {"ppo": "gae", "grpo": "grpo"}[algorithm]
    assert made.data.train_batch_size % made.actor_rollout_ref.actor.ppo_mini_batch_size == 0


@pytest.mark.parametrize(
    ("typed", "environment", "message"),
    [
        ([f"{ADAPTER}.foo=1"], {}, "unknown openspiel setting 'foo': .*known: allowed_game_indices"),
        ([f"+{ADAPTER}.num_task_per_case=1"], {}, "did you mean num_tasks_per_case"),
        (["trainer.foo=1"], {}, "trainer.foo"),
        (["hardware=h300"], {}, "unknown hardware 'h300'"),
        (["foo"], {}, "foo"),
        ([], {"GAME_TYPES": "hexx"}, "did you mean"),
        ([], {"GAME_TYPES": "tic_tac_toe,nonsense"}, "nonsense"),
        ([f"{ADAPTER}.cases=['hex(board_size=99)']"], {}, "99"),
        ([f"{ADAPTER}.cases=[hex(board_size=5)]"], {}, r"its own quotes, such as .*\['hex\(board_size=5\)'\]"),
        ([f"{ADAPTER}.reward_mode=winning"], {}, "outcome"),
        (["data.custom_cls.config.env=chesss"], {}, "known: lgc-v2, openspiel, reasoning-gym, textarena, trace"),
        (["data.train_batch_size=100", "actor_rollout_ref.actor.ppo_mini_batch_size=32"], {}, "must be a multiple of"),
        (["trainer.logger=[console]"], {}, "must include file"),
        ([f"{ADAPTER}.opponent=mcts"], {}, "opponent=mcts needs mode=episode"),
        (["episode", f"{ADAPTER}.gamma=1.5"], {}, r"gamma must lie in \(0, 1\], 1.5 was given"),
        (["data.train_batch_size="], {}, "must be a positive integer"),
        (["hardware=h200x1", "hardware=rtx24g"], {}, "hardware=h200x1 and hardware=rtx24g exclude each other"),
        (
            ["hardware=h200x2", "actor_rollout_ref.rollout.tensor_model_parallel_size=4"],
            {},
            "size=4 must divide the 2 GPUs of a node: set it to 2",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(typed: list[str], environment: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        configured(*typed, hardware=CPU, **environment)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "environment", "message"),
    [
        (["hardware=h200x4"], {}, "needs 4 GPUs, and this machine has 0"),
        ([], {"ROLLOUT_BACKEND": "sglang", "ENABLE_LORA": "0"}, "rollout=sglang needs a GPU"),
        (
            ["hardware=h200x1"],
            {"ROLLOUT_BACKEND": "sglang", "ENABLE_LORA": "0"},
            "needs 1 GPUs, and this machine has 0",
        ),
    ],
)
def test_missing_devices_are_named(typed: list[str], environment: dict[str, str], message: str) -> None:
    made = configured(*typed, hardware=CPU, **environment)
    with pytest.raises(UserError, match=message):
        check_devices(made, CPU)


@pytest.mark.parametrize(("installed", "used"), [("vllm", "vllm"), ("another", "transformers")])
def test_a_rollout_that_is_not_installed_is_named(
    installed: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / installed).mkdir()
    (tmp_path / installed / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    said = f"rollout=sglang needs sglang, which is not installed: set ROLLOUT_BACKEND={used}"
    with pytest.raises(UserError, match=said):
        check_devices(configured(hardware=ONE_GPU, ROLLOUT_BACKEND="sglang", ENABLE_LORA="0"), ONE_GPU)


def test_a_flash_attn_that_was_built_for_another_torch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    symbol = "flash_attn_2_cuda.so: undefined symbol: _ZNK3c10"
    (tmp_path / "flash_attn.py").write_text(f"raise ImportError({symbol!r})")
    monkeypatch.syspath_prepend(tmp_path)
    attention.flash_attention_fault.cache_clear()
    try:
        assert attention.flash_attention_fault() == symbol
        with pytest.raises(UserError, match=rf"{symbol}.*veritas_rl\.attention=sdpa"):
            check_devices(
                configured("veritas_rl.attention=flash_attention_2", "rollout=transformers", hardware=ONE_GPU), ONE_GPU
            )
    finally:
        attention.flash_attention_fault.cache_clear()


@pytest.mark.parametrize(
    ("gib", "group", "message"),
    [
        (24, "h200x1", "of the 24.0 of this GPU, most of it for .*; set hardware=rtx24g for this machine; train/tools"),
        (48, "h200x1", "of the 48.0 of this GPU.*; set hardware=rtx24g for this machine"),
        (8, "rtx16g", "of the 8.0 of this GPU.*; set hardware=cpu to train a small model"),
        (141, "h200x1", "of the 141.0 of this GPU.*; it fits with .*gpu_memory_utilization=0[.0-9]*"),
    ],
)
def test_a_gpu_that_is_too_small_is_named(gib: int, group: str, message: str) -> None:
    machine = Hardware(cores=16, gpus=1, gpu_bytes=gib << 30)
    typed = [f"hardware={group}"] + ["actor_rollout_ref.rollout.gpu_memory_utilization=0.95"] * (gib == 141)

    def check(*more: str) -> None:
        made = configured(*typed, *more, hardware=machine)
        check_memory(made, forecast(made, typed, machine), machine)

    with pytest.raises(UserError, match=message) as caught:
        check()
    assert "\n" not in str(caught.value)
    check("veritas_rl.check_memory=false")


def test_a_gpu_takes_the_large_model_and_adapters() -> None:
    made: Any = configured(hardware=ONE_GPU)
    assert made.actor_rollout_ref.model.path == "Qwen/Qwen3-4B-Instruct-2507"
    assert made.actor_rollout_ref.rollout.name == "vllm"
    assert (made.actor_rollout_ref.model.lora_rank, made.actor_rollout_ref.actor.optim.lr) == (32, 6e-5)


def test_a_local_model_is_found_from_where_the_person_stands(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    name = "AGENT_MODEL_REPO_ID"
    assert conf.clean_environment({name: "model"}, tmp_path) == {name: str(tmp_path / "model")}
    assert conf.clean_environment({name: "Qwen/Qwen3-4B"}, tmp_path) == {name: "Qwen/Qwen3-4B"}


def test_an_empty_variable_is_an_unset_one(tmp_path: Path) -> None:
    assert conf.clean_environment({"AGENT_MODEL_REPO_ID": "", "WANDB_PROJECT": " ", "HOME": "/x"}, tmp_path) == {}


def test_the_cpu_settings_can_be_chosen_on_a_machine_with_gpus() -> None:
    made = configured("hardware=cpu", hardware=ONE_GPU)
    assert (made.trainer.device, made.actor_rollout_ref.rollout.name) == ("cpu", "transformers")
    assert made.actor_rollout_ref.model.lora_rank == 0


@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
def test_a_step_asks_as_many_prompts_as_suits_the_algorithm(algorithm: str) -> None:
    made = configured(ALGORITHM=algorithm)
    asked = made.data.train_batch_size, made.actor_rollout_ref.rollout.n
    assert asked == {"ppo": (1024, 1), "grpo": (128, 8)}[algorithm]


# Environments and recipes.


def envs_of(made: DictConfig, count: int = 100) -> dict[str, int]:
    """The number of the first tasks by environment."""
    return dict(Counter(task.env for task in conf.tasks_of(made, "train")[:count]))


def test_the_environment_is_a_group_and_brings_what_a_small_model_needs_of_it() -> None:
    games, programs = configured("environment=openspiel"), configured("environment=trace")
    assert (envs_of(games), envs_of(programs)) == ({"openspiel": 100}, {"trace": 100})
    task = conf.tasks_of(programs, "train")[0]
    assert (task.case, task.manner.prompt) == ("level_1", "brief")
    assert programs.data.max_response_length > games.data.max_response_length
    large = configured("environment=trace", hardware=ONE_GPU)
    assert (conf.tasks_of(large, "train")[0].manner.prompt, large.data.max_response_length) == ("full", 2048)


def test_environments_that_are_named_are_mixed_and_each_keeps_its_defaults() -> None:
    node = "data.custom_cls.config.environments"
    made = configured(f"{node}={{openspiel: {{weight: 2}}, trace: {{weight: 1, config: {{cases: [level_2]}}}}}}")
    assert 66 <= envs_of(made)["openspiel"] <= 67
    tasks = conf.tasks_of(made, "train")[:100]
    assert {task.case for task in tasks} == {"tic_tac_toe", "level_2"}
    assert {task.manner.prompt for task in tasks} == {"brief"}
    assert made.data.max_prompt_length == 2000
    third = configured(f"{node}={{openspiel: null, trace: null}}", f"+{node}.trace.weight=3")
    assert envs_of(third) == {"openspiel": 25, "trace": 75}


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("{trace: {weight: 0}}", "weight must be a number above 0"),
        ("{chess: {}}", "unknown environment 'chess'"),
        ("{trace: {config: {case: [level_1]}}}", "unknown trace setting 'case': did you mean cases"),
    ],
)
def test_a_mixture_that_cannot_work_is_one_line(node: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        configured(f"data.custom_cls.config.environments={node}")


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    """A recipe outside the repository."""
    folder = tmp_path / "my_recipe"
    folder.mkdir()
    (folder / "config.yaml").write_text(
        "defaults:\n  - override /algorithm: grpo\n  - override /lora: 'on'\n  - override /play: episode\n"
        "data: {val_max_samples: 3}\ntrainer: {save_freq: 5}\n"
    )
    return f"recipe={folder}"


def test_a_recipe_wins_over_the_machine_and_a_person_over_the_recipe(recipe: str) -> None:
    made = configured(recipe)
    assert (made.algorithm.adv_estimator, made.veritas_rl.play, made.actor_rollout_ref.model.lora_rank) == (
        "grpo",
        "episode",
        32,
    )
    # The recipe overrides the values 256 and 7 of hardware=cpu, which is still selected for this machine.
    assert (made.data.val_max_samples, made.trainer.save_freq, made.trainer.device) == (3, 5, "cpu")
    typed = configured(recipe, "play=move", "trainer.save_freq=6", ALGORITHM="ppo", ENABLE_LORA="0")
    assert (typed.algorithm.adv_estimator, typed.veritas_rl.play) == ("gae", "move")
    assert (typed.actor_rollout_ref.model.lora_rank, typed.trainer.save_freq, typed.data.val_max_samples) == (0, 6, 3)


def test_recipes_of_the_repository_go_by_name() -> None:
    made = configured("recipe=trace")
    assert (envs_of(made), made.algorithm.adv_estimator) == ({"trace": 100}, "grpo")
    assert configured("recipe=trace", ALGORITHM="ppo").algorithm.adv_estimator == "gae"
    for hardware in (Hardware(2, 0, 0), ONE_GPU):
        assert envs_of(configured("recipe=mixture", hardware=hardware)) == {"openspiel": 50, "lgc-v2": 25, "trace": 25}


def test_a_small_model_gets_the_easiest_puzzles_and_a_large_one_all() -> None:
    small, large = configured("recipe=lgc-v2"), configured("recipe=lgc-v2", hardware=ONE_GPU)
    assert small.algorithm.adv_estimator == large.algorithm.adv_estimator == "grpo"
    easy, of_all = conf.tasks_of(small, "train")[:40], conf.tasks_of(large, "train")
    assert {task.case for task in easy} == {"dyck_language_level_1", "dyck_language_level_2"}
    assert {task.manner.prompt for task in easy} == {"brief"}
    assert {task.manner.prompt for task in of_all[:20]} == {"full"}
    assert {task.case for task in of_all[:200]} == set(get_environment("lgc-v2").read_config({}).cases)
    harder = configured("recipe=lgc-v2", f"+{ADAPTER}.task_types=dyck_language", f"{ADAPTER}.levels=3")
    assert {task.case for task in conf.tasks_of(harder, "val")[:20]} == {"dyck_language_level_3"}


def test_a_curriculum_of_puzzles_goes_by_level_and_keeps_the_types() -> None:
    made = configured("recipe=lgc-v2", "data.custom_cls.config.curriculum={}", f"{ADAPTER}.levels=[1,5]")
    sources = open_sources(conf.dataset_settings(made), 0, -1)
    cases = {sources.next().task.case for _ in range(40)}
    assert cases == {"dyck_language_level_1", "dyck_language_level_2"}


@pytest.mark.parametrize("plus", ["", "+", "++"])
def test_the_names_of_older_recipes_are_understood(plus: str) -> None:
    made = configured(
        "recipe=lgc-v2",
        f"{plus}data.custom_cls.path=tools/dataset-manager.py",
        "data.custom_cls.name=LGCV2DynamicDataset",
        f"{plus}custom_reward_function.path=tools/reward-manager.py",
        "custom_reward_function.name=compute_lgc_v2_score",
    )
    dataset: Any = load_extern_object(made.data.custom_cls.path, made.data.custom_cls.name)
    reward = made.reward.custom_reward_function
    function: Any = load_extern_object(reward.path, reward.name)
    row = dataset("val", None, made.data)[0]
    (turn,) = get_environment("lgc-v2").start(task_of(row["extra_info"])).turns()
    truth = row["reward_model"]["ground_truth"]
    paid = [function(row["data_source"], said, truth, row["extra_info"])["score"] for said in (turn.solution, "((", "")]
    assert paid == [1, 0, 0]


def test_verls_own_process_loads_the_recipe_too(recipe: str, tmp_path: Path) -> None:
    run = plan([recipe], {}, CPU, datetime(2026, 1, 2, 3, 4, 5))
    command = [sys.executable, "-c", SHOW, *(item for item in run.command() if item.startswith("--config"))]
    done = subprocess.run([*command, *run.overrides], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["3", "grpo"], done.stderr


SHOW = """
import hydra

@hydra.main(version_base=None)
def main(made):
    print(made.data.val_max_samples, made.algorithm.adv_estimator)

main()
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tracer", "unknown recipe 'tracer': did you mean trace"),
        ("{folder}/none", "/none is not a recipe: it has no config.yaml"),
        ("{folder}/algorithm", "algorithm is not allowed as the name of a recipe's folder"),
    ],
)
def test_a_recipe_that_cannot_be_loaded_is_named(given: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "algorithm").mkdir()
    (tmp_path / "algorithm/config.yaml").touch()
    with pytest.raises(UserError, match=message):
        configured(f"recipe={given.format(folder=tmp_path)}")


def test_a_recipes_folder_is_found_from_where_the_person_stands(tmp_path: Path) -> None:
    typed = ["recipe=mine/one", "recipe=trace", "a=b/c", "recipe=/absolute"]
    assert absolute(typed, tmp_path) == [f"recipe={tmp_path}/mine/one", "recipe=trace", "a=b/c", "recipe=/absolute"]


@pytest.mark.parametrize(
    ("typed", "title", "replies"),
    [
        (("algorithm.adv_estimator='grpo'",), "GRPO", 8),
        (("algorithm=dapo", "algorithm.adv_estimator=grpo"), "DAPO", 8),
        (("algorithm=dapo", "algorithm.adv_estimator=rloo"), "rloo", 8),
        (("algorithm.adv_estimator=opo", "actor_rollout_ref.rollout.n=4", "trainer.critic_warmup=0"), "opo", 4),
    ],
)
def test_an_estimator_of_verl_chooses_its_algorithm(typed: tuple[str, ...], title: str, replies: int) -> None:
    made = configured(*typed)
    assert (made.veritas_rl.algorithm, made.actor_rollout_ref.rollout.n) == (title, replies)


def test_every_algorithm_is_a_value_of_the_variable_and_composes() -> None:
    assert {path.stem for path in (conf.CONFIG_DIR / "algorithm").glob("*.yaml")} == ALGORITHMS.keys()
    for name, hardware in zip(ALGORITHMS, itertools.cycle([CPU, ONE_GPU])):
        made = configured(hardware=hardware, ALGORITHM=name)
        alone = name in ("ppo", "rae", "reinforce_plus_plus", "all_actions", "neurd")
        assert (made.actor_rollout_ref.rollout.n == 1) == alone, name
        assert made.data.train_batch_size >= (128 if alone else 32)
