"""Say which setting keeps a run from learning: on the console once, and at the end of a run that cannot learn."""

from collections.abc import Mapping

from omegaconf import DictConfig

from veritas_rl.announcements import NOTHING_LEARNED
from veritas_rl.errors import UserError

BARREN_STEPS = 5
"""A run ends after this many consecutive steps without a learned token or a legal answer."""

EQUAL_STEPS = 10
"""After how many consecutive steps in which every advantage is 0 the console says so."""

UNLEARNED = "training/unlearned"
"""The share of a step's replies without a learned token: prompts that were not asked, and replies without a token."""

EQUAL = "training/zero_advantage"
"""The share of a step's replies that the estimators `grpo` and `rae` give the advantage 0."""

SKIPPED = "skipped_updates"
"""The number of a step's mini-batches that were left out, below `actor/` and `critic/`."""


class LearningWatch:
    """Counts consecutive steps from which nothing is learned.

    Args:
        config: verl's full configuration.
    """

    def __init__(self, config: DictConfig) -> None:
        self._prompt_tokens = config.data.max_prompt_length
        self._barren = self._equal = 0
        self._reported = False

    def lines(self, metrics: Mapping[str, float]) -> list[str]:
        """The lines for the console after a step.

        Args:
            metrics: The metrics of the step.

        Raises:
            UserError: Nothing could be learned in the last `BARREN_STEPS` steps.
        """
        unlearned, legal = metrics.get(UNLEARNED, 0.0), metrics.get("task/legal", 1.0)
        self._barren = self._barren + 1 if unlearned == 1 or not legal else 0
        if self._barren == BARREN_STEPS:
            raise UserError(self._end(metrics, unlearned))
        found = []
        skipped = max(metrics.get(f"{learner}/{SKIPPED}", 0.0) for learner in ("actor", "critic"))
        if skipped and not self._reported:
            self._reported = True
            found.append(
                f"{NOTHING_LEARNED}{unlearned:.0%} of the replies have no learned token (updates left out: "
                f"{skipped:g}): {self._cause(metrics)}"
            )
        self._equal = self._equal + 1 if metrics.get(EQUAL) == 1 else 0
        if self._equal == EQUAL_STEPS:
            found.append(
                f"{NOTHING_LEARNED}for {EQUAL_STEPS} steps the games of each task had equal rewards, so every "
                "advantage is 0: choose easier or harder tasks, or set data.custom_cls.config.curriculum={}"
            )
        return found

    def _end(self, metrics: Mapping[str, float], unlearned: float) -> str:
        if unlearned == 1:
            return f"no token was learned in the last {BARREN_STEPS} steps: {self._cause(metrics)}"
        cause = (
            "start from a model that knows the answer format (bash train/scripts/openspiel-SFT-trainer.sh), or raise "
            "data.max_response_length if replies are truncated (task/truncated)"
        )
        # A reply of too many characters is `overlong` too, and has learned tokens.
        unasked = min(unlearned, metrics.get("task/overlong", 0.0))
        return (
            f"no reply of the last {BARREN_STEPS} steps was a legal answer, so nothing can be learned: "
            f"{self._cause(metrics) if unasked >= 0.5 else cause}"
        )

    def _cause(self, metrics: Mapping[str, float]) -> str:
        if overlong := metrics.get("task/overlong", 0.0):
            return (
                f"{overlong:.0%} of the prompts are longer than {self._prompt_tokens} tokens and were not asked "
                "(task/overlong): raise data.max_prompt_length"
            )
        return (
            "the model was not asked, had no room, or returned no token: read some replies "
            "(+trainer.rollout_data_dir=FOLDER), or raise data.max_response_length"
        )
