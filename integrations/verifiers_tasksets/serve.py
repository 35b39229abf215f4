"""Serve a taskset of verifiers to veritas-rl, by the protocol of affinetes. It runs in an environment with verifiers.

    python serve.py TASKSET [--port 8100] [--tasks 1000] [--config KEY=VALUE ...]

Each task is one question: its prompt is shown, and the reply is scored by the rewards of the task's class, as verifiers
adds them. Tasks that need a container, tools, or a conversation are refused.

    POST /call {"method": "reset" | "step" | "stop", "kwargs": {...}} -> {"status": "success", "result": {...}}
"""

import argparse
import asyncio
import inspect
import itertools
import json
import sys
import uuid
from typing import Any

import verifiers.v1 as vf
from aiohttp import web
from verifiers.v1.graph import MessageNode
from verifiers.v1.task import Task
from verifiers.v1.taskset import Taskset
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.types import AssistantMessage, UserMessage
from verifiers.v1.utils.generic import concrete_type
from verifiers.v1.utils.loaders import taskset_class

MOST_OPEN = 10_000
"""The most questions without a reply. The oldest one is forgotten first."""

MOST_BYTES = 10_000_000
"""The most bytes of a request."""


class Unusable(Exception):
    """The taskset cannot be served."""


def loaded(name: str, settings: dict[str, Any]) -> Taskset:
    """The taskset of an installed package.

    Args:
        name: Its id.
        settings: The fields of its configuration.

    Raises:
        Unusable: There is no such taskset, or a setting is wrong.
    """
    try:
        kind = taskset_class(name)
        config = concrete_type(kind, vf.TasksetConfig) or vf.TasksetConfig
        return kind(config.model_validate({**settings, "id": name}))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise Unusable(f"the taskset {name} cannot be loaded: {' '.join(str(error).split())[:300]}") from error


def questions(taskset: Taskset, most: int) -> list[Task]:
    """An even number of tasks, so that a number that is taken modulo their count keeps its parity.

    Raises:
        Unusable: A task is no single question, or there are fewer than two.
    """
    kind = taskset.task_type()
    if taskset.toolsets(taskset.config) or kind.toolsets(kind.config_type()()):
        raise Unusable("its tasks need tools")
    if kind.NEEDS_CONTAINER or kind.setup is not Task.setup or kind.finalize is not Task.finalize:
        raise Unusable("its tasks need a container, or are set up in one")
    found = list(itertools.islice(taskset, most))
    found = found[: len(found) // 2 * 2]
    if not found:
        raise Unusable("it has fewer than two tasks")
    for reward in found[0].hooks("reward"):
        runtime = inspect.signature(reward).parameters.get("runtime")
        if runtime is not None and runtime.default is inspect.Parameter.empty:
            raise Unusable(f"its reward {reward.__name__} needs a container")
    if found[0].config.judges:
        raise Unusable("models judge its replies")
    for task in found:
        asked = task.data.prompt
        if not isinstance(asked, str) and [message.role for message in asked or []] != ["user"]:
            raise Unusable(f"task {task.data.idx} is a conversation and no single prompt")
    return found


def question_of(task: Task) -> str:
    """The prompt of a task, with its system prompt before it."""
    return "\n\n".join(text for text in (task.data.system_prompt, task.data.prompt_text) if text)


async def scored(task: Task, reply: str) -> float:
    """The sum of the weighted rewards of a reply.

    Raises:
        Unusable: A reward was not computed, or there is none.
    """
    nodes = [
        MessageNode(message=UserMessage(content=task.data.prompt_text)),
        MessageNode(parent=0, message=AssistantMessage(content=reply), sampled=True),
    ]
    about = TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    trace = Trace(task=about, agent=AgentInfo(config=vf.AgentConfig()), nodes=nodes, is_completed=True, ok=True)
    await task.score(trace)
    missing = [name for name, reward in trace.rewards.items() if reward is None]
    if missing or not trace.rewards:
        raise Unusable(f"the rewards {', '.join(missing) or '(none)'} were not computed")
    return trace.reward


class Served:
    """The questions of a taskset, by the protocol of affinetes.

    Args:
        tasks: The tasks. Task number n is task n modulo their count.
        forgiving: Whether a reply at which a reward fails is paid 0. Otherwise the call fails.
    """

    def __init__(self, tasks: list[Task], forgiving: bool = False) -> None:
        self.tasks = tasks
        self._forgiving = forgiving
        self._open: dict[str, Task] = {}

    async def call(self, method: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The result of a method.

        Raises:
            ValueError: There is no such method or session.
        """
        if method == "reset":
            task = self.tasks[int(asked.get("task_id") or 0) % len(self.tasks)]
            name = uuid.uuid4().hex
            self._open[name] = task
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]
            return {"observation": question_of(task), "done": False, "reward": 0.0, "episode_id": name}
        if method == "step":
            name = str(asked.get("episode_id"))
            if name not in self._open:
                raise ValueError("there is no such session; send a reset first")
            try:
                reward = await scored(self._open[name], str(asked.get("action", "")))
            except Exception as error:
                if not self._forgiving:
                    raise
                print(f"a reward failed, and 0 is paid: {type(error).__name__}: {error}", file=sys.stderr)
                reward = 0.0
            del self._open[name]
            return {"observation": f"reward: {reward:g}", "done": True, "reward": reward, "episode_id": name}
        if method == "stop":
            self._open.pop(str(asked.get("episode_id")), None)
            return {"status": "stopped"}
        raise ValueError(f"unknown method {method!r}: there are reset, step and stop")

    async def answer(self, request: web.Request) -> web.Response:
        """The answer to a request of /call."""
        try:
            asked = await request.json()
            method, arguments = str(asked["method"]), dict(asked.get("kwargs") or {})
            return web.json_response({"status": "success", "result": await self.call(method, arguments)})
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            return web.json_response({"status": "failed", "result": {"error": str(error)}})
        except Exception as error:  # a reward's own fault
            said = f"{type(error).__name__}: {error}"
            return web.json_response({"status": "failed", "result": {"error": said}}, status=500)


async def serve(served: Served, host: str, port: int) -> None:
    """Serve until the process ends.

    Raises:
        Unusable: The rewards of a first reply cannot be computed.
    """
    try:
        await scored(served.tasks[0], "1")
    except Exception as error:
        raise Unusable(f"its rewards of a first reply fail: {' '.join(str(error).split())[:300]}") from error
    app = web.Application(client_max_size=MOST_BYTES)
    app.router.add_post("/call", served.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    print(f"{len(served.tasks)} tasks at http://{host}:{port}", flush=True)
    await asyncio.Event().wait()


def settings_of(pairs: list[str]) -> dict[str, Any]:
    """The settings of KEY=VALUE, where a value may be JSON."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("taskset", help="the id of an installed taskset")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--tasks", type=int, default=1000, help="the most tasks that are served")
    parser.add_argument("--forgive", action="store_true", help="pay 0 where a reward fails, instead of saying so")
    parser.add_argument("--config", action="append", default=[], metavar="KEY=VALUE", help="a setting of the taskset")
    options = parser.parse_args()
    try:
        tasks = questions(loaded(options.taskset, settings_of(options.config)), options.tasks)
        asyncio.run(serve(Served(tasks, options.forgive), options.host, options.port))
    except Unusable as error:
        print(f"error: {options.taskset} cannot be served: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {options.host}:{options.port} cannot be used: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
