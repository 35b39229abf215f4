"""Starts of the lines in verl's log that are meant for people: the launcher and the watch page look for them."""

STAGE = "curriculum: stage "
"""A curriculum has reached a stage."""
REPLIES_CUT = "replies are cut: "
"""Many replies end at the limit of tokens."""
DISAGREEMENT = "rollout and trainer disagree: "
"""The log-probabilities of rollout and trainer differ by more than rounding explains."""
NOTHING_LEARNED = "nothing is learned: "
"""Mini-batches have no learned token, or every advantage is 0."""
DISK = "the disk is nearly full: "
"""The free space is near the size of a checkpoint."""
REWARDS_OUTSIDE = "rewards leave the range of 0 to 1: "
"""A custom reward function has returned such a reward."""
UNREAD_ADAPTER = "the adapter in vLLM cannot be read, so it is not compared with the trainer's: "
"""The check after each weight sync has failed for a reason other than a different adapter."""
WEIGHTS_REFUSED = "vLLM has not taken the new weights: "
"""The weight sync has failed in vLLM, and the run ends."""

STARTS = (
    *(STAGE, REPLIES_CUT, DISAGREEMENT, NOTHING_LEARNED, DISK, REWARDS_OUTSIDE),
    *(UNREAD_ADAPTER, WEIGHTS_REFUSED),
)
PATTERN = f"(?:{'|'.join(STARTS)})[^\\r\\n]+"
"""A regular expression of such a line."""
