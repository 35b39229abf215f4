"""Names once on the console that replies are cut at the token limit, which teaches a model little."""

ANNOUNCEMENT = "replies are cut: "
"""How the line begins, by which the launcher finds it in verl's log."""

SHARE = 0.2
"""The share of cut replies from which on it is said."""

STEPS = 10
"""In so many steps one after the other."""


class TruncationWatch:
    """Counts the steps with many cut replies.

    Args:
        tokens: The limit of a reply.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._steps = 0

    def message(self, share: float) -> str | None:
        """A line for the console at the last of `STEPS` such steps in a row, and None otherwise.

        Args:
            share: Of the replies of a step, those that were cut.
        """
        self._steps = self._steps + 1 if share > SHARE else 0
        if self._steps != STEPS:
            return None
        return (
            f"{ANNOUNCEMENT}{share:.0%} have {self._tokens} tokens and no end, and for {STEPS} steps over "
            f"{SHARE:.0%} had none: raise data.max_response_length, or set "
            "data.apply_chat_template_kwargs.enable_thinking=false if it is true"
        )
