"""OpenEnv 0.10 with the OpenEnv package of this repository: its client and its validator."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from veritas_rl.serving.offer import Offer

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "integrations/openenv"
CLIENT = Path(__file__).with_name("openenv_client.py")
PLAIN = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def python(client_python: Callable[..., Path]) -> Path:
    return client_python("openenv", install=PACKAGE)


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env=PLAIN, timeout=300, cwd=cwd)


def pack(kind: str, folder: Path) -> Path:
    done = run("bash", "integrations/pack.sh", kind, str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_the_real_client_plays_both_seats_and_one(serve: Callable[..., Any], python: Path) -> None:
    url = serve([Offer("openspiel", ["tic_tac_toe", "kuhn_poker"]), Offer("lgc-v2")]).url
    done = run(str(python), str(CLIENT), url)
    assert "RESULT " in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(done.stdout.partition("RESULT ")[2])
    assert found["both"]["seats"] == [0, 1, 0, 1, 0, 1, 0]
    assert found["both"]["rewards"] == {"0": 1.0, "1": 0.0}
    assert found["both"]["steps"] == 7
    assert found["both"]["task"].startswith("openspiel/tic_tac_toe/episode#")
    for seed, game in enumerate(found["one"]):
        assert set(game["seats"]) == {seed % 2}
        assert game["reward"] == game["rewards"][str(seed % 2)]
    assert "unknown case 'no_such_game'" in found["refused"]
    assert {**found["after"], "episode": ""} == {**found["both"], "episode": ""}
    assert found["puzzle"] == 0.0


def test_the_validator_of_openenv_accepts_server_and_package(
    serve: Callable[..., Any], python: Path, tmp_path: Path
) -> None:
    tool = str(python.with_name("openenv"))
    served = run(tool, "validate", "--url", serve([Offer("openspiel", ["tic_tac_toe"])]).url)
    assert served.returncode == 0, served.stdout
    assert "openenv-http/1.x" in served.stdout
    packed = run(tool, "validate", str(pack("openenv", tmp_path / "packed")), "--level", "static")
    assert packed.returncode == 0, packed.stdout
    assert "Verdict: PASS" in packed.stdout


def test_the_contents_of_the_container_serve(
    client_python: Callable[..., Path], tmp_path: Path, free_port: int
) -> None:
    folder = pack("openenv", tmp_path / "packed")
    bare = client_python(*(folder / "requirements.txt").read_text().split())
    command = [str(bare), "-m", "uvicorn", "server.app:app", "--port", str(free_port)]
    process = subprocess.Popen(command, cwd=folder, env={**PLAIN, "PYTHONPATH": str(folder)})
    try:
        url = f"http://127.0.0.1:{free_port}"
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                assert httpx.get(f"{url}/health").json() == {"status": "healthy"}
                break
            except httpx.TransportError:
                time.sleep(0.2)
        for env, start in (("openspiel", {"case": "kuhn_poker", "seed": 0}), ("lgc-v2", {}), ("trace", {"task_id": 3})):
            shown = httpx.post(f"{url}/{env}/reset", json=start, timeout=60)
            assert shown.status_code == 200, shown.text
            assert shown.json()["observation"]["messages"]
    finally:
        process.kill()
        process.wait()


def test_the_actor_for_affinetes_works_alone(client_python: Callable[..., Path], tmp_path: Path) -> None:
    folder = pack("affinetes", tmp_path / "packed")
    bare = client_python(*(folder / "requirements.txt").read_text().split())
    program = """
import asyncio, json
from env import Actor
async def main():
    actor = Actor()
    shown = await actor.reset(task_id=600000000, seed=1, opponent="random")
    looked = await actor.state(episode_id=shown["episode_id"])
    await actor.stop(episode_id=shown["episode_id"])
    asked = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "task_id": 600000000, "seed": 1, "unknown": 1}
    result = await actor.evaluate(**asked)
    print(json.dumps([shown["observation"] == looked["observation"], result["score"], result["error_type"]]))
asyncio.run(main())
"""
    done = run(str(bare), "-c", program, cwd=folder)
    assert done.stdout.strip() == '[true, 0.0, "llm_failure"]', done.stderr


def test_a_grpo_script_of_trl_trains_two_steps(
    serve: Callable[..., Any], client_python: Callable[..., Path], tiny_model: Path, tmp_path: Path
) -> None:
    url = serve([Offer("openspiel", ["tic_tac_toe"])]).url
    trl = ("trl", "openenv", "torch==2.13.0", "transformers==5.10.4")
    python = client_python(*trl, install=PACKAGE)
    script = str(PACKAGE / "examples/trl_grpo.py")
    command = [str(python), script, "--model", str(tiny_model), "--url", url, "--steps", "2", "--output", str(tmp_path)]
    done = run(*command, "--reply_tokens", "4")
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line for line in done.stdout.splitlines() if line.startswith("{'step'")]
    assert len([row for row in rows if "'reward'" in row]) == 2, done.stdout
