"""The sets of reasoning-gym: which are used, their levels, and a question of an index.

A case is a set with its own settings, such as `chain_sum`, or with a level of its curriculum, `chain_sum_level_2`.
"""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from veritas_rl.envs.libraries.alone import Alone, seeded
from veritas_rl.envs.libraries.installed import check_installed
from veritas_rl.envs.libraries.reasoning_gym.scoring import Question
from veritas_rl.envs.single import split_level, with_level
from veritas_rl.errors import UserError, unknown

NAME = "reasoning-gym"
VERSION = "0.1.25"
"""The version whose sets were looked through for the tables below and those of `scoring`."""

_HASHED = "its questions depend on PYTHONHASHSEED, so that processes disagree"
_LOOSE = "it pays some wrong answers in full"
_SLOW = "its score of some answers needs hours"
REFUSED: Mapping[str, str] = {
    "coin_flip": f"{_LOOSE}: the first digits of the right one",
    "composite": "it mixes other sets: name them as cases",
    "decimal_arithmetic": f"{_LOOSE}: numbers that are off by a thousandth",
    "intermediate_integration": f"{_SLOW}: it simplifies any formula",
    "isomorphic_strings": _HASHED,
    "knight_swap": _HASHED,
    "number_sorting": f"{_LOOSE}: numbers that are off by 1",
    "polynomial_multiplication": _HASHED,
    "pool_matrix": f"{_LOOSE}: numbers that are off by a hundredth",
    "propositional_logic": f"{_LOOSE}: a repeated premise",
    "puzzle24": f"{_LOOSE}: any four numbers that make 24",
    "ransom_note": _HASHED,
    "rubiks_cube": f"{_SLOW}: it makes any number of moves",
    "rush_hour": f"{_SLOW}: it makes any number of moves",
    "simple_integration": f"{_SLOW}: it simplifies any formula",
    "word_ladder": _HASHED,
}
"""Sets that cannot be used, and why."""

REFUSED_LEVELS: Mapping[str, str] = {
    **{f"jugs_level_{level}": "it makes questions that its own answers do not solve" for level in (2, 3, 4)},
    "sokoban_level_1": "it searches for minutes for a question",
}
"""Levels that cannot be used, and why."""

REMADE = ("acre", "gsm_symbolic", "list_functions")
"""Sets that make all their questions at once, so a question costs a new set. Other sets make one of any index."""

DRAWN_GLOBALLY = ("codeio", "list_functions")
"""Sets that draw from the global generator."""


class NotMade(Exception):
    """The library has failed to make a question."""


@lru_cache(maxsize=512)
def _dataset(case: str) -> Any:
    """The set of a case, whose items are questions of any index."""
    return _made(case, 0)


def _made(case: str, seed: int) -> Any:
    """The set of a case with a seed."""
    return library().DATASETS[split_level(case)[0]][0](config=settings_of(case, seed))


def level_count(name: str) -> int:
    """The number of levels of a set's curriculum; 0 without one."""
    sets = library()
    if not sets.has_curriculum(name):
        return 0
    return max((len(one.levels) for one in sets.create_curriculum(name).attributes.values()), default=0)


@cache
def library() -> Any:
    """The library's registry of sets.

    Raises:
        UserError: The library is missing, or has another version.
    """
    check_installed(NAME, VERSION, "sets")
    from reasoning_gym import factory

    return factory


def settings_of(case: str, seed: int) -> Any:
    """The library's settings of a case.

    Raises:
        UserError: The set or the level cannot be used, or does not exist.
    """
    name, level = split_level(case)
    sets, own = library(), {"seed": seed, "size": 1}
    if name not in sets.DATASETS:
        raise unknown("case", case, names())
    if reason := REFUSED.get(name) or REFUSED_LEVELS.get(case):
        raise UserError(f"{case} of {NAME} cannot be used: {reason}")
    if level > (count := level_count(name)):
        raise UserError(f"{name} has {count or 'no'} levels, level {level} was given")
    try:
        if not level:
            settings = sets.DATASETS[name][1](**own)
        else:
            curriculum = sets.create_curriculum(name)
            curriculum.set_global_level(level - 1)
            settings = curriculum.generate_configuration(own)
        getattr(settings, "validate", lambda: None)()
    except AssertionError as error:
        raise UserError(f"{case} of {NAME} cannot be used: its own settings are refused, {error}") from None
    return settings


def _is_usable(case: str) -> bool:
    """Whether a case exists and can be used."""
    try:
        settings_of(case, 0)
    except UserError:
        return False
    return True


def cases_of(name: str, levels: Iterable[int]) -> list[str]:
    """The cases of some levels of a set, without those that do not exist; the set itself if it has no curriculum."""
    return [case for level in levels if _is_usable(case := with_level(name, level))] if level_count(name) else [name]


def asked(case: str, index: int) -> Question:
    """The question of an index.

    Raises:
        UserError: The set cannot be used.
        NotMade: The library fails.
    """
    name = split_level(case)[0]
    with seeded(index) if name in DRAWN_GLOBALLY else Alone():
        made, place = (_made(case, index), 0) if name in REMADE else (_dataset(case), index)
        try:
            entry = made[place]
        except Exception as error:
            raise NotMade(f"{NAME} failed to make question {index} of {case}") from error
    return question_of(made, entry)


def question_of(made: Any, entry: Any) -> Question:
    """The question of an entry of the library's set."""

    def score(answer: str) -> float:
        with Alone():
            return float(made.score_answer(answer, entry))

    return Question(entry["question"], entry["answer"], score)


def names() -> tuple[str, ...]:
    """The sets that can be used."""
    return tuple(name for name in sorted(library().DATASETS) if name not in REFUSED)
