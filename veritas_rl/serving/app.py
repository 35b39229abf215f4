"""The server: environments by several protocols, behind one guard and with one form of errors.

/            the served environments and models
/health      whether the server is alive
/methods, /call                affinetes, for the first environment; for others with their names: /trace/call
/ws, /reset, /step             OpenEnv, likewise
/v1/models, /v1/chat/completions   OpenAI's chat completions, if a model is served
/openapi.json                  the routes and their arguments

Every error is {"detail": "one line"}.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from veritas_rl.errors import UserError
from veritas_rl.serving import affinetes, openenv
from veritas_rl.serving.episodes import Episodes, Refused
from veritas_rl.serving.limits import App, Guard, Limits, error_body
from veritas_rl.serving.offer import Offer
from veritas_rl.serving.room import Room, Workers, described

if TYPE_CHECKING:
    from veritas_rl.serving.chat import ServedModel

LOG = logging.getLogger("veritas_rl.serving")

CASES_NAMED = 100
"""The maximum number of cases that the route / lists for an environment."""


def make_app(
    offers: Sequence[Offer],
    limits: Limits,
    token: str = "",
    hosts: tuple[str, ...] = (),
    models: Mapping[str, "ServedModel"] | None = None,
) -> App:
    """The server's application.

    Args:
        offers: The served environments; the first is also served at the root.
        limits: The limits of the server.
        token: See `Guard`.
        hosts: See `Guard`.
        models: The served models, by name.
    """
    workers, episodes = Workers(limits), Episodes(limits.sessions, limits.idle)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with workers.client:
            yield
        workers.close()

    app = FastAPI(
        title="veritas-rl",
        version="1.0.0",
        lifespan=lifespan,
        default_response_class=JSONResponse,
        docs_url=None,  # FastAPI's documentation pages load scripts from other hosts
        redoc_url=None,
    )
    protocols: dict[str, list[str]] = {}
    if offers:
        protocols["affinetes"] = ["/health", "/methods", "/call"]
        protocols["OpenEnv"] = ["/ws", "/reset", "/step", "/state", "/schema", "/metadata"]
    if models:
        # Imported late, because it imports torch.
        from veritas_rl.serving import chat

        protocols["OpenAI"] = ["/v1/models", "/v1/chat/completions"]
        app.include_router(chat.routes(models))
    rooms = [Room(offer, episodes, workers) for offer in offers]

    @app.get("/")
    async def served() -> dict[str, Any]:
        """The served environments and models."""
        return {
            "server": "veritas-rl",
            "models": list(models or {}),
            "environments": {offer.name: _described(offer) for offer in offers},
            "protocols": protocols,
            "sessions": {"open": len(episodes), "most": limits.sessions, "idle_seconds": limits.idle},
            "limits": {"body_bytes": limits.body, "seconds": limits.seconds, "evaluations": limits.evaluations},
        }

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the server is alive."""
        return {"status": "healthy"}

    for place, room in enumerate(rooms):
        for prefix in [f"/{room.offer.name}", *([""] if place == 0 else [])]:
            app.include_router(affinetes.routes(room), prefix=prefix)
            app.include_router(openenv.routes(room), prefix=prefix)
            if prefix:
                app.add_api_route(f"{prefix}/health", health, name=f"health_{room.offer.name}")

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return _error(error.code, str(error))

    @app.exception_handler(UserError)
    async def wrong(request: Request, error: UserError) -> Response:
        return _error(HTTPStatus.BAD_REQUEST, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _error(HTTPStatus.UNPROCESSABLE_ENTITY, described(error))

    @app.exception_handler(HTTPException)
    async def refused_by_framework(request: Request, error: HTTPException) -> Response:
        return _error(HTTPStatus(error.status_code), str(error.detail), error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        LOG.error("%s failed", request.url.path, exc_info=error)
        return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "the server failed at this request; its log says why")

    return Guard(app, limits, token, hosts)


def _described(offer: Offer) -> dict[str, Any]:
    named = list(offer.cases[:CASES_NAMED])
    return {
        "cases": named,
        "number_of_cases": len(offer.cases),
        "mode": offer.mode,
        "split": offer.split,
        "opponents": list(offer.opponents),
    }


def _error(code: HTTPStatus, detail: str, headers: Any = None) -> Response:
    return Response(error_body(detail), int(code), headers, "application/json")
