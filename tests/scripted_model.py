"""An OpenAI-compatible server with scripted replies."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Model:
    """An OpenAI-compatible server whose replies are made by `say` from the request.

    `say` returns the text of a reply, or writes to the handler itself and returns None. `list_models` answers GET
    requests; without it they are not found.
    """

    list_models: Callable[[Any], None] | None = None

    def __init__(self, say: Callable[[dict[str, Any], Any], str | None]) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if model.list_models:
                    model.list_models(self)
                    self.close_connection = True
                else:
                    self.send_error(404)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.asked.append(body)
                model.keys.append(self.headers.get("Authorization", ""))
                text = say(body, self)
                if text is None:
                    self.close_connection = True
                    return
                head: dict[str, Any] = {"id": "1", "created": 1, "model": body.get("model", "m")}
                usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
                if body.get("stream"):
                    deltas: Any = ({"role": "assistant", "content": text[:3]}, {"content": text[3:]}, {})
                    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta} for delta in deltas]
                    choices[-1]["finish_reason"] = "stop"
                    pieces: list[dict[str, Any]] = [
                        {**head, "object": "chat.completion.chunk", "choices": [one]} for one in choices
                    ]
                    pieces.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
                    lines = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"
                else:
                    message = {"role": "assistant", "content": text}
                    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
                    lines = json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
                self.send_response(200)
                kind = "text/event-stream" if body.get("stream") else "application/json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(lines)))
                self.end_headers()
                self.wfile.write(lines.encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        class Listening(ThreadingHTTPServer):
            request_queue_size = 256

        self.http = Listening(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()
