"""A finished game of an evaluation, as a line of the ledger."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from veritas_rl.envs.base import Reason


@dataclass(frozen=True)
class FinishedGame:
    """A finished game, or an answered task, as a record of the ledger.

    Attributes:
        key: See `Pairing.key`.
        task: The task's id.
        case: The case.
        group: The group of the task in its environment, such as a level.
        mode: "episode" for a whole game, "move" for a single answer.
        cluster: The class of results that are resampled together: a deal, or a class of equivalent tasks.
        deal: The number of the deal, or of the task.
        seat: The judged seat; -1 if the session decides.
        player: The judged player, as the user named it.
        opponent: The player on the other seats.
        value: The judged seat's score in [0, 1].
        success: Whether the judged player won, or solved the task.
        reason: The reason of the end for the judged seat.
        moves: The number of answers of the judged player.
        prompt_tokens: The number of its prompt tokens.
        tokens: The number of tokens that it generated.
        trajectory_hash: A digest of all messages and of the score; equal for games with the same moves.
        measures: The measures of the game at its end, such as points, by name.
    """

    key: str
    task: str
    case: str
    group: str
    mode: str
    cluster: str
    deal: int
    seat: int
    player: str
    opponent: str
    value: float
    success: bool
    reason: Reason
    moves: int
    prompt_tokens: int
    tokens: int
    trajectory_hash: str
    measures: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def env(self) -> str:
        """The environment."""
        return self.task.partition("/")[0]

    @property
    def part(self) -> str:
        """The unit of the report: the case of a whole game, the group of a single answer."""
        return self.case if self.mode == "episode" else self.group

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "FinishedGame":
        """The record of a line that `to_json` wrote.

        Raises:
            ValueError: The line is no such record.
        """
        try:
            values = json.loads(text)
            return cls(**{**values, "reason": Reason(values["reason"])})
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error
