"""affinetes' own client, version 0.2.0, against the server."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.serving.offer import Offer

CLIENT = Path(__file__).with_name("affinetes_client.py")


@pytest.mark.long
def test_the_real_client_evaluates_fifty_at_once_and_plays_a_session(
    serve: Callable[..., Any], model: Callable[..., Any], client_python: Callable[..., Path]
) -> None:
    def first_listed(body: dict[str, Any], handler: Any) -> str:
        return f"\\boxed{{{re.findall(r'^([0-9]+): ', body['messages'][-1]['content'], re.MULTILINE)[0]}}}"

    python = client_python("affinetes")
    url = serve([Offer("openspiel")]).url
    # Proxies are removed, because the client would also use them for addresses of this machine.
    plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [str(python), str(CLIENT), url, model(first_listed).url],
        capture_output=True,
        text=True,
        check=False,
        env=plain,
        timeout=300,
    )
    assert "RESULT " in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    found = json.loads(done.stdout.partition("RESULT ")[2])
    assert len(found["results"]) == 50
    for index, result in enumerate(found["results"]):
        extra = result["extra"]
        assert (result["task_name"], extra["seed"], extra["llm_player_id"]) == ("openspiel:hex", index, index % 2)
        assert "error" not in result
        assert result["score"] == (1.0 if extra["final_return"] > 0 else 0.0)
    assert {result["score"] for result in found["results"]} == {0.0, 1.0}
    assert "leduc" in found["first"].lower()
    assert found["steps"] == found["last"]["info"]["step_count"] > 0
    assert found["state"]["done"]
    assert 0 <= found["last"]["reward"] <= 1
    assert "Method not found: no_such_method" in found["refused"]
    assert {"evaluate", "reset", "step", "state", "stop"} <= set(found["methods"])
