"""Prints the answers of a server to affinetes' own client as JSON; needs a Python with affinetes.

python affinetes_client.py URL MODEL_URL
"""

import asyncio
import json
import sys
from typing import Any

import affinetes  # pyright: ignore[reportMissingImports]


async def drive(env: Any, model_url: str) -> dict[str, Any]:
    asked = {"model": "m", "base_url": model_url, "opponent": "random", "temperature": 0.0, "timeout": 60}
    results = await asyncio.gather(
        *(env.evaluate(task_id=600000000 + 4 * index, seed=index, **asked) for index in range(50))
    )
    session = await env.openenv().reset(task_id=200000042, seed=3, opponent="random")
    first, steps = session.observation, 0
    response = session.last
    while not response["done"]:
        number = session.observation.split("Legal actions (number: name):\n")[1].split(":")[0]
        response = await session.step(f"\\boxed{{{number}}}")
        steps += 1
    looked = await session.state()
    await session.stop()
    await session.stop()
    try:
        await env.no_such_method()
        refused = ""
    except Exception as error:
        refused = str(error)
    listed = await env.list_methods()
    return {
        "results": results,
        "first": first,
        "steps": steps,
        "last": response,
        "state": looked,
        "refused": refused,
        "methods": [method["name"] for method in listed] if listed else [],
        "ready": env.is_ready(),
    }


def main() -> None:
    env = affinetes.load_env(mode="url", base_url=sys.argv[1])
    loop = asyncio.get_event_loop()
    print("RESULT " + json.dumps(loop.run_until_complete(drive(env, sys.argv[2]))))


main()
