"""A script that runs inside GNU Backgammon (gnubg -t -p FILE), whose Python has the module `gnubg`.

It answers a line "win PLIES ID ..." with the winning probability of the player on roll in each position, and any other
line with "ready".
"""

import os
import sys


def serve() -> None:
    """Answer lines until the end of the input."""
    import gnubg  # pyright: ignore[reportMissingImports]

    # A match to 1 point, in which gammons and the cube do not count.
    cube = gnubg.cubeinfo(1, -1, 0, 1, (0, 0), 0)
    for line in sys.stdin:
        word, *arguments = line.split()
        if word != "win":
            print("ready", flush=True)
            continue
        context = {"cubeful": 0, "plies": int(arguments[0]), "deterministic": 1, "noise": 0.0}
        boards = map(gnubg.positionfromid, arguments[1:])
        print("win", *(f"{gnubg.evaluate(board, cube, context)[0]:.6f}" for board in boards), flush=True)
    # Without this, GNU Backgammon would continue to read commands.
    os._exit(0)


if __name__ == "__main__":
    serve()
