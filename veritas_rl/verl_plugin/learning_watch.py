"""Say what keeps a run from learning: on the console, and at the end of a run that cannot learn."""

import shlex
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from veritas_rl.announcements import NOTHING_LEARNED
from veritas_rl.curriculum.mixture import open_sources
from veritas_rl.envs.base import Reason
from veritas_rl.envs.mixture import parts_of
from veritas_rl.envs.places import as_typed
from veritas_rl.envs.registry import cases_by_environment, get_environment, open_catalogue
from veritas_rl.errors import UserError
from veritas_rl.paths import to_type
from veritas_rl.players.registry import check_bot

BARREN_STEPS = 5
"""A run ends after this many consecutive steps without a learned token or a legal answer."""

EQUAL_STEPS = 10
"""After how many consecutive steps in which every advantage is 0 the console says so."""

UNPAID_STEPS = 3
"""After how many consecutive steps in which no reply earned a reward the console says why."""

UNPAID_AGAIN = 50
"""After how many more such steps the console says it again."""

UNLEARNED = "training/unlearned"
"""The share of a step's replies without a learned token: prompts that were not asked, and replies without a token."""

EQUAL = "training/zero_advantage"
"""The share of a step's replies without an advantage other than 0."""

SKIPPED = "skipped_updates"
"""The number of a step's mini-batches that were left out, below `actor/` and `critic/`."""

LEAVE_OUT = "leave_out"
"""A key of a batch: whether its update is left out. All ranks get the same batch, so they agree."""

REASON = "task/reason/"
"""The prefix of the shares of a step's tasks by the reason of their end, see `Reason`."""

FORMAT, LENGTH, MOVES, STRENGTH = "format", "length", "moves", "strength"

CAUSES = {
    Reason.TRUNCATED: LENGTH,
    Reason.OVERLONG: FORMAT,
    Reason.EMPTY: FORMAT,
    Reason.UNPARSEABLE: FORMAT,
    Reason.AMBIGUOUS: FORMAT,
    Reason.ILLEGAL: MOVES,
}
"""What to change if tasks end for a reason without a reward; `STRENGTH` for all others."""

WORDS = {
    Reason.UNPARSEABLE: "without an answer in the format",
    Reason.AMBIGUOUS: "with several answers",
    Reason.LEGAL: "legal but worth 0",
}
"""How a reason is said, if not by its own name."""

NAMED = 0.25
"""A remedy is named if at least this share of the tasks needs it, and always for the commonest reason."""

FEW_CASES = 8
"""The largest number of cases that a command for a warm start names."""


class LearningWatch:
    """Counts consecutive steps from which nothing is learned.

    Args:
        config: verl's full configuration.
    """

    def __init__(self, config: DictConfig) -> None:
        self._config = config
        self._settings: Any = OmegaConf.to_container(config.data.custom_cls.config, resolve=True)
        self._prompt_tokens = config.data.max_prompt_length
        self._barren = self._equal = self._unpaid = 0
        self._reasons: dict[Reason, float] = defaultdict(float)
        """The sums of the shares of the last `_unpaid` steps, by reason."""
        self._reported = False

    def lines(self, metrics: Mapping[str, float]) -> list[str]:
        """The lines for the console after a step.

        Args:
            metrics: The metrics of the step.

        Raises:
            UserError: Nothing could be learned in the last `BARREN_STEPS` steps.
        """
        unlearned, legal = metrics.get(UNLEARNED, 0.0), metrics.get("task/legal", 1.0)
        self._count_rewards(metrics, unlearned)
        # A custom reward may pay for replies that are not legal, and its advantages teach something.
        worthless = not metrics.get("task/reward") or metrics.get(EQUAL) == 1
        self._barren = self._barren + 1 if unlearned == 1 or (not legal and worthless) else 0
        if self._barren == BARREN_STEPS:
            raise UserError(self._end(metrics, unlearned))
        found = []
        skipped = max(metrics.get(f"{learner}/{SKIPPED}", 0.0) for learner in ("actor", "critic"))
        if skipped and unlearned and not self._reported:
            self._reported = True
            found.append(
                f"{NOTHING_LEARNED}{unlearned:.0%} of the replies have no learned token (updates left out: "
                f"{skipped:g}): {self._cause(metrics)}"
            )
        if self._unpaid % UNPAID_AGAIN == UNPAID_STEPS:
            why = self._why({reason: total / self._unpaid for reason, total in self._reasons.items()}, metrics)
            found.append(f"{NOTHING_LEARNED}no reply of the last {self._unpaid} steps earned a reward: {why}")
        self._equal = self._equal + 1 if metrics.get(EQUAL) == 1 and not self._unpaid else 0
        if self._equal == EQUAL_STEPS:
            found.append(
                f"{NOTHING_LEARNED}for {EQUAL_STEPS} steps the games of each task had equal rewards, so every "
                f"advantage is 0: choose easier or harder tasks{self._or_curriculum()}"
            )
        return found

    def _end(self, metrics: Mapping[str, float], unlearned: float) -> str:
        if unlearned == 1:
            return f"no token was learned in the last {BARREN_STEPS} steps: {self._cause(metrics)}"
        # A reply of too many characters is `overlong` too, and has learned tokens.
        unasked = min(unlearned, metrics.get("task/overlong", 0.0))
        return (
            f"no reply of the last {BARREN_STEPS} steps was a legal answer, so nothing can be learned: "
            f"{self._cause(metrics) if unasked >= 0.5 else self._why(_shares(metrics), metrics)}"
        )

    def _count_rewards(self, metrics: Mapping[str, float], unlearned: float) -> None:
        if metrics.get("task/reward") != 0 or unlearned == 1:
            self._unpaid = 0
            self._reasons.clear()
            return
        self._unpaid += 1
        for reason, share in _shares(metrics).items():
            self._reasons[reason] += share

    def _why(self, shares: Mapping[Reason, float], metrics: Mapping[str, float]) -> str:
        """The shares of the reasons of replies without a reward, and what to do about the commonest."""
        causes: dict[str, float] = defaultdict(float)
        for reason, share in shares.items():
            causes[CAUSES.get(reason, STRENGTH)] += share
        first, *others = sorted(causes, key=lambda cause: -causes[cause])
        # If the replies that end in time have no answer, a longer limit does not help.
        also = {FORMAT} if first == LENGTH else set[str]()
        named = [first, *(cause for cause in others if causes[cause] >= NAMED or cause in also)]
        common = sorted(shares, key=lambda reason: -shares[reason])
        said = ", ".join(f"{shares[reason]:.0%} {WORDS.get(reason, reason)}" for reason in common)
        return f"{said}: {'; '.join(self._remedy(cause, metrics) for cause in named)}"

    def _remedy(self, cause: str, metrics: Mapping[str, float]) -> str:
        if cause == LENGTH:
            return f"set data.max_response_length={2 * self._config.data.max_response_length}"
        if cause == STRENGTH:
            return f"choose easier tasks or a weaker opponent{self._or_curriculum()}"
        lack = "answer format" if cause == FORMAT else "legal answers"
        return f"teach the model the {lack} first: {self._warm_start(metrics)}"

    def _or_curriculum(self) -> str:
        """The setting of the default curriculum; "" if the run has a curriculum, or its tasks have no default."""
        if self._settings.get("curriculum") is not None:
            return ""
        try:
            open_sources({**self._settings, "curriculum": {}})
        except UserError:
            return ""
        return ", or set data.custom_cls.config.curriculum={}"

    def _warm_start(self, metrics: Mapping[str, float]) -> str:
        """The commands that make demonstrations of the tasks of an environment and train the run's model on them.

        Of several environments it is the one that earned least, with the fewest legal answers.
        """
        part = min(
            parts_of(self._settings),
            key=lambda part: [metrics.get(f"{part.env}/{name}", 1.0) for name in ("reward", "legal")],
        )
        tasks = open_catalogue(part.settings, "train")
        cases = cases_by_environment(tasks)[part.env][:FEW_CASES]
        options = [
            *("--env", as_typed(part.env), "--cases", ",".join(cases), "--prompt", tasks[0].manner.prompt),
            *(("--mode", tasks[0].mode) if tasks[0].mode != "move" else ()),
        ]
        try:
            check_bot(get_environment(part.env).expert, part.env, cases)
        except UserError:
            # The exact solution exists only for small games. Random legal answers teach the format of all.
            options += ["--expert", "random"]
        model = shlex.quote(self._config.actor_rollout_ref.model.path)
        return to_type(
            f"python train/tools/generate_demonstrations.py {shlex.join(options)} && "
            f"AGENT_MODEL_REPO_ID={model} bash train/scripts/openspiel-SFT-trainer.sh"
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


def _shares(metrics: Mapping[str, float]) -> dict[Reason, float]:
    return {Reason(name.removeprefix(REASON)): share for name, share in metrics.items() if name.startswith(REASON)}
