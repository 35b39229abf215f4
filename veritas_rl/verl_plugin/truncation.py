"""Warn once on the console if many replies are truncated at the token limit, which teaches a model little."""

from veritas_rl.announcements import REPLIES_CUT

SHARE = 0.2
"""The warning requires a larger share of truncated replies than this."""

STEPS = 10
"""How many consecutive steps must exceed the share."""


class TruncationWatch:
    """Counts consecutive steps with many truncated replies.

    Args:
        tokens: The token limit of a reply.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._steps = 0

    def message(self, share: float) -> str | None:
        """A line for the console when the share is exceeded for the `STEPS`-th consecutive step, else None.

        Args:
            share: The share of truncated replies in a step.
        """
        self._steps = self._steps + 1 if share > SHARE else 0
        if self._steps != STEPS:
            return None
        return (
            f"{REPLIES_CUT}{share:.0%} end at the limit of {self._tokens} tokens, and more than {SHARE:.0%} did for "
            f"{STEPS} steps: raise data.max_response_length, or set "
            "data.apply_chat_template_kwargs.enable_thinking=false if it is true"
        )
