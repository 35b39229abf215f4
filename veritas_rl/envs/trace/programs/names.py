"""Natural names for generated programs: pools by role, and a chooser that gives each name once in a scope.

The pools of variables, functions, classes and attributes are disjoint where a shared name would change a program's
meaning: a variable never hides a function, and no attribute has the name of an attribute of a built-in type.
"""

from random import Random

_WORDS = (
    "ant bee cat dog elk fox gnu hen owl pig ram yak apple banana cherry grape lemon mango peach plum red green "
    "blue black white amber north south east west tea milk salt sugar bread soup iron gold zinc lead oak pine elm "
    "ash river stone cloud rain snow wind alpha beta gamma delta omega one two three four sun moon star mars lamp "
    "desk door book pen cup hat coat ship train bike road hill lake ann bob carl dora eve finn gus hana ivan judy "
    "kim leo mia noah olga paul rosa sam tess uma vera zoe level noon radar civic kayak banjo tulip panda zebra "
    "hello world python"
)
WORDS = tuple(_WORDS.split())

_POOLS = {
    "number": (
        "a b c d e g h k m n p q r t u v x y z total score size limit steps width height depth price cost speed weight "
        "age year offset low high best bonus rate points coins result amount base extra gap left right first "
        "second current previous goal power change sum_so_far answer shift factor tally number mark"
    ),
    "index": "i j k n x m step pos turn round_no at",
    "item": "x y n v item value number entry element num e part",
    "list": "xs ys nums numbers data scores marks ages sizes prices row series points_list found picked queue stack "
    "results output history readings batch parts line kept chosen rest grades samples amounts",
    "text": "s text word line_text phrase message label name title code key_text out letters sentence note token",
    "texts": "words names labels tokens tags fruits animals colors lines pieces messages log notes keys_list cities",
    "char": "c ch letter char mark_char sign",
    "dict": "counts table stock ages_by_name totals seen groups lookup memo cache prices_by_name scores_by_name "
    "index_of ledger graph options votes",
    "flag": "ok done found_it valid ready flag changed active",
    "object": "obj box account thing unit machine store tool device shelf node_a team player worker item_a engine",
    "function": "compute process combine update_value measure apply_rule evaluate transform_value solve reduce_it make "
    "scale adjust helper check_value convert collect find_best run_step total_of pick_one score_of build mix fold_up "
    "work_out step_once count_up look_for go calc handle visit explore walk trace_path render show_all describe",
    "class": "Account Box Counter Stack Queue Shelf Tracker Player Robot Sensor Item Tally Register Meter Store Ledger "
    "Vector Point Node Tree Engine Machine Cart Team Wallet Basket Timer Cell Board Shape Animal Worker Vehicle Parser",
    "error": "LimitError EmptyError InvalidValue TooLarge OutOfStock BadInput NotAllowed StateError ParseFailure",
    "attribute": "total score size limit amount balance width height power speed stored history marks rank data "
    "entries log state position energy label owner parts stock price best tally_so_far first rest kids val link",
    "method": "deposit push take peek describe area grow shrink move reset step advance bump merge report update_all "
    "scale shift put use charge drain record average largest is_empty check rename_to spend earn visit cost sound "
    "total_of combine double apply swap_ends tick fill",
}
POOLS = {role: tuple(dict.fromkeys(text.split())) for role, text in _POOLS.items()}


class Names:
    """Chooses different names for one scope.

    Args:
        random: The random generator.
        used: Names that must not be chosen.
    """

    def __init__(self, random: Random, used: frozenset[str] = frozenset()) -> None:
        self._random = random
        self._used = set(used)

    def one(self, role: str) -> str:
        """A name that is not yet used in this scope.

        Args:
            role: A key of `POOLS`.
        """
        pool = POOLS[role]
        for _ in range(6):
            name = pool[int(self._random.random() * len(pool))]
            if name not in self._used:
                self._used.add(name)
                return name
        free = [name for name in pool if name not in self._used]
        name = free[int(self._random.random() * len(free))] if free else self._numbered(pool)
        self._used.add(name)
        return name

    def some(self, *roles: str) -> list[str]:
        """One unused name for each role."""
        return [self.one(role) for role in roles]

    def _numbered(self, pool: tuple[str, ...]) -> str:
        stem = pool[int(self._random.random() * len(pool))]
        return next(f"{stem}_{n}" for n in range(2, 1000) if f"{stem}_{n}" not in self._used)
