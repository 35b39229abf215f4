"""The checks before a run starts, and their messages."""

import dataclasses
import json
import re
import shlex
import sys
from collections import namedtuple
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    LlavaConfig,
    MixtralConfig,
    OPTConfig,
)

from veritas_rl.envs.registry import make_task
from veritas_rl.envs.task import Task
from veritas_rl.envs.trace.questions import form_of, split_of
from veritas_rl.errors import UserError
from veritas_rl.launch import machine_checks, model_checks, preflight
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.rl import RlRun, plan
from veritas_rl.launch.tiny_model import build_tiny_model
from veritas_rl.launch.variables import VARIABLES
from veritas_rl.planning.plan import Plan
from veritas_rl.players import language_model
from veritas_rl.players.language_model import load_language_model
from veritas_rl.players.loading import ModelFiles, load_model
from veritas_rl.verl_plugin import dropout
from veritas_rl.viewing.games_page import GAMES_FOLDER

CPU = Hardware(cores=2, gpus=0, gpu_bytes=0)
TRAINED = [text for n in range(9) if split_of(form_of(text := f"print({n})")) == "train"][:3]
AWKWARD = "it's {mine}, $HOME, ${x}, a\\b and a\\"
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def run(tmp_path: Path) -> RlRun:
    return plan([f"trainer.default_local_dir={tmp_path}/checkpoints"], {}, CPU, datetime(2026, 1, 2, 3, 4, 5))


def test_the_pinned_verl_passes() -> None:
    machine_checks.check_verl()


def test_another_verl_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "verl-0.8.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: verl\nVersion: 0.8.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(UserError, match=r"verl 0\.8\.0 is installed, but 0\.9\.1 is required"):
        machine_checks.check_verl()


def test_a_folder_without_a_model_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read") as caught:
        model_checks.check_model(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_model_folder_passes(tmp_path: Path) -> None:
    model_checks.check_model(str(build_tiny_model(tmp_path / "model", seed=0)))


def split_weights(folder: Path) -> list[Path]:
    """Save a model in several files with an index; return the files."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(str(folder), max_shard_size="300KB")
    return sorted(folder.glob("model-*.safetensors"))


@pytest.mark.parametrize("damage", ["none", "shard", "truncated"])
def test_a_half_written_model_is_named_before_a_run_and_before_an_evaluation(tmp_path: Path, damage: str) -> None:
    folder = build_tiny_model(tmp_path / "model", seed=0)
    if damage == "none":
        (folder / "model.safetensors").unlink()
        said = f"{folder} has no weights: it has no *.safetensors file"
    elif damage == "shard":
        shards = split_weights(folder)
        model_checks.check_model(str(folder))
        shards[1].unlink()
        said = f"{folder} lacks {shards[1].name}, which its index names: download or copy the model again"
    else:
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        said = f"{weights} is not a complete safetensors file (it is truncated)"
    for check in (lambda: model_checks.check_model(str(folder)), lambda: load_language_model(folder)):
        with pytest.raises(UserError, match=f"^{re.escape(said)}$"):
            check()


def test_a_model_with_only_bin_weights_is_refused_with_a_command_that_converts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_tiny_model(tmp_path / "it's mine", seed=0)
    state = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    said = ""
    for check in (lambda: model_checks.check_model(str(folder)), lambda: load_language_model(folder)):
        with pytest.raises(UserError, match="has no safetensors weights, which") as caught:
            check()
        said = str(caught.value)
        assert "\n" not in said
    words = shlex.split(said.partition("convert it with ")[2].rpartition(", and name ")[0])
    assert words[:2] == ["python", "-c"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["-c", *words[3:]])
    exec(words[2], {})
    converted = tmp_path / said.rpartition("and name ")[2]
    model_checks.check_model(str(converted))
    again, tokenizer = load_language_model(converted)
    assert all(torch.equal(tensor, state[name]) for name, tensor in again.state_dict().items())
    assert tokenizer.chat_template


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model_type": "no_such_type"}, "cannot be read (The checkpoint you are trying to load has model type"),
        ({"model_type": "vit"}, "transformers has no causal language model for"),
        (None, "cannot be read ("),
    ],
)
def test_a_model_of_an_unknown_architecture_is_named(
    tmp_path: Path, settings: dict[str, str] | None, said: str
) -> None:
    folder = build_tiny_model(tmp_path / "model", seed=0)
    (folder / "config.json").write_text("[" if settings is None else json.dumps(settings))
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        model_checks.check_model(str(folder))
    assert "\n" not in str(caught.value)


def test_weights_larger_than_memory_are_named(run: RlRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the run's memory cannot be forecast, because the model's family is unknown."""
    folder = build_tiny_model(tmp_path / "model", seed=0)
    machine_checks.check_memory(run.configuration, None, CPU, str(folder))
    machine = dataclasses.replace(machine_checks.this_machine(), memory=1000)
    monkeypatch.setattr(machine_checks, "this_machine", lambda: machine)
    said = r"the weights in .*model have 0\.0 GiB, and this machine has 0\.0: choose a smaller model"
    with pytest.raises(UserError, match=f"{said}; veritas_rl.check_memory=false skips this check"):
        machine_checks.check_memory(run.configuration, None, CPU, str(folder))
    with open_dict(run.configuration):
        run.configuration.veritas_rl.check_memory = False
    machine_checks.check_memory(run.configuration, None, CPU, str(folder))
    monkeypatch.setattr(language_model.os, "sysconf", lambda name: 1)
    with pytest.raises(UserError, match=f"{said}, or serve it on another machine and name its address"):
        load_language_model(folder)


def test_files_of_rows_are_refused_before_a_run() -> None:
    with pytest.raises(UserError, match=r"^data.train_files must be train"):
        plan(["data.train_files=rows.parquet"], {}, CPU, datetime(2026, 1, 2))


def test_modules_that_the_model_does_not_have_are_refused_before_a_run(tmp_path: Path, tiny_model: Path) -> None:
    typed = [f"trainer.default_local_dir={tmp_path}", f"actor_rollout_ref.model.path={tiny_model}", "lora=on"]
    run = plan([*typed, "critic.model.target_modules=[q_porj]"], {}, CPU, datetime(2026, 1, 2))
    with pytest.raises(UserError, match=r"^critic.model.target_modules names q_porj, but the linear layers"):
        run.check_model(tiny_model)


@pytest.mark.parametrize("made", [True, False])
def test_a_limit_that_no_answer_fits_is_refused(tmp_path: Path, tiny_model: Path, made: bool) -> None:
    typed = [f"trainer.default_local_dir={tmp_path}/checkpoints", "veritas_rl.evaluation=null", "trainer.test_freq=-1"]
    if not made:
        typed.append(f"actor_rollout_ref.model.path={tiny_model}")
    tokens = len(("\\boxed{", "0", "}", "<|im_end|>"))

    def start(limit: int) -> None:
        plan([*typed, f"data.max_response_length={limit}"], {}, CPU, datetime(2026, 1, 2)).check_start()

    start(tokens)
    with pytest.raises(
        UserError, match=rf"data.max_response_length={tokens - 1} is too short for any answer: the short"
    ):
        start(tokens - 1)


def test_tasks_without_known_answers_are_not_refused(tiny_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tasks = [make_task("openspiel", "tic_tac_toe", 3)]
    traced = [make_task("trace", "level_1", 3)]

    def check(limit: int, *catalogues: list[Task]) -> None:
        model_checks.check_replies(tokenizer, catalogues, "the.key", limit, enable_thinking=False)

    with pytest.raises(UserError, match=r"the\.key=2 is too short .* set the\.key to \d+ or more"):
        check(2, tasks, traced)
    check(200, tasks, traced)
    check(10, traced, tasks)  # one that fits is enough


def test_a_tokenizer_that_ends_turns_otherwise_is_warned_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build_tiny_model(tmp_path / "model", seed=0)
    assert model_checks.end_note(str(folder)) is None
    pad = AutoTokenizer.from_pretrained(folder).pad_token_id
    config = json.loads((folder / "generation_config.json").read_text()) | {"eos_token_id": pad}
    (folder / "generation_config.json").write_text(json.dumps(config))
    typed = [f"trainer.default_local_dir={tmp_path}/checkpoints", f"actor_rollout_ref.model.path={folder}"]
    plan([*typed, "veritas_rl.evaluation=null"], {}, CPU, datetime(2026, 1, 2)).check_start()
    said = f"the tokenizer of {folder} ends a turn with <|im_end|>, but its generation config with <|endoftext|>:"
    assert capsys.readouterr().out.count(said) == 1
    load_model(ModelFiles(folder), 4, 4).engine.close()
    assert capsys.readouterr().err.count(said) == 1
    # Without a file the generation config comes from config.json.
    (folder / "generation_config.json").unlink()
    assert model_checks.end_note(str(folder)) is None


def test_an_adapter_that_cannot_be_merged_is_not_continued(tiny_model: Path, tmp_path: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
    adapter = tmp_path / "adapter"
    settings = LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["lm_head"], task_type="CAUSAL_LM")
    get_peft_model(model, settings).save_pretrained(str(adapter))
    variables = {"LORA_ADAPTER_PATH": str(adapter), "ENABLE_LORA": "1"}
    typed = [f"actor_rollout_ref.model.path={tiny_model}", f"trainer.default_local_dir={tmp_path}/checkpoints"]
    with pytest.raises(
        UserError, match=r"adapter cannot be merged, because it also has whole weights \(modules_to_save"
    ):
        plan(typed, variables, CPU, datetime(2026, 1, 2))


@pytest.fixture
def one_question(tmp_path: Path) -> Path:
    """A model whose template accepts one question and nothing else."""
    folder = build_tiny_model(tmp_path / "model", seed=0)
    template = "{{ raise_exception('one question') if messages | length > 1 }}{{ messages[0].content }}"
    (folder / "chat_template.jinja").write_text(template)
    return folder


def test_a_template_that_does_not_show_the_prompts_of_a_run_is_named(one_question: Path) -> None:
    def tasks(context: str) -> list[Task]:
        return [make_task("openspiel", "tic_tac_toe", 3, mode="episode", context=context, opponent="random", seat=0)]

    model_checks.check_model(str(one_question))
    model_checks.check_prompts(str(one_question), [tasks("turn")])
    with pytest.raises(UserError, match=r"cannot answer tasks of openspiel: .* user, assistant, user \(one question\)"):
        model_checks.check_prompts(str(one_question), [tasks("turn"), tasks("conversation")])


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template; use a chat"),
        ("{{ raise_exception('give a system message') }}", r"roles user \(give a system message\)"),
        ("{{ messages[0].content + tools[0].name }}", r"cannot be used: .* roles user \(None has no element 0\)"),
    ],
)
def test_a_model_without_a_usable_template_is_no_model(one_question: Path, template: str | None, message: str) -> None:
    path = one_question / "chat_template.jinja"
    path.unlink() if template is None else path.write_text(template)
    with pytest.raises(UserError, match=message):
        model_checks.check_model(str(one_question))
    with pytest.raises(UserError, match=message):
        load_language_model(one_question)


def test_arguments_of_the_template_that_evaluation_does_not_give_are_refused(tmp_path: Path) -> None:
    given = ["+data.apply_chat_template_kwargs.reasoning_effort=low", f"trainer.default_local_dir={tmp_path}/out"]
    with pytest.raises(UserError, match=r"apply_chat_template_kwargs\.reasoning_effort is not supported"):
        plan(given, {}, CPU, datetime(2026, 1, 2, 3, 4, 5))
    with pytest.raises(UserError, match=r"apply_chat_template_kwargs=None must be settings: leave it out"):
        plan(["data.apply_chat_template_kwargs=null", *given[1:]], {}, CPU, datetime(2026, 1, 2, 3, 4, 5))


def test_a_model_that_reads_too_little_is_named(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "model", seed=0)
    limit = AutoConfig.from_pretrained(folder).max_position_embeddings
    model_checks.check_model(str(folder), limit)
    with pytest.raises(
        UserError, match=rf"a context of {limit} tokens, and the run needs {limit + 1}: set data.max_prompt_length"
    ):
        model_checks.check_model(str(folder), limit + 1)


def test_a_home_that_cannot_be_written_is_named(run: RlRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    machine_checks.check_token(run.configuration)
    monkeypatch.setenv("HOME", "/proc/none")
    with pytest.raises(UserError, match=r"^/proc is not writable .*, and Ray keeps its token in ~/.ray: set HOME to"):
        machine_checks.check_token(run.configuration)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    machine_checks.check_token(run.configuration)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    machine_checks.check_token(run.configuration)


def test_a_full_disk_is_named(run: RlRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_checks.check_disk(run.configuration, None)
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda path: Usage(10 << 30, 10 << 30, 100 << 20))
    with pytest.raises(UserError, match=r"0\.1 GiB free, and the checkpoints need 1\.0"):
        machine_checks.check_disk(run.configuration, None)


@pytest.mark.parametrize(("validated", "refused"), [(True, True), (False, False)])
def test_a_run_says_before_it_starts_which_programs_of_a_file_are_not_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], validated: bool, refused: bool
) -> None:
    own = tmp_path / "own.jsonl"
    # A hash of their text sends all three that can be asked to training.
    own.write_text("".join(json.dumps({"program": text}) + "\n" for text in (*TRAINED, "print(1 / 0)")))
    off = ["veritas_rl.warm_up=null", "veritas_rl.evaluation=null", "trainer.test_freq=-1"]
    typed = ["environment=trace", f"data.custom_cls.config.adapter_config.cases=['programs:{own}']"]
    typed += [f"trainer.default_local_dir={tmp_path}/checkpoints", *([] if validated else off)]
    run = plan(typed, {}, CPU, datetime(2026, 1, 2, 3, 4, 5))
    assert "not asked" not in capsys.readouterr().out
    if refused:
        with pytest.raises(UserError, match="none of the 3 programs that can be asked belongs to validation"):
            run.check_start()
    else:
        run.check_start()
        assert capsys.readouterr().out.count("1 of 4 programs is not asked: line 4: it ends with ZeroDivision") == 1


def planned(tmp_path: Path, gpu_bytes: int, *typed: str) -> tuple[DictConfig, Plan | None]:
    """A run of Qwen3-4B on one GPU with `gpu_bytes` of memory, and its forecast."""
    machine = Hardware(cores=8, gpus=1, gpu_bytes=gpu_bytes)
    named = ["actor_rollout_ref.model.path=Qwen/Qwen3-4B-Instruct-2507", "hardware=h200x1"]
    made = plan([f"trainer.default_local_dir={tmp_path}/checkpoints", *named, *typed], {}, machine, datetime.now())
    return made.configuration, machine_checks.forecast(made.configuration, made.overrides, machine)


def test_a_large_model_needs_a_large_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda path: Usage(1 << 40, 0, 100 << 30))
    # Four checkpoints of actor and critic, with 12 bytes for each of 4 billion parameters.
    with pytest.raises(UserError, match="the checkpoints need 36"):
        machine_checks.check_disk(*planned(tmp_path, 140 << 30, "lora=off"))
    machine_checks.check_disk(*planned(tmp_path, 140 << 30))


def test_nothing_is_said_of_a_model_that_is_not_known(run: RlRun, tmp_path: Path) -> None:
    with open_dict(run.configuration):
        run.configuration.actor_rollout_ref.model.path = str(tmp_path)
    assert machine_checks.forecast(run.configuration, run.overrides, CPU) is None
    machine_checks.check_memory(run.configuration, None, CPU)


def test_the_command_and_its_environment_hold_what_verl_needs(run: RlRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert run.command()[1:3] == ["-m", "verl.trainer.main_ppo"]
    environment = run.environment()
    assert environment["VERL_PLATFORM"] == "cpu"
    assert environment["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # and a setting wins over it
    assert run.environment()["OMP_NUM_THREADS"] == "1"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert environment["VERL_FILE_LOGGER_PATH"].endswith("metrics.jsonl")
    assert environment[GAMES_FOLDER] == str(run.games)
    with open_dict(run.configuration):
        run.configuration.actor_rollout_ref.model.path = "a model that was not generated"
    assert run.environment()["OMP_NUM_THREADS"] == "2"
    for given, used in (("3", "3"), ("3,1", "3"), ("all", "2"), ("0", "2")):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert run.environment()["OMP_NUM_THREADS"] == used


def test_rays_workers_get_the_variables_of_a_run_and_no_secret(run: RlRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable.name, raising=False)
    monkeypatch.setenv("WANDB_PROJECT", AWKWARD)
    monkeypatch.setenv("WANDB_API_KEY", "key-secret")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    command = run.command()
    assert not any("secret" in item for item in command)
    said = OverridesParser.create().parse_override(command[-1])
    assert said.key_or_group == "ray_kwargs.ray_init.runtime_env.env_vars"
    given: Any = said.value()
    # OmegaConf resolves the value after Hydra has parsed it.
    assert OmegaConf.to_container(
        OmegaConf.create({str(name): value for name, value in given.items()}), resolve=True
    ) == {
        **run.environment(),
        "WANDB_PROJECT": AWKWARD,
    }


WHOLE = ["play=episode", "data.custom_cls.config.curriculum=null", "data.custom_cls.config.failure_replay=null"]
KUHN = "data.custom_cls.config.adapter_config.game_types=kuhn_poker"


@pytest.mark.parametrize(
    ("variables", "typed", "said"),
    [
        ({"LAYERED_SUMMON": "1"}, [], "LAYERED_SUMMON=1 needs adapters"),
        ({"LAYERED_SUMMON": "1", "ENABLE_LORA": "1"}, [], "LAYERED_SUMMON=1 needs rollout=vllm"),
        ({"ROLLOUT_BACKEND": "sglang", "ENABLE_LORA": "1"}, [], "cannot send adapters to its pinned SGLang 0.5.12"),
        (
            {"ENABLE_LORA": "1"},
            ["actor_rollout_ref.model.lora.merge=true"],
            "actor_rollout_ref.model.lora.merge=true is not supported",
        ),
        ({"GPU_MEMORY_UTILIZATION": "0.5"}, [], "GPU_MEMORY_UTILIZATION has no effect with rollout=transformers"),
        *(
            (
                {"ENABLE_LORA": "1"},
                [f"actor_rollout_ref.model.target_modules={targets}"],
                f"actor_rollout_ref.model.target_modules includes {named}, and an adapter of embeddings or the head",
            )
            for targets, named in (
                ("[q_proj,lm_head]", "lm_head"),
                ("[model.embed_tokens,q_proj]", "model.embed_tokens"),
                ("'.*_(proj|head)'", "lm_head"),
            )
        ),
        ({"FSDP_STRATEGY": "fsdp"}, [], "needs a GPU"),
        ({"ALGORITHM": "foo"}, [], "ALGORITHM=foo is not supported: set it to one of all_actions, cispo, dapo"),
        ({"ENABLE_LORA": "maybe"}, [], "ENABLE_LORA=maybe is not supported"),
        ({"LORA_ADAPTER_PATH": "/no/such/adapter", "ENABLE_LORA": "1"}, [], "/no/such/adapter is not an adapter"),
        ({"RESUME_FROM": "/no/such/global_step_3"}, [], "the checkpoint /no/such/global_step_3 does not exist"),
        ({}, ["data.train_batch_size=10", "actor_rollout_ref.actor.ppo_mini_batch_size=4"], "must be a multiple of"),
        ({}, ["trainer.n_gpus_per_node=3"], "is not divisible into 3 ranks"),
        (
            {},
            ["trainer.n_gpus_per_node=2", "data.train_batch_size=16"],
            "data.train_batch_size to a multiple of 32, or",
        ),
        (
            {},
            ["data.max_response_length=40000"],
            "actor.ppo_max_token_len_per_gpu=32768 is too small for one prompt and reply",
        ),
        (
            {},
            ["actor_rollout_ref.rollout.max_model_len=1000"],
            "max_model_len=1000 is too small for one prompt and reply",
        ),
        ({}, ["critic.ppo_max_token_len_per_gpu=9"], "critic.ppo_max_token_len_per_gpu=9 is too small for one prompt"),
        ({}, ["trainer.total_training_steps=null"], "trainer.total_training_steps=None must be a positive integer"),
        ({"ALGORITHM": "grpo"}, ["actor_rollout_ref.rollout.n=1"], "adv_estimator=grpo compares several samples"),
        ({}, ["actor_rollout_ref.rollout.temperature=0"], "actor_rollout_ref.rollout.temperature=0 cannot be used"),
        ({}, ["actor_rollout_ref.actor.optim.clip_grad=0"], "actor.optim.clip_grad=0 cannot be used"),
        ({}, ["veritas_rl.reference=last"], "veritas_rl.reference=last must be start, checkpoint or average"),
        ({}, ["veritas_rl.reference=checkpoint"], "veritas_rl.reference=checkpoint needs a KL term"),
        ({}, ["veritas_rl.reference=average"], "veritas_rl.reference=average needs a KL term"),
        (
            {},
            ["veritas_rl.reference=average", "veritas_rl.reference_decay=1"],
            "veritas_rl.reference_decay=1 must be above 0 and below 1",
        ),
        (
            {"ENABLE_LORA": "1"},
            ["veritas_rl.reference=checkpoint", "actor_rollout_ref.actor.use_kl_loss=true"],
            "veritas_rl.reference=checkpoint needs ENABLE_LORA=0",
        ),
        ({"ALGORITHM": "rae"}, ["algorithm.use_kl_in_reward=true"], "use_kl_in_reward needs ALGORITHM=ppo"),
        ({"ALGORITHM": "all_actions"}, ["actor_rollout_ref.rollout.n=2"], "all_actions samples no replies: set"),
        ({"ALGORITHM": "all_actions"}, ["veritas_rl.length_penalty=0.2"], "leave veritas_rl.length_penalty out"),
        ({"ALGORITHM": "all_actions"}, ["environment=lgc-v2"], "cannot be listed: set algorithm=grpo"),
        ({"ALGORITHM": "neurd"}, ["episode"], "go by: set data.custom_cls.config.curriculum=null"),
        ({"ALGORITHM": "all_actions"}, WHOLE, "to all decisions of both seats: set adapter_config.opponent=self"),
        (
            {"ALGORITHM": "all_actions"},
            [*WHOLE, "data.custom_cls.config.adapter_config.opponent=self", KUHN],
            "would repeat them: set it to 1",
        ),
        (
            {},
            ["episode", "+data.custom_cls.config.curriculum.stages=[{name: a, opponent: mtcs}]"],
            "unknown player 'mtcs'",
        ),
        (
            {},
            ["episode", "data.custom_cls.config.adapter_config.opponent=checkpoint:nobody"],
            "no player 'nobody': there is no such folder",
        ),
        (
            {},
            ["episode", "data.custom_cls.config.adapter_config.past_opponent_share=1.5"],
            "past_opponent_share must lie in [0, 1], 1.5 was given",
        ),
        ({}, ["data.custom_cls.config.failure_replay={capacity: 0}"], "failure_replay.capacity must be a whole number"),
        (
            {},
            ["+data.custom_cls.config.curriculum.stages=[{name: a, cases: []}]"],
            "stage a has no task: set cases or game_list",
        ),
        ({}, ["veritas_rl.games_to_show=-1"], "veritas_rl.games_to_show=-1 must be an integer"),
        # Every stage of the curriculum has its own opponent; only validation uses this one.
        ({}, ["episode", "data.custom_cls.config.adapter_config.opponent=bananas"], "unknown player 'bananas'"),
        ({}, ["episode", "veritas_rl.evaluation.opponents=[random,mtcs]"], "no player 'mtcs': there is no such folder"),
        ({}, ["episode", "veritas_rl.evaluation.opponents=[mcts:many]"], "unknown player 'mcts:many'"),
        ({}, ["episode", "veritas_rl.evaluation.opponents=[]"], "evaluation.opponents=[] must be a list of players"),
        ({}, ["episode", "veritas_rl.evaluation.opponents=random"], "opponents=random must be a list of players"),
        (
            {},
            ["++veritas_rl.evaluation=null", "++veritas_rl.evaluation={positions:300,opponents:[random]}"],
            "veritas_rl.evaluation needs draws, as in train/verl/config/start/made.yaml",
        ),
        (
            {},
            ["episode", "veritas_rl.evaluation=true"],
            "veritas_rl.evaluation needs games and opponents and draws, as",
        ),
        (
            {"AGENT_MODEL_REPO_ID": "Qwen/Qwen3-4B"},
            ["hardware=h200x1", "veritas_rl.evaluation.opponents=[random]"],
            "veritas_rl.evaluation is null here, so there is no veritas_rl.evaluation.opponents: leave it out, or set "
            "veritas_rl.evaluation as a whole",
        ),
        ({}, ["trainer.resume_mode=maybe"], "trainer.resume_mode=maybe is not supported: set it to auto, disable or"),
    ],
)
def test_impossible_settings_are_refused(variables: dict[str, str], typed: list[str], said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        plan(typed, variables, CPU, datetime(2026, 1, 2, 3, 4, 5))


def test_a_trainer_of_verls_own_is_refused(run: RlRun) -> None:
    for mode in ("colocate_async", "sync"):
        with open_dict(run.configuration):
            run.configuration.trainer.v1.trainer_mode = mode
        with pytest.raises(
            UserError, match=rf"trainer_mode={mode} cannot play games: .* game_async \(verl's colocate_async\)"
        ):
            preflight.check_trainer(run.configuration)


def test_games_are_not_thrown_away(run: RlRun) -> None:
    with open_dict(run.configuration):
        run.configuration.trainer.v1.trainer_mode = "game_async"
        preflight.check_trainer(run.configuration)
        run.configuration.trainer.v1.sampler.max_off_policy_strategy = "drop"
    with pytest.raises(UserError, match="max_off_policy_strategy=drop would drop games"):
        preflight.check_trainer(run.configuration)


def test_dropout_is_turned_off_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build_tiny_model(tmp_path / "model", seed=0)
    assert model_checks.dropout_note(str(folder), None) is None
    settings = json.loads((folder / "config.json").read_text()) | {"attention_dropout": 0.2}
    (folder / "config.json").write_text(json.dumps(settings))
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"lora_dropout": 0.05}')
    said = model_checks.dropout_note(str(folder), str(adapter))
    assert said is not None
    assert "attention_dropout=0.2, lora_dropout=0.05 of the model is set to 0" in said
    typed = [f"trainer.default_local_dir={tmp_path}/checkpoints", f"actor_rollout_ref.model.path={folder}"]
    named = plan([*typed, "trainer.test_freq=-1", "veritas_rl.evaluation=null"], {}, CPU, datetime(2026, 1, 2))
    named.check_start()
    assert "dropout is off in RL" in capsys.readouterr().out
    for node in ("actor_rollout_ref", "critic"):
        override = f"+{node}.model.override_config.attention_dropout=0.1"
        with pytest.raises(UserError, match=re.escape(f"{override[1:]} cannot be used: rollout and reference have no")):
            plan([*typed, override], {}, CPU, datetime(2026, 1, 2))


def test_every_random_setting_of_a_model_is_found() -> None:
    config = GPT2Config(resid_pdrop=0.1, embd_pdrop=0.0, attn_pdrop=0.2, summary_first_dropout=0)
    assert dropout.found(config) == {"resid_pdrop": 0.1, "attn_pdrop": 0.2}
    inner = LlavaConfig(text_config={"model_type": "llama", "attention_dropout": 0.1})
    assert dropout.typed(dropout.found(inner)) == ["text_config.attention_dropout=0.1"]
    assert dropout.found(OPTConfig(layerdrop=0.3, dropout=0)) == {"layerdrop": 0.3}
    assert dropout.found(MixtralConfig(router_jitter_noise=0.1)) == {"router_jitter_noise": 0.1}
