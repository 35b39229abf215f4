"""Tasks of one answer: a taskset of verifiers."""

from veritas_moves.taskset import MovesEnv, MovesTaskset

__all__ = ["MovesEnv", "MovesTaskset"]
