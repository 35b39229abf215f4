"""Warn once on the console if rollout and trainer disagree about the probabilities of the same tokens.

Both use the same weights, so their probabilities should differ by rounding only. A larger difference means that the
rollout has other weights, a corrupt cache, or another chat template. The model then learns little from the games.
"""

from veritas_rl.announcements import DISAGREEMENT

METRIC = "training/rollout_probs_diff_mean"
"""The mean difference of the probabilities over the tokens of all replies, as verl computes it."""

# Means measured on a CPU with replies of 12 tokens of three small models that RL had trained on Kuhn poker and Hex.
# Trainer and rollout in fp32: 0.0000, 0.0000, 0.0000. Trainer with fp32 weights and bf16 arithmetic, rollout in bf16:
# 0.0008, 0.0002, 0.0005. Trainer with an NF4 base: 0.018, 0.002, 0.003, and 0.008 to 0.011 during a training. Rollout
# with the weights from before the training, as if weight sync had failed: 0.135, 0.107, 0.155.
# verl-project/verl-omni#637 reports 0.004 between vLLM's kernels and transformers with FSDP 2.
BOUND = 0.02
"""The bound for 16-bit rounding: five times the reported value."""

BOUND_4_BIT = 0.05
"""The bound for a 4-bit base in the trainer and a 16-bit base in the rollout."""

STEPS = 3
"""How many consecutive steps must exceed the bound."""


class AgreementWatch:
    """Counts consecutive steps with disagreement.

    Args:
        four_bit: Whether the trainer's base has 4 bits.
    """

    def __init__(self, four_bit: bool) -> None:
        self._bound = BOUND_4_BIT if four_bit else BOUND
        self._steps = 0

    def message(self, difference: float | None) -> str | None:
        """A line for the console when the bound is exceeded for the `STEPS`-th consecutive step, else None.

        Args:
            difference: The metric of a step; None if verl does not compute it.
        """
        self._steps = self._steps + 1 if difference is not None and difference > self._bound else 0
        if self._steps != STEPS:
            return None
        return (
            f"{DISAGREEMENT}{METRIC} is {difference:.3f} and exceeded {self._bound}, the bound for rounding, for "
            f"{STEPS} steps: see docs/troubleshooting.md"
        )
