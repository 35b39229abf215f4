"""The page of a game, served to this machine only.

The page is self-contained. It requests the state from `/state`, which answers as soon as the state has changed, and
posts the person's actions.
"""

import threading
from typing import Annotated

from fastapi import Body, FastAPI, Response
from fastapi.responses import HTMLResponse

from veritas_rl.viewing.local import answer, local_app, serve_locally
from veritas_rl.viewing.page import BOARDS, render_page
from veritas_rl.viewing.play.table import Table

WAIT_SECONDS = 20.0
"""The maximum number of seconds that `/state` waits for a change."""

MOST_WAITING = 32
"""The maximum number of requests that wait for a change at once. Each open page makes one request."""


def make_app(table: Table) -> FastAPI:
    """The application behind the page of a game."""
    app = local_app()
    page = render_page(
        "play/play.html.jinja",
        scripts=(*BOARDS, "play/play.js"),
        styles=("page.css", "boards/boards.css", "play/play.css"),
        connects=True,
        case=table.case,
        seats=table.seats,
    )
    waiting = threading.BoundedSemaphore(MOST_WAITING)

    @app.get("/", response_class=HTMLResponse)
    def show() -> str:
        return page

    @app.get("/games", response_class=HTMLResponse)
    def finished() -> str:
        return table.games_page()

    @app.get("/state")
    def state(version: int = -1) -> Response:
        if version >= 0 and waiting.acquire(blocking=False):
            try:
                table.wait(version, WAIT_SECONDS)
            finally:
                waiting.release()
        return answer(table.values())

    @app.get("/said")
    def said(move: int) -> Response:
        return answer(vars(table.said(move)))

    @app.get("/hints")
    def hints() -> Response:
        return answer(table.hints())

    @app.post("/choose")
    def choose(choice: Annotated[int, Body()], place: Annotated[str, Body()]) -> Response:
        table.choose(choice, place)
        return answer(table.values())

    @app.post("/type")
    def type_(text: Annotated[str, Body()], place: Annotated[str, Body()]) -> Response:
        table.type(text, place)
        return answer(table.values())

    @app.post("/undo")
    def undo() -> Response:
        table.undo()
        return answer(table.values())

    @app.post("/new")
    def new(seat: Annotated[int, Body(embed=True)]) -> Response:
        table.new_game(seat)
        return answer(table.values())

    @app.post("/again")
    def again() -> Response:
        table.ask_again()
        return answer(table.values())

    return app


def serve(table: Table, port: int, browser: bool) -> None:
    """Serve the page of a game until Ctrl-C; see `serve_locally`."""
    serve_locally(make_app(table), port, "Play", browser)
