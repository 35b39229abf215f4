"""Runs inside GNU Backgammon (gnubg -t -p FILE), whose Python offers the module `gnubg`.

It answers "ready", and to a line "win PLIES ID ..." the winning probabilities of the players on roll.
"""

import os
import sys


def serve() -> None:
    """Answer lines until there are no more."""
    import gnubg  # pyright: ignore[reportMissingImports]

    # The last point of a match, in which gammons and the cube do not count.
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
