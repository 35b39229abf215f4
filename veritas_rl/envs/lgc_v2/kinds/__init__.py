"""The types of puzzles, by name. Each type has its own file or folder."""

from collections.abc import Mapping

from veritas_rl.envs.lgc_v2.kinds.boolean_expressions import BooleanExpressions
from veritas_rl.envs.lgc_v2.kinds.cryptarithm import Cryptarithm
from veritas_rl.envs.lgc_v2.kinds.dyck_language import DyckLanguage
from veritas_rl.envs.lgc_v2.kinds.dyck_language2 import DyckLanguage2, DyckLanguage2Long
from veritas_rl.envs.lgc_v2.kinds.dyck_language_reasoning_errors import ReasoningErrors
from veritas_rl.envs.lgc_v2.kinds.game_of_24 import GameOf24
from veritas_rl.envs.lgc_v2.kinds.operation import Operation
from veritas_rl.envs.lgc_v2.kinds.sudoku import Sudoku
from veritas_rl.envs.lgc_v2.puzzle import PuzzleKind

_ALL: tuple[PuzzleKind, ...] = (
    DyckLanguage(),
    GameOf24(),
    DyckLanguage2(),
    DyckLanguage2Long(),
    Operation(),
    Cryptarithm(),
    BooleanExpressions(),
    Sudoku(),
    ReasoningErrors(),
)

KINDS: Mapping[str, PuzzleKind] = {kind.name: kind for kind in sorted(_ALL, key=lambda kind: kind.type_id)}
"""Each type by its name, in the order of `type_id`."""
