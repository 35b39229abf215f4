"""A local hub with the part of the Hugging Face hub's HTTP interface that a commit of small files needs.

The interface is documented at https://huggingface.co/docs/hub/api and in huggingface_hub/_commit_api.py.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub(ThreadingHTTPServer):
    """Keeps repositories in memory.

    Attributes:
        token: The only token that may write.
        private: Whether a repository is private, by its name.
        files: The files of each repository, by its name.
    """

    token = "hf_secretsecret"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.private: dict[str, bool] = {}
        self.files: dict[str, dict[str, bytes]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Hub  # type: ignore[assignment]

    def answer(self, values: Any, code: int = 200) -> None:
        body = json.dumps(values).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        repository = self.path.partition("?")[0].removeprefix("/api/models/")
        if repository not in self.server.private:
            return self.answer({"error": "Repository not found"}, 404)
        self.answer({"id": repository, "private": self.server.private[repository], "siblings": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        if self.headers["Authorization"] != f"Bearer {self.server.token}":
            return self.answer({"error": f"Invalid token {self.headers['Authorization']}"}, 401)
        if path == "/api/repos/create":
            asked = json.loads(body)
            repository = f"{asked['organization']}/{asked['name']}"
            if repository in self.server.private:
                url = f"{self.server.address}/{repository}"
                return self.answer({"error": "You already created this model repo", "url": url}, 409)
            self.server.private[repository] = asked["visibility"] == "private"
            return self.answer({"url": f"{self.server.address}/{repository}", "name": repository})
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        repository, _, action = path.removeprefix("/api/models/").rpartition("/main")[0].rpartition("/")
        if action == "preupload":
            asked = json.loads(body)["files"]
            answers = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in asked]
            return self.answer({"files": answers})
        if action == "commit":
            lines = [json.loads(line) for line in body.splitlines()]
            self.server.files[repository] = {
                line["value"]["path"]: base64.b64decode(line["value"]["content"])
                for line in lines
                if line["key"] == "file"
            }
            url = f"{self.server.address}/{repository}/commit/0"
            return self.answer({"success": True, "commitOid": "0" * 40, "commitUrl": url})
        self.answer({"error": f"what is {path}?"}, 400)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def running() -> Iterator[Hub]:
    """A hub that runs until the block ends."""
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()
