"""Says once on the console that rollout and trainer give other probabilities to the same tokens.

Both compute with the same weights, so they differ by rounding alone. More says that the rollout has other weights, a
garbled cache, or another template, and what it plays teaches the trainer little.
"""

ANNOUNCEMENT = "rollout and trainer disagree: "
"""How the line begins, by which the launcher finds it in verl's log."""

METRIC = "training/rollout_probs_diff_mean"
"""The mean over the tokens of all replies of the difference of their probabilities, as verl computes it."""

# Measured on a CPU, on replies of 12 tokens of three small models that RL had trained on Kuhn poker and Hex, the mean
# of each: trainer and rollout in fp32 0.0000, 0.0000, 0.0000; fp32 weights that compute in bf16 beside a rollout in
# bf16 0.0008, 0.0002, 0.0005; with a base of NF4 in the trainer 0.018, 0.002, 0.003, and 0.008 to 0.011 in a training.
# With the weights of before the training in the rollout, as if none had been delivered: 0.135, 0.107, 0.155. vLLM has
# kernels of its own: 0.004 is reported for it beside transformers and FSDP 2 (verl-project/verl-omni#637).
BOUND = 0.02
"""The most that 16 bits explain: five times what is reported."""

BOUND_4_BIT = 0.05
"""The most that a base of 4 bits in the trainer explains, beside one of 16 bits in the rollout."""

STEPS = 3
"""In so many steps one after the other."""


class AgreementWatch:
    """Counts the steps in which they disagree.

    Args:
        four_bit: Whether the trainer's base has 4 bits.
    """

    def __init__(self, four_bit: bool) -> None:
        self._bound = BOUND_4_BIT if four_bit else BOUND
        self._steps = 0

    def message(self, difference: float | None) -> str | None:
        """A line for the console at the last of `STEPS` such steps in a row, and None otherwise.

        Args:
            difference: The metric of a step; None where verl does not compute it.
        """
        self._steps = self._steps + 1 if difference is not None and difference > self._bound else 0
        if self._steps != STEPS:
            return None
        return (
            f"{ANNOUNCEMENT}{METRIC} is {difference:.3f} and was over {self._bound} for {STEPS} steps, where rounding "
            "explains less: see docs/troubleshooting.md"
        )
