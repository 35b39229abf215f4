"""The folder of a container works with its own requirements: every other installed package is hidden from it."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
HIDE = """
import json, sys
hidden = set(json.loads(sys.argv[1]))
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
"""
PLAY = {
    "openenv": """
from server.app import app
from starlette.testclient import TestClient
client = TestClient(app)
for env, start in (("openspiel", {"case": "hex(board_size=5)"}), ("lgc-v2", {}), ("trace", {"task_id": 3})):
    shown = client.post(f"/{env}/reset", json=start)
    assert shown.status_code == 200, shown.text
    print(env, bool(shown.json()["observation"]["messages"]))
""",
    "affinetes": """
import asyncio
from env import Actor
shown = asyncio.run(Actor().reset(task_id=600000000, seed=1, opponent="random"))
print("openspiel", bool(shown["observation"]))
""",
}


def hidden_from(requirements: str) -> set[str]:
    """The modules of all installed packages that these requirements do not bring."""
    allowed: set[str] = set()
    waiting = [Requirement(line) for line in requirements.splitlines()]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if name in allowed:
            continue
        allowed.add(name)
        for line in metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed)
    modules = metadata.packages_distributions().items()
    allowed.add("veritas-rl")  # the folder's copy is found first
    return {module for module, owners in modules if not {canonicalize_name(owner) for owner in owners} & allowed}


@pytest.mark.parametrize(("kind", "served"), [("openenv", 3), ("affinetes", 1)])
def test_a_packed_folder_needs_no_package_beside_its_requirements(kind: str, served: int, tmp_path: Path) -> None:
    folder = tmp_path / "packed"
    subprocess.run(["bash", "integrations/pack.sh", kind, str(folder)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    hidden = hidden_from((folder / "requirements.txt").read_text())
    assert {"torch", "verl", "ray"} <= hidden
    command = [sys.executable, "-E", "-c", HIDE + PLAY[kind], json.dumps(sorted(hidden))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout.count("True") == served, done.stderr
