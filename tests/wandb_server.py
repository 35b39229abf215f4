"""A minimal Weights & Biases server: the client can open a run and send its metrics.

    python tests/wandb_server.py PORT LOG

Each line of LOG has the path of a request and its body.
"""

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

OWNER = {"id": "e", "name": "e"}
ANSWERS: dict[str, Any] = {
    "viewer": {"id": "v", "entity": "e", "username": "u", "email": "", "flags": "{}", "teams": {"edges": []}},
    "model": {"id": "m", "name": "p", "entity": OWNER, "bucket": None},
    "upsertBucket": {
        "inserted": True,
        "bucket": {
            **{"id": "x", "name": "r", "displayName": "r", "description": "", "config": "{}", "sweepName": None},
            **{"historyLineCount": 0, "project": {"id": "p", "name": "p", "entity": OWNER}},
        },
    },
}


class Handler(BaseHTTPRequestHandler):
    """Answers requests, and logs the posted data."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with an empty object."""
        self._answer({})

    def do_POST(self) -> None:
        """Answer a GraphQL query, or accept metrics."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        text = (gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body).decode(errors="replace")
        with Path(sys.argv[2]).open("a") as log:
            log.write(f"{self.path} {' '.join(text.split())}\n")
        if not self.path.startswith("/graphql"):
            self._answer({})
            return
        asked = json.loads(text)
        query, variables = asked["query"], asked.get("variables") or {}
        if "createRunFiles" in query:
            files = [
                {"name": name, "uploadUrl": f"http://127.0.0.1:{sys.argv[1]}/up/{name}"} for name in variables["files"]
            ]
            self._answer({"data": {"createRunFiles": {"runID": "x", "uploadHeaders": [], "files": files}}})
            return
        name = next((name for name in ("upsertBucket", "model", "viewer") if f"{name}(" in query), "viewer")
        answer = ANSWERS[name]
        if name == "upsertBucket":
            answer = {**answer, "bucket": {**answer["bucket"], "name": variables["name"]}}
        self._answer({"data": {name: answer} if name in query else {}})

    do_PUT = do_POST

    def _answer(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing to the terminal."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
