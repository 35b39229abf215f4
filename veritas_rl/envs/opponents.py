"""The opponent of a whole game, as the settings `opponent` and `past_opponent_share` choose it."""

from veritas_rl.seeding import digest


def opponent_of(opponent: str, past_share: float, split: str, *identity: str | int) -> str:
    """The opponent of a task.

    Args:
        opponent: The configured opponent. "self" means the trained model in training, and "random" in validation.
        past_share: With opponent "self", the share of games against an earlier checkpoint.
        split: "train" or "val".
        identity: The seed of the set of tasks, the case, and the number of the task.
    """
    if opponent != "self":
        return opponent
    if split != "train":
        return "random"
    return "past" if digest("past opponent", *identity) / 2**64 < past_share else "self"
