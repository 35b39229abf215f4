"""Shared prompts, as far as torch is not needed: the setting, the bound of a sequence, and the name of the engines.

`verl_plugin.shared_prompts` has the engines.
"""

KEY = "actor_rollout_ref.actor.use_prefix_grouper"
"""The setting that lets the replies of a group share its prompt. verl's older trainer has it under this name."""

VENDOR = "shared_prompts"
"""The vendor under which verl's registry has the engines. The environment variable VERL_ENGINE_VENDOR chooses it."""

LONGEST = 1024
"""The most tokens of a sequence with several replies. Attention to other replies is computed and masked, so a longer
sequence would cost more than the copies of its prompt."""


def replies_together(group: int, prompt: int, reply: int) -> int:
    """The replies of a sequence, if all prompts and all replies are equally long.

    Args:
        group: The number of replies to each prompt.
        prompt: The length of a prompt in tokens.
        reply: The length of a reply in tokens.
    """
    return max(1, min(group, (LONGEST - prompt) // max(1, reply)))
