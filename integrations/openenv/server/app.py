"""veritas-rl's server, which speaks OpenEnv's protocol: games at the root, puzzles and programs under their names.

uvicorn server.app:app --host 0.0.0.0 --port 8000 --timeout-keep-alive 30
"""

import argparse

from veritas_rl.serving.app import make_app
from veritas_rl.serving.limits import KEEP_ALIVE, Limits
from veritas_rl.serving.offer import Offer

app = make_app([Offer("openspiel"), Offer("lgc-v2"), Offer("trace")], Limits())


def main() -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    parser = argparse.ArgumentParser(description="Serve veritas-rl's environments to OpenEnv's clients.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    uvicorn.run(app, host=given.host, port=given.port, timeout_keep_alive=KEEP_ALIVE)


if __name__ == "__main__":
    main()
