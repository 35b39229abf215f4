"""The OpenSpiel task: the depth of a position, the manner of a game, and the pay of results."""

from dataclasses import dataclass
from typing import ClassVar

from veritas_rl.envs.openspiel.engines.spec import parse_all
from veritas_rl.envs.task import Manner, Parameters, Pay, Task, check_choice, check_least
from veritas_rl.errors import UserError

SCALES = ("auto", "result", "utility")
COVERAGES = ("split", "all")


@dataclass(frozen=True)
class OpenSpielParameters(Parameters):
    """The environment's own part of the identity, which selects the position of a single move.

    Attributes:
        depth: The maximum number of random moves before the position; -1 for positions from every stage of a game.
        coverage: The positions of a single move: "split" for those of the task's split, "all" for those of both splits.
    """

    depth: int = -1
    coverage: str = "split"

    def __post_init__(self) -> None:
        check_least("depth", self.depth, -1)
        check_choice("coverage", self.coverage, COVERAGES)

    def part(self, split: str) -> str:
        """The part of the positions that single moves of `split` come from: "train", "val" or "all"."""
        return split if self.coverage == "split" else self.coverage


@dataclass(frozen=True)
class OpenSpielManner(Manner):
    """How a game is played and shown.

    Attributes:
        retries: The number of corrected mistakes that a seat is allowed in the whole game.
        max_moves: The maximum number of moves of a whole game, over all seats; 0 for `Game.max_moves`.
    """

    retries: int = 0
    max_moves: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least("retries", self.retries, 0)
        check_least("max_moves", self.max_moves, 0)


@dataclass(frozen=True)
class OpenSpielPay(Pay):
    """What a move or a game is worth.

    Attributes:
        scale: The scale from returns to values: "result" pays for winning, "utility" in proportion, "auto" as suits the
            game, see `Game.outcome`.
        playouts: The number of random playouts that value a single move if no better source does; 0 for the default of
            the case.
        engine: The engines that value single moves of their games, separated by commas, see `engines`; "" for none.
    """

    rewards: ClassVar[tuple[str, ...]] = ("legal", "outcome", "optimal")

    scale: str = "auto"
    playouts: int = 0
    engine: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("scale", self.scale, SCALES)
        check_least("playouts", self.playouts, 0)
        parse_all(self.engine)


@dataclass(frozen=True)
class OpenSpielTask(Task):
    """One decision, or one whole game."""

    parameters: OpenSpielParameters = OpenSpielParameters()
    manner: OpenSpielManner = OpenSpielManner()
    pay: OpenSpielPay = OpenSpielPay()

    @property
    def part(self) -> str:
        """The part of the positions that its position comes from, see `OpenSpielParameters.part`."""
        return self.parameters.part(self.split)

    @classmethod
    def of(cls, task: Task) -> "OpenSpielTask":
        """The task with the type of this environment.

        Raises:
            UserError: The task belongs to another environment.
        """
        if not isinstance(task, cls):
            raise UserError(f"{task.id} is no OpenSpiel task")
        return task
