"""KubeRay's schema and SkyPilot's reader accept the files in train/clusters.

    python -m pytest -m long tests/launch/test_cluster_schemas.py

Both come from the network: KubeRay's definitions from its repository, and SkyPilot from PyPI. For a machine that cannot
reach the repository, KUBERAY_DEFINITIONS names a folder with the definitions, `v1.6.2.yaml` and so on.
"""

import os
import subprocess
import urllib.error
import urllib.request
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

pytestmark = pytest.mark.long

CLUSTERS = Path(__file__).resolve().parents[2] / "train/clusters"
KUBERAY_VERSIONS, SKYPILOT_VERSION = ("v1.6.2", "v1.7.0"), "0.14.1"
DEFINITION = (
    "https://raw.githubusercontent.com/ray-project/kuberay/{}/helm-chart/kuberay-operator/crds/ray.io_rayjobs.yaml"
)

READ = """
import sys
import sky
import yaml
task = yaml.safe_load(open(sys.argv[1]))
# As --secret on the command line does.
task = sky.Task.from_yaml_config(task, secrets_overrides=[(name, "value") for name in task["secrets"]])
(resources,) = task.resources
print(task.num_nodes, resources.accelerators, sorted(task.secrets), sorted(task.volumes))
"""
"""A program that reads a file with SkyPilot."""


def strict(schema: Any) -> Any:
    """The schema, with every key refused that it does not name. Kubernetes drops such keys silently."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    free = "additionalProperties" in made or made.get("x-kubernetes-preserve-unknown-fields")
    return made if free or not isinstance(made.get("properties"), dict) else {**made, "additionalProperties": False}


@pytest.fixture(scope="module", params=KUBERAY_VERSIONS)
def validator(request: pytest.FixtureRequest) -> Draft202012Validator:
    """A validator of KubeRay's RayJob."""
    folder = os.environ.get("KUBERAY_DEFINITIONS")
    if folder:
        text = Path(folder, f"{request.param}.yaml").read_bytes()
    else:
        try:
            text = urllib.request.urlopen(DEFINITION.format(request.param), timeout=60).read()
        except urllib.error.HTTPError:
            raise  # the address is wrong
        except OSError as error:
            pytest.skip(f"the repository of KubeRay cannot be reached ({error})")
    versions = {each["name"]: each["schema"]["openAPIV3Schema"] for each in yaml.safe_load(text)["spec"]["versions"]}
    schema = strict(versions["v1"])
    # The definition leaves the metadata of the object to Kubernetes.
    schema["properties"]["metadata"] = {"type": "object"}
    return Draft202012Validator(schema)


def test_kuberay_accepts_the_job(validator: Draft202012Validator) -> None:
    job = yaml.safe_load((CLUSTERS / "kuberay.yaml").read_text())
    assert [error.message for error in validator.iter_errors(job)] == []


def test_kuberay_refuses_what_it_does_not_know(validator: Draft202012Validator) -> None:
    job = yaml.safe_load((CLUSTERS / "kuberay.yaml").read_text())
    (container,) = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    container["workDir"] = container.pop("workingDir")
    job["spec"]["shutdownAfterJobFinishes"] = "yes"
    # The workers share the head's container by an anchor of YAML, so its error appears twice.
    assert {error.message for error in validator.iter_errors(job)} == {
        "Additional properties are not allowed ('workDir' was unexpected)",
        "'yes' is not of type 'boolean'",
    }


def test_skypilot_reads_the_task(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    # SkyPilot needs other versions than verl, so it gets an environment of its own.
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"skypilot=={SKYPILOT_VERSION}"], check=True)
    folder = CLUSTERS.parents[1]
    done = subprocess.run(
        [python, "-c", READ, CLUSTERS / "skypilot.yaml"],
        cwd=folder,
        env={**os.environ, "HOME": str(tmp_path), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    expected = "2 {'H200': 8} ['HF_TOKEN', 'RAY_AUTH_TOKEN'] ['/mnt/veritas-rl']"
    assert done.stdout.splitlines()[-1] == expected
