"""A small OpenAI-compatible chat server: the generation engine behind Python's own HTTP server."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from veritas_rl.chat_template import prompt_ids
from veritas_rl.players.generation import GenerationEngine
from veritas_rl.players.language_model import load_language_model
from veritas_rl.players.sampling import SamplingParams


class ChatServer:
    """Serves a model's folder on a free port of this machine.

    Args:
        folder: The model's folder.
        names: The model names that the server lists.
        failures: The number of first requests that get HTTP 503.
        delay: Seconds before each answer.
        longest: The most tokens of prompt and reply together.
        key: The required API key; None for none.
    """

    def __init__(
        self,
        folder: Path,
        names: tuple[str, ...] = ("tiny",),
        failures: int = 0,
        delay: float = 0.0,
        longest: int = 2048,
        key: str | None = None,
    ) -> None:
        model, self.tokenizer = load_language_model(folder)
        self.engine = GenerationEngine(
            model, (self.tokenizer.eos_token_id,), self.tokenizer.pad_token_id, max_model_len=longest
        )
        self.names, self.failures, self.delay, self.longest, self.key = names, failures, delay, longest, key
        self.asked: list[dict[str, Any]] = []
        self.running = self.most_running = 0
        self.lock, self.closed = threading.Lock(), threading.Event()
        handler = type("Handler", (_Handler,), {"chat": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Close the port and the engine."""
        self.closed.set()
        self.http.shutdown()
        self.http.server_close()
        self.engine.close()

    def complete(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The HTTP code and the answer of one chat completion."""
        with self.lock:
            self.asked.append(body)
            if self.failures:
                self.failures -= 1
                return 503, {"error": {"message": "busy"}}
        if self.closed.wait(self.delay):
            return 503, {"error": {"message": "closing"}}
        prompt = prompt_ids(self.tokenizer, body["messages"])
        if len(prompt) + body["max_tokens"] > self.longest:
            return 400, {"error": {"message": f"This model's maximum context length is {self.longest} tokens."}}
        params = SamplingParams(body["max_tokens"], body["temperature"], body["top_p"], seed=body["seed"])
        (completion,) = self.engine.generate([(prompt, params)])
        text = self.tokenizer.decode(completion.token_ids, skip_special_tokens=True)
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": completion.stop_reason}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(completion.token_ids)}
        return 200, {"choices": [choice], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    chat: ChatServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.chat.key and self.headers["Authorization"] != f"Bearer {self.chat.key}":
            self._answer(401, {"error": {"message": "no key"}})
        else:
            self._answer(200, {"data": [{"id": name} for name in self.chat.names]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.chat.lock:
            self.chat.running += 1
            self.chat.most_running = max(self.chat.most_running, self.chat.running)
        code, answer = self.chat.complete(body)
        with self.chat.lock:
            self.chat.running -= 1
        self._answer(code, answer)

    def _answer(self, code: int, answer: dict[str, Any]) -> None:
        text = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        try:
            self.wfile.write(text)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client closed the connection

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
