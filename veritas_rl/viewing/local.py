"""Serves pages to this machine only.

Other sites in the browser cannot use these pages: a request must name this machine as its host, and the body of a POST
must be JSON, which a browser sends across sites only with permission of the target.
"""

import json
import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from veritas_rl.errors import UserError

HOST = "127.0.0.1"

NAMES = frozenset({HOST, "localhost", "[::1]"})
"""The host names that local browsers use for this machine. Requests with another name are refused."""

MOST_BYTES = 10_000
"""The maximum size of a request in bytes. Larger requests are refused."""


def local_app() -> FastAPI:
    """An application for this machine only. A `UserError` becomes a response with its message and HTTP status 409."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def check(request: Request, call_next: Callable[..., Any]) -> Response:
        response = _refusal(request) or await call_next(request)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    @app.exception_handler(UserError)
    async def refused(request: Request, error: UserError) -> Response:
        return answer({"error": str(error)}, 409)

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return answer({"error": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"}, 422)

    return app


def answer(values: Any, code: int = 200) -> Response:
    """Plain values as ASCII JSON, because a model may write text that is invalid in UTF-8, such as a lone surrogate."""
    return Response(json.dumps(values), code, media_type="application/json")


def _refusal(request: Request) -> Response | None:
    host = request.headers.get("host", "").lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if name not in NAMES:
        return answer({"error": "this page is for the machine that it runs on"}, 403)
    if request.method != "POST":
        return None
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return answer({"error": "a request has a body of application/json"}, 415)
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > MOST_BYTES:
        return answer({"error": f"a request has a Content-Length of at most {MOST_BYTES}"}, 413)
    return None


def serve_locally(app: FastAPI, port: int, what: str, browser: bool) -> None:
    """Serve an application to this machine until Ctrl-C.

    Args:
        app: The application.
        port: The port; 0 for any free port.
        what: A word for the printed line with the address, such as "play".
        browser: Whether to open the page in a browser if there is a screen.

    Raises:
        UserError: The port is in use.
    """
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, port))
            listening.listen()
        except OSError as error:
            raise UserError(
                f"port {port} cannot be used ({error.strerror}); give another --port, or 0 for a free one"
            ) from error
        url = f"http://{HOST}:{listening.getsockname()[1]}"
        print(f"{what} at {url} (Ctrl-C ends it)", flush=True)
        if browser and _has_screen():
            webbrowser.open(url)
        settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(settings).run([listening])


def _has_screen() -> bool:
    """Whether a browser can open a window. Without a screen, Python would start a browser inside the terminal."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
