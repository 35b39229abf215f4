"""Starts of the lines in verl's log that are meant for people: the launcher and the watch page look for them."""

STAGE = "curriculum: stage "
"""A curriculum has reached a stage."""
REPLIES_CUT = "replies are cut: "
"""Many replies end at the limit of tokens."""
DISAGREEMENT = "rollout and trainer disagree: "
"""The log-probabilities of rollout and trainer differ by more than rounding explains."""
DISK = "the disk is nearly full: "
"""The free space is near the size of a checkpoint."""

PATTERN = f"(?:{STAGE}|{REPLIES_CUT}|{DISAGREEMENT}|{DISK})[^\\r\\n]+"
"""A regular expression of such a line."""
