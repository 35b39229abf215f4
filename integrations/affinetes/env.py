"""What affinetes' tool builds an image from: its server finds `Actor` here, and calls these methods.

    bash integrations/pack.sh affinetes FOLDER
    python -c 'import affinetes; affinetes.build_image_from_env("FOLDER", "veritas-rl:latest")'

VERITAS_ENV names the environment of the image: openspiel (the default), lgc-v2 or trace.
"""

import asyncio
import os
from typing import Any

from veritas_rl.serving.affinetes import Call, Methods
from veritas_rl.serving.episodes import Episodes
from veritas_rl.serving.limits import Limits
from veritas_rl.serving.offer import Offer
from veritas_rl.serving.room import Room, Workers


class Actor:
    """The methods of `train/tools/serve.py`, without its server."""

    def __init__(self) -> None:
        limits = Limits()
        self._make = lambda: Methods(
            Room(
                Offer(os.environ.get("VERITAS_ENV", "openspiel")),
                Episodes(limits.sessions, limits.idle),
                Workers(limits),
            )
        )
        self._methods: Methods | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def _call(self, method: str, given: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        if self._methods is None or self._loop is not loop:  # waiting futures belong to the loop
            self._methods, self._loop = self._make(), loop
        return await self._methods.call(Call(method=method, kwargs=given))

    async def evaluate(self, **given: Any) -> Any:
        """Let a model play a task."""
        return await self._call("evaluate", given)

    async def reset(self, **given: Any) -> Any:
        """Open a session."""
        return await self._call("reset", given)

    async def step(self, action: str, episode_id: str) -> Any:
        """Answer the turn of a session."""
        return await self._call("step", {"action": action, "episode_id": episode_id})

    async def state(self, episode_id: str) -> Any:
        """Look at a session."""
        return await self._call("state", {"episode_id": episode_id})

    async def stop(self, episode_id: str) -> Any:
        """End a session."""
        return await self._call("stop", {"episode_id": episode_id})
