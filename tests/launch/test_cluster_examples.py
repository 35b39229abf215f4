"""The commands in the YAML files of train/clusters are valid. docs/scaling.md describes the check of the schemas."""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from veritas_rl.launch import cluster
from veritas_rl.launch.configuration import compose_configuration, overrides_for
from veritas_rl.launch.hardware import Hardware
from veritas_rl.pins import required_version

CLUSTERS = Path(__file__).resolve().parents[2] / "train/clusters"
SKYPILOT: dict[str, Any] = yaml.safe_load((CLUSTERS / "skypilot.yaml").read_text())
KUBERAY: dict[str, Any] = yaml.safe_load((CLUSTERS / "kuberay.yaml").read_text())
TEXTS = {
    "skypilot": SKYPILOT["setup"] + SKYPILOT["run"],
    "kuberay": KUBERAY["spec"]["entrypoint"],
}
VALUES = {
    "$head": "10.0.0.1",
    "$SKYPILOT_NUM_NODES": "2",
}


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command that begins with `bash train/scripts/`, with its variables replaced by values."""
    for value in sorted(VALUES, key=len, reverse=True):
        text = text.replace(value, VALUES[value])
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        for found in re.findall(r"(?<!\S)(?<!#\s)bash train/scripts/.*?(?= &$| \|\| |'|$)", line):
            yield shlex.split(found, comments=True)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_bash_reads_it(text: str) -> None:
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_commands_in_the_cluster_examples_are_valid(text: str) -> None:
    seen = set()
    for words in commands(text):
        if words[1] != "train/scripts/ray-cluster.sh":
            continue
        given, further = cluster.parse(words[2:])
        seen.add(given.command)
        if given.command == "submit":
            script, *overrides = given.words[1:]
            assert (CLUSTERS.parents[1] / script).is_file()
            made = compose_configuration(overrides_for(overrides, {}, Hardware(64, 8, 80 << 30)))
            assert made.trainer.nnodes == given.nodes == 2
            assert made.ray_kwargs.ray_init.address == "auto"
        else:
            assert all(word.startswith("--node-ip-address=") for word in further)
    assert "submit" in seen


def test_kubernetes_runs_the_pinned_ray_with_a_token_on_every_pod() -> None:
    made = KUBERAY["spec"]["rayClusterSpec"]
    assert made["rayVersion"] == required_version("ray")
    assert made["authOptions"] == {"mode": "token"}
    pods = [made["headGroupSpec"], *made["workerGroupSpecs"]]
    assert sum(pod.get("replicas", 1) for pod in pods) == 2
    for pod in pods:
        (container,) = pod["template"]["spec"]["containers"]
        volumes = {volume["name"] for volume in pod["template"]["spec"]["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def test_the_images_user_may_write_the_volumes_of_kubernetes() -> None:
    dockerfile = (CLUSTERS.parents[1] / "Dockerfile").read_text()
    (user,) = map(int, re.findall(r"^USER (\d+)$", dockerfile.partition("COPY . .")[2], re.MULTILINE))
    made = KUBERAY["spec"]["rayClusterSpec"]
    for pod in (made["headGroupSpec"], *made["workerGroupSpecs"]):
        secured = pod["template"]["spec"]["securityContext"]
        assert (secured["runAsUser"], secured["fsGroup"]) == (user, user)


def test_skypilots_nodes_share_checkpoints_and_logs(tmp_path: Path) -> None:
    kept, clone = tmp_path / "kept", tmp_path / "clone"
    (clone / "train/scripts").mkdir(parents=True)
    (clone / "train/scripts/setup.sh").write_text("mkdir -p train/artifacts train/outputs\n")
    for _ in range(2):  # a second launch keeps what is there
        text = SKYPILOT["setup"].replace("/mnt/veritas-rl", str(kept))
        subprocess.run(["bash", "-eu", "-c", text], cwd=clone, check=True)
        for name in ("artifacts", "outputs"):
            with (clone / "train" / name / "log").open("a") as log:
                log.write("x")
    assert [(kept / name / "log").read_text() for name in ("artifacts", "outputs")] == ["xx", "xx"]
