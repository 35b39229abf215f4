"""Planned runs of supervised fine-tuning from command lines, and the errors before a run starts."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import torch
from published_templates import tokenizer_of
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from veritas_rl.checkpoints.adapter import weights_fingerprint
from veritas_rl.checkpoints.layout import CheckpointInfo, LoraInfo, write_info
from veritas_rl.datasets.rows import sft_row, write_parquet
from veritas_rl.demonstrations import dataset
from veritas_rl.envs.trace.injection import MOST_PRINTS
from veritas_rl.errors import UserError
from veritas_rl.launch import sft
from veritas_rl.launch.hardware import Hardware
from veritas_rl.launch.machine_checks import sft_forecast
from veritas_rl.launch.sft_data import check_rows, demonstration_settings, opened
from veritas_rl.launch.tiny_model import build_tiny_model, byte_tokenizer

CPU, GPUS = Hardware(2, 0, 0), Hardware(16, 2, 141 << 30)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The overrides for files with 300 rows to train on and 70 rows to measure the loss on."""
    rows = [
        sft_row([{"role": "user", "content": "x" * (index % 50)}], "y", "game", {"index": index})
        for index in range(370)
    ]
    write_parquet(tmp_path / "train.parquet", rows[:300])
    write_parquet(tmp_path / "val.parquet", rows[300:])
    return [
        *(f"data.{name}_files={tmp_path}/{name}.parquet" for name in ("train", "val")),
        f"trainer.default_local_dir={tmp_path}/checkpoints",
    ]


def plan(
    typed: list[str], hardware: Hardware = CPU, variables: dict[str, str] | None = None, *, dry: bool = False
) -> sft.SftRun:
    return sft.plan(typed, variables or {}, hardware, datetime(2026, 1, 2, 3, 4, 5), dry=dry)


def test_a_cpu_gets_a_small_model_in_fp32(files: list[str]) -> None:
    run = plan(files)
    made: Any = run.configuration
    assert (made.model.path, made.trainer.device, made.engine.dtype) == (None, "cpu", "float32")
    assert made.engine.mixed_precision.param_dtype == "fp32"
    assert run.environment()["VERL_PLATFORM"] == "cpu"
    assert "--nproc_per_node=1" in run.command()


def test_gpus_get_the_settings_that_users_know(files: list[str]) -> None:
    run = plan(files, GPUS)
    made: Any = run.configuration
    assert (made.data.train_batch_size, made.data.micro_batch_size_per_gpu, made.data.max_length) == (32, 8, 2048)
    assert (made.optim.lr, list(made.optim.betas), made.optim.weight_decay) == (2e-6, [0.9, 0.98], 0.05)
    assert (made.trainer.total_epochs, made.trainer.save_freq, made.trainer.test_freq) == (10, 50, 50)
    assert made.model.path == "Qwen/Qwen3-4B-Instruct-2507"
    assert "--nproc_per_node=2" in run.command()
    assert "VERL_PLATFORM" not in run.environment()


def test_a_run_has_as_many_steps_as_its_epochs_have_or_as_are_typed(files: list[str]) -> None:
    # 300 rows give 4 full batches of 64.
    assert plan(files).configuration.trainer.total_training_steps == 40
    assert plan([*files, "trainer.n_gpus_per_node=2"]).configuration.trainer.total_training_steps == 40
    typed = plan([*files, "trainer.total_training_steps=50"]).configuration.trainer
    assert (typed.total_training_steps, typed.total_epochs) == (50, 13)


def test_without_validation_files_no_loss_is_measured_on_them(files: list[str]) -> None:
    assert plan(files).configuration.trainer.test_freq == 50
    assert plan([*files, "data.val_files=null"]).configuration.trainer.test_freq == -1


@pytest.mark.parametrize(
    ("typed", "variables", "message"),
    [
        (["data.train_files=/no/train.parquet"], {}, "generate_demonstrations.py --output /no,"),
        (["data.messages_key=talk"], {}, "has no column talk, only data_source, prompt"),
        (["data.train_batch_size=71"], {}, "data.val_files has 70 rows, less than a batch of 71"),
        (["data.train_batch_size=512"], {}, "data.train_files has 300 rows, less than a batch of 512"),
        (["trainer.n_gpus_per_node=3"], {}, "data.train_batch_size=64 must be a multiple of the 3 ranks"),
        (["data.use_dynamic_bsz=false", "data.micro_batch_size_per_gpu=24"], {}, "is not divisible into micro-batches"),
        (["trainer.total_epochs=0"], {}, "trainer.total_epochs=0 must be a positive integer"),
        (["data.truncation=middle"], {}, "data.truncation=middle is not supported: set it to error, left, right"),
        (["data.pad_mode=right"], {}, "data.pad_mode=right is not supported"),
        (["data.ignore_input_ids_mismatch=true"], {}, "data.ignore_input_ids_mismatch has no effect"),
        (["data.enable_thinking_default=true"], {}, "set data.apply_chat_template_kwargs.enable_thinking"),
        (["+data.apply_chat_template_kwargs.date=x"], {}, "data.apply_chat_template_kwargs.date is not supported"),
        (["+data.apply_chat_template_kwargs.enable_thinking=yes"], {}, "enable_thinking=yes must be true or false"),
        (["trainer.logger=[console]"], {}, "trainer.logger must include file"),
        (["algorithm=grpo"], {}, "algorithm=grpo works only with RL"),
        (["optim.clip_grad=-1"], {}, "optim.clip_grad=-1 cannot be used: set it to a number above 0, or inf"),
        (["+optim.grad_clip=1"], {}, "optim.grad_clip is an old name: set optim.clip_grad"),
        (["hardware=multinode"], {}, "hardware=multinode does not exist"),
        (["no_such_key=1"], {}, "unknown configuration key no_such_key"),
        (
            ["model.target_modules=[q_proj,lm_head]"],
            {"ENABLE_LORA": "1"},
            "model.target_modules includes lm_head, and an adapter of embeddings or the head cannot be merged",
        ),
        (["lora=some"], {}, "lora=some does not exist for supervised fine-tuning: use one of off, on"),
        ([], {"ENABLE_LORA": "maybe"}, "ENABLE_LORA=maybe is not supported"),
        ([], {"LORA_ADAPTER_PATH": "no-adapter"}, "no-adapter is not an adapter"),
        ([], {"FSDP_STRATEGY": "ddp"}, "FSDP_STRATEGY=ddp is not supported"),
        ([], {"RESUME_FROM": "none/global_step_3"}, "the checkpoint none/global_step_3 does not exist"),
    ],
)
def test_impossible_settings_are_one_line(
    files: list[str], typed: list[str], variables: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError) as error:
        plan([*files, *typed], CPU, variables)
    assert message in str(error.value)


def test_variables_of_rl_that_sft_has_no_use_for_change_nothing(files: list[str]) -> None:
    unused = {"GAME_TYPES": "hex", "ALGORITHM": "grpo", "ROLLOUT_BACKEND": "vllm"}
    plain = plan(files)
    assert plan(files, CPU, unused).overrides == plain.overrides
    assert plan(files, CPU, {"FSDP_STRATEGY": "fsdp"}).configuration.engine.strategy == "fsdp"


@pytest.mark.parametrize(("typed", "variables"), [([], {"ENABLE_LORA": "1"}), (["lora=on"], {"ENABLE_LORA": "0"})])
def test_adapters_have_a_rate_of_their_own(files: list[str], typed: list[str], variables: dict[str, str]) -> None:
    whole, made = plan(files, GPUS).configuration, plan([*files, *typed], GPUS, variables).configuration
    assert (whole.model.lora_rank, whole.optim.lr) == (0, 2e-6)
    assert (made.model.lora_rank, made.optim.lr, made.checkpoint.save_lora_only) == (32, 2e-4, True)
    small = plan([*files, *typed], CPU, variables).configuration
    assert small.optim.lr > made.optim.lr
    own = plan([*files, *typed, "optim.lr=3e-4", "model.lora_rank=8"], GPUS, variables).configuration
    assert (own.optim.lr, own.model.lora_rank) == (3e-4, 8)


def adapter(folder: Path, rank: int = 4, alpha: int = 8) -> Path:
    """An adapter of one module, in PEFT's format."""
    folder.mkdir()
    settings = {"r": rank, "lora_alpha": alpha, "base_model_name_or_path": "base"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    factors = {"A": torch.zeros(rank, 6), "B": torch.zeros(6, rank)}
    name = "base_model.model.model.layers.0.mlp.up_proj.lora_{}.weight"
    save_file({name.format(which): value for which, value in factors.items()}, folder / "adapter_model.safetensors")
    return folder


def test_fine_tuning_goes_on_from_an_adapter_with_what_it_fixes(files: list[str], tmp_path: Path) -> None:
    begun = adapter(tmp_path / "adapter")
    variables = {"LORA_ADAPTER_PATH": str(begun)}
    with pytest.raises(UserError, match="needs its base model: set AGENT_MODEL_REPO_ID to base"):
        plan(files, CPU, variables)
    typed = [*files, "model.path=base"]
    model = plan(typed, CPU, variables).configuration.model
    assert (model.lora_rank, model.lora_alpha, list(model.target_modules)) == (4, 8, ["up_proj"])
    for override, said in {
        "lora_rank=8": "lora_rank=4",
        "target_modules=[q_proj]": r"target_modules=\['up_proj'\]",
    }.items():
        with pytest.raises(UserError, match=f"has {said}, so model.{override.partition('=')[0]}=.* has no effect"):
            plan([*typed, f"model.{override}"], CPU, variables)
    for off, more in ((["lora=off"], {}), ([], {"ENABLE_LORA": "0"})):
        with pytest.raises(
            UserError, match=r"trains an adapter, and lora=off .* every parameter: leave one of them out"
        ):
            plan([*typed, *off], CPU, variables | more)


def test_a_checkpoint_with_only_adapters_needs_less_disk(files: list[str], tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "model", seed=0)

    def checkpoint(*typed: str) -> int:
        run = plan([*files, f"model.path={model}", *typed])
        forecast = sft_forecast(run.configuration, run.overrides, CPU)
        assert forecast is not None
        return sum(forecast.checkpoint().values())

    weights = 4 * sum(tensor.numel() for tensor in load_file(model / "model.safetensors").values())
    saved = checkpoint("lora=on", "+checkpoint.save_lora_only=false") - checkpoint("lora=on")
    assert saved == pytest.approx(weights, rel=0.05)


def test_a_dry_run_needs_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    run = plan(["data.train_files=/no/train.parquet", "hardware=h200x4"], GPUS, dry=True)
    assert "/no/train.parquet does not exist" in capsys.readouterr().err
    assert run.configuration.trainer.n_gpus_per_node == 4


def test_demonstrations_of_puzzles_are_made_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dataset, "EVALUATION_TASKS", 40)
    named = [f"data.{name}_files={tmp_path}/made/{name}.parquet" for name in ("train", "val")]
    typed = ["recipe=lgc-v2-sft", *named, f"trainer.default_local_dir={tmp_path}/checkpoints"]
    few = [*typed, "veritas_rl.demonstrations.number=80", "data.train_batch_size=8"]
    plan(few, dry=True)
    assert not (tmp_path / "made").exists()
    run = plan(few)
    assert (run.data.train_rows, run.data.val_rows) == (72, 8)
    assert "generating 80 demonstrations of lgc-v2" in capsys.readouterr().err
    assert {row["env"] for row in run.data.column("extra_info")} == {"lgc-v2"}
    assert {row["prompt"] for row in run.data.column("extra_info")} == {"brief"}
    # A small model gets the easiest puzzles, a larger one all of them.
    assert {row["case"] for row in run.data.column("extra_info")} == {"dyck_language_level_1", "dyck_language_level_2"}
    assert plan([*few, "hardware=h200x1"], GPUS, dry=True).configuration.veritas_rl.demonstrations.cases == ""
    made = (tmp_path / "made/train.parquet").read_bytes()
    plan(few)
    assert (tmp_path / "made/train.parquet").read_bytes() == made
    assert capsys.readouterr().err == ""
    assert plan([*few, "veritas_rl.demonstrations.env=trace"]).data.train_rows == 72
    assert f"note: {tmp_path}/made/train.parquet has rows of lgc-v2, but none of trace" in capsys.readouterr().err
    own = f"data.train_files={tmp_path}/own/mine.parquet"
    with pytest.raises(UserError, match=r"generate_demonstrations\.py --env lgc-v2 --output .*/own"):
        plan([*typed, own])


def test_the_few_demonstrations_that_are_too_long_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dataset, "EVALUATION_TASKS", 40)
    model = build_tiny_model(tmp_path / "model", seed=0)
    asked = [f"veritas_rl.demonstrations.{setting}" for setting in ("env=trace", "cases=level_1", "number=200")]

    def made(name: str, limit: int) -> sft.SftRun:
        files = [f"data.{part}_files={tmp_path}/{name}/{part}.parquet" for part in ("train", "val")]
        typed = [*files, *asked, f"model.path={model}", f"data.max_length={limit}", "data.train_batch_size=8"]
        return plan([*typed, f"trainer.default_local_dir={tmp_path}/checkpoints"])

    whole, tokenizer = made("whole", 4096), AutoTokenizer.from_pretrained(model)
    rows = opened(whole.configuration, [*whole.data.train, *whole.data.val], tokenizer)
    lengths = sorted(len(rows.learned(index).ids) for index in range(len(rows)))
    assert lengths[-1] > lengths[-2] > lengths[-20]
    fitting = made("fitting", lengths[-2])
    assert fitting.data.train_rows + fitting.data.val_rows == 199
    assert f"note: 1 of them have more tokens than data.max_length={lengths[-2]}" in capsys.readouterr().err
    check_rows(fitting.configuration, fitting.data, tokenizer)
    short = made("short", lengths[-20])
    with pytest.raises(UserError, match=f"a demonstration has {lengths[-1]} tokens"):
        check_rows(short.configuration, short.data, tokenizer)


def test_demonstrations_of_whole_games_are_moves_against_the_opponent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset, "EVALUATION_TASKS", 40)
    named = [f"data.{name}_files={tmp_path}/made/{name}.parquet" for name in ("train", "val")]
    asked = {"env": "openspiel", "cases": "'hex(board_size=3)'", "number": 60, "mode": "episode"}
    players = {"expert": "'mcts:50'", "opponent": "random"}
    chosen = [f"veritas_rl.demonstrations.{name}={value}" for name, value in (asked | players).items()]
    run = plan([*named, *chosen, "data.train_batch_size=4", f"trainer.default_local_dir={tmp_path}/checkpoints"])
    assert run.data.train_rows + run.data.val_rows == 60
    assert {row["mode"] for row in run.data.column("extra_info")} == {"episode"}
    # A generated model reads a stone of hex as one token, as in RL.
    words = run.words()
    assert " +4" in words
    ids: Any = byte_tokenizer(words)
    assert len(ids("x +4 -5").input_ids) == 3


def test_demonstrations_have_settings_of_their_environment(tmp_path: Path) -> None:
    named = [f"data.{name}_files={tmp_path}/made/{name}.parquet" for name in ("train", "val")]
    asked = [*named, "veritas_rl.demonstrations.env=trace", "veritas_rl.demonstrations.cases=level_1"]
    prints = {}
    for config in ("{debug_prints: 0}", "null"):
        configuration = plan([*asked, f"veritas_rl.demonstrations.config={config}"], dry=True).configuration
        tasks: Any = demonstration_settings(configuration).catalogue("train", 1)
        prints[config] = tasks[0].parameters.debug_prints
    assert prints == {"{debug_prints: 0}": 0, "null": MOST_PRINTS}
    with pytest.raises(UserError, match="unknown trace setting 'debug_print'"):
        plan([*asked, "veritas_rl.demonstrations.config={debug_print: 0}"])
    with pytest.raises(UserError, match=r"config=debug_prints=0 must be settings by name, such as \{debug_prints: 0\}"):
        plan([*asked, "veritas_rl.demonstrations.config='debug_prints=0'"])


def test_a_file_without_tasks_adds_no_words(files: list[str]) -> None:
    assert plan(files).words() == ()


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["hardware=h200x4"], "needs 4 GPUs, and this machine has 2: use hardware=h200x2"),
        (["trainer.nnodes=2"], "this launcher starts one machine"),
        (["hardware=cpu", "engine.strategy=fsdp"], "FSDP_STRATEGY=fsdp needs a GPU"),
    ],
)
def test_devices_that_are_not_there(files: list[str], typed: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        sft.check_devices(plan([*files, *typed], GPUS).configuration, GPUS)


def test_a_checkpoint_is_gone_on_from_or_refused(files: list[str], tmp_path: Path) -> None:
    step = tmp_path / "checkpoints/global_step_8"
    step.mkdir(parents=True)
    (step / "model_world_size_1_rank_0.pt").touch()
    assert plan(files).start is None  # verl has not marked it as complete
    (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text("8")
    run = plan(files)
    assert (run.start, run.first_step) == (step, 8)
    assert f"trainer.resume_from_path='{step}'" in run.overrides
    with pytest.raises(UserError, match="holds checkpoints of an earlier run"):
        plan([*files, "trainer.resume_mode=disable"])
    with pytest.raises(UserError, match="with 2 ranks"):
        plan([*files, "trainer.n_gpus_per_node=2"])
    other = f"trainer.default_local_dir={tmp_path}/other"
    assert plan([*files, other], CPU, {"RESUME_FROM": str(step)}).start == step
    (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text("")
    with pytest.raises(UserError, match=r"iteration\.txt names no step, but '': write .*, of global_step_8"):
        plan(files)


def test_saved_weights_keep_their_meaning_at_a_resume(files: list[str], tmp_path: Path) -> None:
    step = tmp_path / "checkpoints/global_step_8"
    step.mkdir(parents=True)
    for name in ("model_world_size_1_rank_0.pt", "fsdp_config.json"):
        (step / name).touch()
    (tmp_path / "checkpoints/latest_checkpointed_iteration.txt").write_text("8")
    lora = {"ENABLE_LORA": "1"}

    def refused(said: str, *typed: str, variables: dict[str, str]) -> None:
        with pytest.raises(UserError, match=f"global_step_8 was trained with {re.escape(said)}"):
            plan([*files, *typed], CPU, variables)

    # A checkpoint without any record was trained without adapters.
    assert plan(files).start == step
    refused("model.lora_rank=0, and this run has 32", variables=lora)
    # verl's own record has rank and alpha.
    (step / "lora_train_meta.json").write_text(json.dumps({"r": 32, "lora_alpha": 32}))
    assert plan(files, CPU, lora).start == step
    assert plan([*files, "model.target_modules=[q_proj]"], CPU, lora).start == step
    refused("model.lora_alpha=32, and this run has 64", "model.lora_alpha=64", variables=lora)
    write_info(step, CheckpointInfo(8, "base", 1, LoraInfo(32, 32, "all-linear")))
    assert plan(files, CPU, lora).start == step
    refused("model.lora_rank=32, and this run has 0", variables={})
    refused("model.lora_rank=32, and this run has 16", "model.lora_rank=16", variables=lora)
    refused(
        "model.target_modules=all-linear, and this run has [q_proj]", "model.target_modules=[q_proj]", variables=lora
    )
    model, other = (build_tiny_model(tmp_path / name, seed=seed) for seed, name in enumerate(("model", "other")))
    fingerprint = weights_fingerprint(model)
    (step / "lora_train_meta.json").unlink()
    write_info(step, CheckpointInfo(8, str(model), 1, base_fingerprint=fingerprint))
    plan(files).check_model(model)
    with pytest.raises(UserError, match=f"was trained from {model}, not from {other}: set AGENT_MODEL_REPO_ID to"):
        plan(files).check_model(other)


def row(*messages: str, **columns: Any) -> dict[str, Any]:
    """A row whose messages are from the user and the assistant in turn."""
    roles = ("user", "assistant") * len(messages)
    return {
        "messages": [{"role": role, "content": text} for role, text in zip(roles, messages, strict=False)],
        **columns,
    }


def written(folder: Path, *rows: dict[str, Any]) -> list[str]:
    """The overrides for a training file with these rows."""
    write_parquet(folder / "rows.parquet", rows)
    batch = ["data.train_batch_size=1", "data.use_dynamic_bsz=true"]
    return [f"data.train_files={folder}/rows.parquet", "data.val_files=null", *batch]


def test_a_row_that_is_too_long_is_found_before_training(files: list[str]) -> None:
    def check(*typed: str) -> None:
        run = plan([*files, *typed])
        check_rows(run.configuration, run.data, byte_tokenizer())

    # 49 signs, 9 tokens of the format, and the end of turn after a reply of one token.
    check("data.max_length=59")
    with pytest.raises(UserError, match=r"a demonstration has 59 tokens, more than data.max_length=58"):
        check("data.max_length=58")
    check("data.max_length=58", "data.truncation=right")
    check("data.max_length=20", "data.truncation=left")
    with pytest.raises(UserError, match=r"right cuts off the whole reply of a demonstration with 59 tokens"):
        check("data.max_length=57", "data.truncation=right")


def test_every_row_is_measured_not_only_those_with_the_most_characters(tmp_path: Path) -> None:
    # A word of the vocabulary is one token, so rows with many characters may be short.
    tokenizer = byte_tokenizer(["w" * 60])
    long, short = row("w" * 60 * 2, "y"), row("x" * 100, "y")
    run = plan([*written(tmp_path, *[long] * 80, short), "data.max_length=100"])
    with pytest.raises(UserError, match=r"a demonstration has 110 tokens, more than data\.max_length=100"):
        check_rows(run.configuration, run.data, tokenizer)
    right = plan([*written(tmp_path, *[long] * 80, short), "data.max_length=100", "data.truncation=right"])
    with pytest.raises(UserError, match="cuts off the whole reply of a demonstration with 110 tokens"):
        check_rows(right.configuration, right.data, tokenizer)


def test_rows_that_do_not_fit_are_named_in_either_file(tmp_path: Path) -> None:
    short, long = row("q", "y"), row("x" * 100, "y")
    write_parquet(tmp_path / "val.parquet", [short, long, short, long, *[long] * 3])
    files = [*written(tmp_path, short, short, long), f"data.val_files={tmp_path}/val.parquet"]
    names = r"\(row 2 of \S+rows.parquet, row 1 of \S+val.parquet, row 3 of \S+val.parquet and 3 more\)"
    for truncation in ("error", "right"):
        run = plan([*files, "data.max_length=60", f"data.truncation={truncation}"])
        with pytest.raises(UserError, match=names):
            check_rows(run.configuration, run.data, byte_tokenizer())


def talk(*turns: tuple[str, str]) -> dict[str, Any]:
    """A row in ShareGPT's layout."""
    return {"conversations": [{"from": speaker, "value": text} for speaker, text in turns]}


def test_sharegpts_conversations_are_read_as_messages_are(tmp_path: Path) -> None:
    turns = [("system", "s"), ("human", "q"), ("gpt", "a"), ("human", "r"), ("gpt", "b")]
    roles = ("system", "user", "assistant", "user", "assistant")
    texts = [{"role": role, "content": text} for role, (_, text) in zip(roles, turns, strict=True)]
    (tmp_path / "shared").mkdir()
    (tmp_path / "plain").mkdir()
    shared = plan(written(tmp_path / "shared", talk(*turns), talk(*turns[1:3])))
    plain = plan(written(tmp_path / "plain", {"messages": texts}, {"messages": texts[1:3]}))
    rows = [opened(run.configuration, run.data.train, byte_tokenizer()) for run in (shared, plain)]
    assert [len(each) for each in rows] == [2, 2]
    for index in range(2):
        assert rows[0].learned(index) == rows[1].learned(index)
    assert sum(rows[0].learned(0).mask) > sum(rows[0].learned(1).mask) > 0
    named = [*written(tmp_path / "shared", talk(*turns)), "data.messages_key=conversations"]
    assert plan(named).data.train_rows == 1


def test_a_column_of_system_messages_begins_its_chats(tmp_path: Path) -> None:
    turns = [("system", "be brief"), ("human", "q"), ("gpt", "a"), ("human", "r"), ("gpt", "b")]
    shared = [{**talk(*turns[1:3]), "system": ""}, {**talk(*turns[1:]), "system": "be brief"}]
    shared += [{**talk(*turns[1:3]), "system": None}, {**talk(*turns[1:3]), "system": "be brief"}]
    plans = []
    rows = (shared, [talk(*turns[1:3]), talk(*turns), talk(*turns[1:3]), talk(*turns[:3])])
    for name, each in zip(("column", "message"), rows, strict=True):
        (tmp_path / name).mkdir()
        plans.append(plan(written(tmp_path / name, *each)))
        assert plans[-1].data.train_rows == 4
    # Files with and without the column are read together.
    files = [file for run in plans for file in run.data.train]
    whole = opened(plans[0].configuration, files, byte_tokenizer())
    for index in range(4):
        assert whole.learned(index) == whole.learned(index + 4)
    assert {1, 5} <= {*whole.may_exceed(len(whole.learned(1).ids) - 1)}
    with pytest.raises(UserError, match=r"row 1 of the column conversations of .* begins with a system message, and"):
        plan(written(tmp_path, shared[0], {**talk(*turns), "system": "s"}))
    with pytest.raises(UserError, match=r"the column system beside .* has no text, but int64: make it text"):
        plan(written(tmp_path, {**talk(*turns), "system": 3}))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [talk(("human", "q"), ("gpt", "a")), talk(("narrator", "q"), ("gpt", "a"))],
            r"row 1 .*conversations .* 'narrator'",
        ),
        (
            [row("q", "a"), {"messages": [{"role": "human", "content": "q"}]}],
            "row 1 .*'human', which is none of system",
        ),
        ([talk(("human", "q"))], "row 0 of the column conversations of .* has no message of the assistant"),
        ([row("q", "a"), row("q")], "row 1 of the column messages of .* has no message of the assistant"),
        ([row("q", "a", tools=["look"]), row("q", "a", tools=None)], "has a column tools, which RL and evaluation"),
        ([row("q", "a", images=[b"x"])], "has a column images"),
        ([{"messages": [{"role": "user", "content": "q", "tool_calls": "x"}]}], "messages with the field tool_calls"),
        ([{"messages": [{"role": "assistant", "content": "a", "thinking": "x"}]}], "write thinking into content"),
        ([{"messages": [{"role": "user", "content": ["q"]}]}], "messages whose content is no text"),
        ([{"messages": [{"role": "user", "content": None}]}, row("q", "a")], "messages without content"),
        ([{"messages": ["q"]}], "must be lists of messages with role and content"),
    ],
)
def test_rows_that_no_prompt_of_rl_can_show_are_refused(
    tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        plan(written(tmp_path, *rows))


def test_empty_columns_of_tools_and_fields_are_no_mistake(tmp_path: Path) -> None:
    rows = row("q", "a", tools=None, images=None)
    for message in rows["messages"]:
        message["tool_calls"] = None
    assert plan(written(tmp_path, rows, rows)).data.train_rows == 2


@pytest.mark.parametrize(("name", "sequences"), [("chatml", 3), ("qwen3", 5)])
def test_a_conversation_counts_as_the_sequences_that_the_template_needs(
    tmp_path: Path, name: str, sequences: int
) -> None:
    tokenizer_of(name).save_pretrained(tmp_path / "model")
    rows = [row("q", "a"), row("q", "a", "r", "b", "s", "c"), row("q", "a")]
    typed = [*written(tmp_path, *rows), f"model.path={tmp_path}/model", "trainer.total_epochs=2"]
    run = plan(typed)
    assert run.data.train_rows == sequences
    assert run.steps == 2 * sequences
    assert plan([*typed, "data.train_max_samples=1"]).data.train_rows == 1
    # A small model that the launcher makes has a template that only appends.
    assert plan(written(tmp_path, *rows)).data.train_rows == 3


def test_a_template_that_refuses_the_rows_or_shows_nothing_is_one_line(tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "model", seed=0)
    tokenizer = tokenizer_of("gemma2")
    shown = {"messages": [{"role": "system", "content": "Play."}, *row("q", "a")["messages"]]}
    run = plan(written(tmp_path, shown))
    with pytest.raises(UserError, match=r"roles system, user \(System role not supported\)"):
        check_rows(run.configuration, run.data, tokenizer)
    (model / "chat_template.jinja").unlink()
    named = plan([*written(tmp_path, row("q", "a")), f"model.path={model}", "veritas_rl.check_memory=false"])
    with pytest.raises(UserError, match=r"the tokenizer in .*model has no chat template"):
        named.check_start()


def test_the_run_answers_as_it_learns(files: list[str]) -> None:
    assert not plan(files).answering().enable_thinking
    assert plan([*files, "+data.apply_chat_template_kwargs.enable_thinking=true"]).answering().enable_thinking


def test_a_model_that_cannot_be_used_is_refused_before_fine_tuning(files: list[str], tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "model", seed=0)
    run = plan([*files, f"model.path={folder}"])
    run.check_start()
    template, weights = folder / "chat_template.jinja", folder / "model.safetensors"
    text = template.read_text()
    template.unlink()
    with pytest.raises(UserError, match="has no chat template; use a chat"):
        run.check_start()
    template.write_text(text)
    weights.rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="has no safetensors weights, which merging and evaluating need: convert it"):
        run.check_start()


def test_only_a_named_dataset_class_replaces_the_own_one(files: list[str]) -> None:
    own = "data.custom_cls.name=FineTuningRows"
    assert own in plan(files).command()
    named = ["data.custom_cls.path=pkg://verl.utils.dataset.multiturn_sft_dataset", "data.custom_cls.name=X"]
    assert own not in plan([*files, *named]).command()
