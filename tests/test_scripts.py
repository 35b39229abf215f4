"""The scripts for users: checked by shellcheck, and run as far as possible without training."""

import contextlib
import itertools
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from omegaconf import OmegaConf

ROOT = Path(__file__).resolve().parents[1]
TRAINER = ROOT / "train/scripts/openspiel-ppo-trainer.sh"
SCRIPTS = [
    ".ci/run",
    "docker_run_verl.sh",
    *(str(path) for folder in ("scripts", "clusters") for path in sorted(Path("train", folder).glob("*.sh"))),
]


def bash(command: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def test_shellcheck_finds_nothing() -> None:
    done = bash(f"{Path(sys.executable).with_name('shellcheck')} {' '.join(SCRIPTS)}")
    assert done.returncode == 0, done.stdout


def test_a_dry_run_prints_the_command_and_the_configuration(tmp_path: Path) -> None:
    done = bash(f"bash {TRAINER} trainer.total_training_steps=7", cwd=tmp_path, DRY_RUN="1", HF_TOKEN="hf_secret")
    assert done.returncode == 0, done.stderr
    command, _, configuration = done.stdout.partition("\n")
    assert "-m verl.trainer.main_ppo" in command
    assert "trainer.total_training_steps=7" in command
    assert "total_training_steps: 7" in configuration
    assert "hf_secret" not in done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "env", "typed"),
    [("trace-GRPO", "trace", "."), ("lgc-v2-RL-GRPO", "lgc-v2", "bash"), ("lgc-v2-GRPO", "lgc-v2", ".")],
)
def test_environments_have_scripts_of_their_own(name: str, env: str, typed: str, tmp_path: Path) -> None:
    script = ROOT / f"train/scripts/{name}-trainer.sh"
    # The script can be sourced, and it ignores GAME_TYPES, which other scripts use.
    variables = {"ALGORITHM": "ppo"} if typed == "bash" else {}
    done = bash(
        f"{typed} {script} data.train_batch_size=8; echo $? $PWD", tmp_path, DRY_RUN="1", GAME_TYPES="hex", **variables
    )
    command, _, configuration = done.stdout.partition("\n")
    assert "recipes" in command
    made: Any = OmegaConf.create(configuration.rpartition("\n0 ")[0])
    estimator = "gae" if variables else "grpo"
    assert (made.data.custom_cls.config.env, made.algorithm.adv_estimator) == (env, estimator)
    assert made.data.train_batch_size == 8
    assert done.stdout.splitlines()[-1] == f"0 {tmp_path}"


@pytest.mark.parametrize(
    "script", ["openspiel-ppo-trainer.sh", "trace-GRPO-trainer.sh", "lgc-v2-SFT-trainer.sh", "merge.sh"]
)
def test_a_script_becomes_the_program_that_it_starts_and_so_gets_its_signals(script: str) -> None:
    variables = {"DRY_RUN": "1", "CHECKPOINT_BASE": "/no/such/folder"}
    process = psutil.Popen(
        ["bash", f"train/scripts/{script}"],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    seen: set[str] = set()
    try:
        while process.poll() is None and not any(Path(program).name.startswith("python") for program in seen):
            with contextlib.suppress(psutil.Error, IndexError):
                seen.add(process.cmdline()[0])
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    assert any(Path(program).name.startswith("python") for program in seen), seen


@pytest.mark.parametrize("backend", ["vllm", "sglang"])
def test_switches_of_users_reach_verl(backend: str) -> None:
    switches: dict[str, Any] = {"FSDP_STRATEGY": "fsdp", "GPU_MEMORY_UTILIZATION": "0.6"}
    lora = backend == "vllm"
    if lora:
        switches["LAYERED_SUMMON"] = "1"
    done = bash(
        f"bash {TRAINER} hardware=h200x2 lora={'on' if lora else 'off'}",
        DRY_RUN="1",
        ROLLOUT_BACKEND=backend,
        **switches,
    )
    assert done.returncode == 0, done.stderr
    made: Any = OmegaConf.create(done.stdout.partition("\n")[2]).actor_rollout_ref
    assert (made.rollout.name, made.actor.strategy, made.ref.strategy) == (backend, "fsdp", "fsdp")
    assert (made.rollout.gpu_memory_utilization, made.rollout.layered_summon) == (0.6, lora)
    if lora:
        assert (made.model.lora_rank, made.model.lora_alpha, made.model.target_modules) == (32, 32, "all-linear")
        assert (made.actor.optim.lr, made.rollout.load_format) == (6e-5, "safetensors")
    assert done.stderr.strip() == (
        "note: this machine cannot start the run: the configuration needs 2 GPUs, and this machine has 0: "
        "use hardware=cpu"
    )


def test_sourced_it_leaves_the_shell_alone(tmp_path: Path) -> None:
    done = bash(
        f"before=$(set -o; pwd; declare -F); . {TRAINER} no_such_key=1; code=$?\n"
        'after=$(set -o; pwd; declare -F); [ "$before" = "$after" ] || echo changed; echo "still here, $code, $PWD"',
        cwd=tmp_path,
        DRY_RUN="1",
    )
    assert done.stdout.splitlines() == [f"still here, 2, {tmp_path}"]
    assert done.stderr.startswith("error: unknown configuration key no_such_key")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"GAME_TYPES": "nonsense"}, "nonsense"),
        ({"AGENT_MODEL_REPO_ID": "/no/such/model"}, "the model /no/such/model cannot be read"),
    ],
)
def test_a_mistake_ends_at_once_with_one_line(variables: dict[str, str], message: str) -> None:
    done = bash(f"bash {TRAINER}", ROOT, **variables)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert message in line


@pytest.mark.parametrize("path", ["docker_run_verl.sh", "train/docker_run_verl.sh"])
def test_the_container_command_holds_no_secret(path: str) -> None:
    done = bash(f"./{path} bash train/scripts/test.sh", DRY_RUN="1", HF_TOKEN="hf_secret")
    assert done.returncode == 0, done.stderr
    assert "--gpus all" in done.stdout
    assert f"{ROOT}:/workspace/veritas-rl" in done.stdout
    assert "--env HF_TOKEN" in done.stdout
    assert "hf_secret" not in done.stdout


def test_the_container_ends_late_enough_and_gets_what_the_network_needs() -> None:
    named = {"OPENAI_API_KEY": "sk-secret", "https_proxy": "http://me:secret@proxy", "NCCL_SOCKET_IFNAME": "ib0"}
    named |= {"GLOO_SOCKET_IFNAME": "ib0", "WANDB_API_KEY": "secret"}
    unnamed = {"MY_PASSWORD": "secret"}
    typed = "./docker_run_verl.sh --volume '/my data:/data' --cpus=8 -- bash train/scripts/test.sh -m gpu"
    done = bash(typed, ROOT, **named, **unnamed, DRY_RUN="1")
    words = shlex.split(done.stdout)
    assert "secret" not in done.stdout
    assert words[:5] == ["docker", "run", "--rm", "--init", "--stop-timeout"]
    assert int(words[5]) >= 900
    passed = [name for option, name in itertools.pairwise(words) if option == "--env"]
    assert named.keys() <= {*passed}
    assert len(passed) == len({*passed})
    assert not unnamed.keys() & {*passed}
    *options, image = words[words.index("/my data:/data") - 1 : words.index("bash")]
    assert options == ["--volume", "/my data:/data", "--cpus=8"]
    assert not image.startswith("-")
    assert words[words.index("bash") :] == ["bash", "train/scripts/test.sh", "-m", "gpu"]
    assert ("/dev/infiniband" in words) == Path("/dev/infiniband").is_dir()


def test_options_of_the_container_need_an_end() -> None:
    done = bash("./docker_run_verl.sh --volume /data:/data bash", DRY_RUN="1")
    assert (done.returncode, done.stdout) == (2, "")
    expected = "error: --volume /data:/data bash are options of docker run: type -- after them, and then the command"
    assert done.stderr.strip() == expected


def test_hadolint_finds_nothing() -> None:
    done = bash(f"{Path(sys.executable).with_name('hadolint')} Dockerfile")
    assert done.returncode == 0, done.stdout


def test_an_image_that_was_built_for_the_pins_is_used_as_the_user_outside(tmp_path: Path) -> None:
    building = shlex.split(bash("./docker_run_verl.sh --build", DRY_RUN="1").stdout)
    tag = building[building.index("--tag") + 1]
    assert building[:2] == ["docker", "build"]
    assert building[-1] == str(ROOT)
    # A fake docker that has only this image.
    (tmp_path / "docker").write_text(f'#!/bin/sh\n[ "$*" = "image inspect {tag}" ]\n')
    (tmp_path / "docker").chmod(0o755)
    variables = {"DRY_RUN": "1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = shlex.split(bash("./docker_run_verl.sh", ROOT, **variables).stdout)
    assert command[-2:] == [tag, "bash"]
    assert command[command.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
    assert not any(word.startswith("VENV=") for word in command)
    # The built image is not based on `other:1`, so `other:1` is used as it is.
    command = shlex.split(bash("./docker_run_verl.sh", ROOT, IMAGE="other:1", **variables).stdout)
    assert command[-2:] == ["other:1", "bash"]
    assert "--user" not in command


def test_nothing_that_git_ignores_gets_into_the_image(tmp_path: Path) -> None:
    listed = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in listed if line and not line.startswith("#")]
    # Only named paths are in the image, without the files in them that git ignores.
    kept = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert rules[0] == "*"
    for name in kept:
        assert bash(f"git ls-files --error-unmatch {name}").returncode == 0, name
    ignored = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    below = {line.removeprefix("**/") for line in rules if line.startswith("**/")}
    assert below == {name for name in ignored if not name.startswith(("/", ".")) or name == ".env"}


def test_the_container_sees_the_folders_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "cache/hub/checkpoints").mkdir(parents=True)
    named = {
        "AGENT_MODEL_REPO_ID": "base",
        "LORA_ADAPTER_PATH": f"{ROOT}/train/scripts",
        "CHECKPOINT_BASE": "cache/hub/checkpoints",
        "RESUME_FROM": "no/folder",
    }
    variables = {**named, "DRY_RUN": "1", "HF_HOME": f"{tmp_path}/cache"}
    command = shlex.split(bash(f"{ROOT}/docker_run_verl.sh", tmp_path, **variables).stdout)
    assert f"{tmp_path}/base:{tmp_path}/base:ro" in command
    assert {item for item in command if item.startswith(tuple(named))} == {
        f"AGENT_MODEL_REPO_ID={tmp_path}/base",
        "LORA_ADAPTER_PATH=/workspace/veritas-rl/train/scripts",
        "CHECKPOINT_BASE=/root/.cache/huggingface/hub/checkpoints",
        "RESUME_FROM",
    }


def test_an_image_with_a_rollout_backend_is_built_upon(tmp_path: Path) -> None:
    # An interpreter with SGLang and, as on Debian, without a working ensurepip.
    packages = tmp_path / "packages"
    (packages / "sglang-1.2.3.dist-info").mkdir(parents=True)
    (packages / "sglang-1.2.3.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 1.2.3\n")
    (packages / "ensurepip.py").write_text("raise ImportError\n")
    image = tmp_path / "python"
    image.write_text(f'#!/bin/sh\nPYTHONPATH={packages} exec {sys.base_prefix}/bin/python3 "$@"\n')
    image.chmod(0o755)
    venv = tmp_path / "venv"
    # The installation fails immediately because pip may not use an index.
    done = bash(
        "bash train/scripts/setup.sh", ROOT, VENV=str(venv), PYTHON=str(image), PIP_NO_INDEX="1", PIP_FIND_LINKS=""
    )
    assert "error: the installation failed" in done.stderr
    assert "include-system-site-packages = true" in (venv / "pyvenv.cfg").read_text()
    assert not list(venv.glob("lib/python*/site-packages/pip"))


@pytest.mark.parametrize("name", ["openspiel-SFT-trainer.sh", "lgc-v2-SFT-trainer.sh"])
def test_one_recipe_of_supervised_fine_tuning_has_two_names(name: str, tmp_path: Path) -> None:
    script = ROOT / "train/scripts" / name
    typed = "hardware=h200x2 trainer.total_epochs=3 data.train_files=/none/train.parquet"
    done = bash(f". {script} {typed}; echo $? $PWD", cwd=tmp_path, DRY_RUN="1", HF_TOKEN="hf_secret")
    command, _, configuration = done.stdout.partition("\n")
    assert "-m torch.distributed.run --standalone --nnodes=1 --nproc_per_node=2 -m verl.trainer.sft_trainer" in command
    assert OmegaConf.create(configuration.rpartition("\n0 ")[0]).trainer.total_epochs == 3
    assert done.stdout.splitlines()[-1] == f"0 {tmp_path}"
    assert "hf_secret" not in done.stdout + done.stderr

    done = bash(f". {script} data.train_files=/none/train.parquet; echo $?", cwd=tmp_path)
    assert done.stdout.strip() == "2"
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(
        "error: /none/train.parquet does not exist: make it with python train/tools/generate_demonstrations.py"
    )
