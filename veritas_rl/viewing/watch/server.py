"""The page of a folder's runs, served to this machine only. It reads and never writes."""

from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Query, Response
from fastapi.responses import HTMLResponse

from veritas_rl.errors import UserError
from veritas_rl.viewing.local import answer, local_app, serve_locally
from veritas_rl.viewing.page import render_page
from veritas_rl.viewing.watch.runs import Run, Runs, curves

MOST_RUNS, MOST_METRICS = 12, 40
"""The limits of one request."""


def make_app(root: Path, price_hour: float | None = None) -> FastAPI:
    """The application behind the page.

    Args:
        root: The folder whose runs are shown.
        price_hour: The price of an hour of the machine; None if it is unknown.
    """
    app = local_app()
    runs = Runs(root)
    page = render_page(
        "watch/watch.html.jinja",
        scripts=("watch/watch.js",),
        styles=("page.css", "watch/watch.css"),
        connects=True,
        root=str(root),
    )

    def run_of(name: str) -> Run:
        run = runs.get(name)
        if run is None:
            raise UserError(f"the run {name!r} does not exist here")
        return run

    @app.get("/", response_class=HTMLResponse)
    def show() -> str:
        return page

    @app.get("/runs")
    def listed() -> Response:
        return answer([run.summary() for run in runs.all()])

    @app.get("/run")
    def one(name: str) -> Response:
        details = run_of(name).details()
        money = None if price_hour is None else price_hour * details["seconds"] / 3600
        return answer({**details, "money": money})

    @app.get("/curves")
    def drawn(run: Annotated[list[str], Query()], metric: Annotated[list[str], Query()]) -> Response:
        if len(run) > MOST_RUNS or len(metric) > MOST_METRICS:
            raise UserError(f"one request draws at most {MOST_RUNS} runs and {MOST_METRICS} metrics; select fewer")
        return answer(curves([run_of(name) for name in run], metric))

    @app.get("/page")
    def opened(name: str, page: str) -> Response:
        run = run_of(name)
        if page not in run.pages():
            raise UserError(f"the page {page!r} does not exist in {name}")
        # Scripts of a page may not send requests to this server, because a page may come from anywhere.
        return HTMLResponse(
            (run.folder / page).read_bytes(), headers={"Content-Security-Policy": "sandbox allow-scripts"}
        )

    return app


def serve(root: Path, port: int, browser: bool, price_hour: float | None = None) -> None:
    """Serve the page until Ctrl-C; see `serve_locally`."""
    serve_locally(make_app(root, price_hour), port, "Watch", browser)
