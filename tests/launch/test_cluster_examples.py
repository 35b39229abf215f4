"""The commands in train/clusters are valid. docs/scaling.md describes the check of the schemas."""

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
SLURM = (CLUSTERS / "slurm.sh").read_text()
TEXTS = {
    "slurm": SLURM,
    "skypilot": SKYPILOT["setup"] + SKYPILOT["run"],
    "kuberay": KUBERAY["spec"]["entrypoint"],
}
VALUES = {
    "$address": "10.0.0.1:6379",
    "$nodes": "2",
    "${address%:*}": "10.0.0.1",
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
        if given.command == "submit" and given.words != ["$@"]:
            script, *overrides = given.words[1:]
            assert (CLUSTERS.parents[1] / script).is_file()
            made = compose_configuration(overrides_for(overrides, {}, Hardware(64, 8, 80 << 30)))
            assert made.trainer.nnodes == given.nodes == 2
            assert made.ray_kwargs.ray_init.address == "auto"
        else:
            assert all(word.startswith("--node-ip-address=") for word in further)
    assert "submit" in seen


def test_slurm_trains_by_default_on_its_nodes() -> None:
    (default,) = re.findall(r"set -- (bash .*?); fi", SLURM)
    script, *overrides = shlex.split(default.replace("$nodes", "2"))[1:]
    assert (CLUSTERS.parents[1] / script).is_file()
    assert compose_configuration(overrides_for(overrides, {}, Hardware(64, 8, 80 << 30))).trainer.nnodes == 2


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
