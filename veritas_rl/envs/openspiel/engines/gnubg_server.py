"""Runs inside GNU Backgammon (gnubg -t -p FILE), whose Python offers the module `gnubg`.

Answers "ready", and for each line "win PLIES ID ..." the probabilities to win of the players on roll.
"""

import os
import sys

import gnubg  # pyright: ignore[reportMissingImports]

# The last point of a match: gammons and the cube count for nothing.
CUBE = gnubg.cubeinfo(1, -1, 0, 1, (0, 0), 0)


def evaluate(plies: int, position: str) -> float:
    """The probability to win of the player on roll."""
    context = {"cubeful": 0, "plies": plies, "deterministic": 1, "noise": 0.0}
    return gnubg.evaluate(gnubg.positionfromid(position), CUBE, context)[0]


for line in sys.stdin:
    words = line.split()
    if words[:1] == ["win"]:
        print("win", *(f"{evaluate(int(words[1]), word):.6f}" for word in words[2:]), flush=True)
    else:
        print("ready", flush=True)
# Without this GNU Backgammon would go on to read commands.
os._exit(0)
