"""A puzzle of made-up operators: its question, its solution and its verifier."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from veritas_rl.envs.lgc_v2.kinds.operation.expressions import Tree, Use, after, next_use, used, value, written
from veritas_rl.envs.lgc_v2.kinds.operation.rules import Number, Rule, inside
from veritas_rl.envs.lgc_v2.puzzle import Puzzle

TOLERANCE = Fraction(1, 10**6)
"""The largest difference between a right answer and the value."""

LONGEST_NUMBER = 100
"""The most characters of a number; a longer number is not parsed."""

_NUMBER = r"[+-]?\s*(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
_NAME = re.compile(r"|[A-Za-z]{1,20}")
_LEAD = re.compile(r"^(?:[A-Za-z]{1,12}[,:]?\s+){1,4}")
"""Words such as "So" and "We get:" before an equation."""
_QUOTIENT = re.compile(rf"({_NUMBER})(?:\s*/\s*({_NUMBER}))?")
_FRACTION = re.compile(rf"([+-]?)\s*\(\(({_NUMBER})\)/\(({_NUMBER})\)\)")


@dataclass(frozen=True)
class OperationPuzzle(Puzzle):
    """An expression to evaluate.

    Attributes:
        signs: The signs of the operators, the tightest first.
        rules: The rule of each operator, in the same order.
        shown: The numbers of the operators, in the order of their definitions in the question.
        expression: The expression.
    """

    signs: tuple[str, ...]
    rules: tuple[Rule, ...]
    shown: tuple[int, ...]
    expression: Use

    def question(self, language: str) -> str:
        asked = written(self.expression, self.signs)
        chinese = language == "zh"
        if chinese:
            head, asks = "定义新的运算。对任意的数 a 和 b:", f"求 {asked} 的值。"
            format_ = "请把结果(整数或分数)写在 \\boxed{} 中。"
        else:
            head, asks = "Here are made-up operators. For all numbers a and b:", f"What is the value of {asked} ?"
            format_ = "Write the value, a whole number or a fraction, in \\boxed{}."
        return "\n\n".join(filter(None, (head, self._definitions(language), self._order(language), asks, format_)))

    @property
    def brief(self) -> str:
        return f"{self._definitions('en')}\n{written(self.expression, self.signs, full=True)}"

    @cached_property
    def value(self) -> Fraction:
        """The value of the expression."""
        return Fraction(value(self.expression, self._apply))

    @property
    def answer(self) -> str:
        return str(self.value)

    def steps(self, language: str) -> str:
        lines: list[str] = []
        tree: Tree = self.expression
        while isinstance(tree, Use):
            operator, a, b = next_use(tree)
            result = self._apply(operator, a, b)
            lines.append(f"{len(lines) + 1}. {self._step(operator, a, b, language)} = {result}")
            tree = after(tree, result)
            if isinstance(tree, Use):
                lines[-1] += f"\n   → {written(tree, self.signs)}"
        head = "从最先结合的运算开始,一步一步计算:" if language == "zh" else "Work out one operator at a time:"
        return "\n".join([head, written(self.expression, self.signs), *lines])

    def final(self, language: str) -> str:
        return f"\\boxed{{{self.answer}}}"

    @property
    def form(self) -> str:
        # Operators are renamed in the order of their first use in the expression.
        order = list(dict.fromkeys(used(self.expression)))
        names = [f"#{order.index(operator)}" for operator in range(len(self.signs))]
        rules = "|".join(self.rules[operator].text("#", "en") for operator in order)
        return f"{rules}|{written(self.expression, names, full=True)}"

    def read(self, said: str) -> Fraction | None:
        left, equals, right = said.rpartition("=")
        if equals and not (_NAME.fullmatch(left.strip()) or self._is_asked(left)):
            return None
        return number_in(right)

    def _is_asked(self, said: str) -> bool:
        """Whether a text is the expression, or begins with it and goes on with equal terms that are no numbers."""
        first, *others = _LEAD.sub("", said, count=1).split("=")
        spaced = {"".join(written(self.expression, self.signs, full).split()) for full in (False, True)}
        return "".join(first.split()) in spaced and all(number_in(term) is None for term in others)

    def is_right(self, said: Fraction) -> bool:
        return abs(said - self.value) <= TOLERANCE

    def near_misses(self) -> Iterator[tuple[str, str]]:
        yield "one too many", str(self.value + 1)
        yield "one too few", str(self.value - 1)
        if self.value:
            yield "the other sign", str(-self.value)
        if self.value.denominator == 1:
            yield "a little too much", f"{self.value}.00001"
        else:
            yield "the part that is whole", str(int(self.value))
            if abs(self.value.numerator) != 1:
                yield "upside down", str(1 / self.value)
        mistakes = {"every condition the wrong way": self._other_branch, "the operands swapped": self._swapped}
        for mistake, apply in mistakes.items():
            try:
                wrong = Fraction(value(self.expression, apply))
            except ZeroDivisionError:
                continue
            if abs(wrong - self.value) > TOLERANCE:
                yield mistake, str(wrong)

    def _apply(self, operator: int, a: Number, b: Number) -> Number:
        return self.rules[operator].value(a, b)

    def _swapped(self, operator: int, a: Number, b: Number) -> Number:
        return self.rules[operator].value(b, a)

    def _other_branch(self, operator: int, a: Number, b: Number) -> Number:
        rule = self.rules[operator]
        if rule.otherwise is None:
            return rule.value(a, b)
        return (rule.otherwise if rule.chosen(a, b) is rule.formula else rule.formula).value(a, b)

    def _definitions(self, language: str) -> str:
        return "\n".join(self.rules[operator].text(self.signs[operator], language) for operator in self.shown)

    def _order(self, language: str) -> str:
        """The rules of precedence in words; "" if the expression has only one use of an operator."""
        if not any(isinstance(part, Use) for part in (self.expression.left, self.expression.right)):
            return ""
        pairs = list(zip(self.signs, self.signs[1:], strict=False))
        if language == "zh":
            tighter = "".join(f"{first} 先于 {second} 计算。" for first, second in pairs)
            return f"先算括号里的。{tighter}同一种运算从左到右计算。"
        tighter = "".join(f"{first} binds tighter than {second}. " for first, second in pairs)
        return f"Parentheses come first. {tighter}Operators with the same sign are worked out from left to right."

    def _step(self, operator: int, a: Number, b: Number, language: str) -> str:
        """A use of an operator, its condition if there is one, and its formula with the operands inserted."""
        rule = self.rules[operator]
        formula = rule.chosen(a, b)
        use = f"{inside(a)} {self.signs[operator]} {inside(b)}"
        computed = f"{use} = {formula.filled(a, b)}"
        if rule.condition is None:
            return computed
        holds, condition = formula is rule.formula, rule.condition.text(language)
        if language == "zh":
            return f"{use} 中 a = {a}, b = {b}, “{condition}”{'成立' if holds else '不成立'}, 所以 {computed}"
        return f'In {use}, a = {a} and b = {b}: "{condition}" is {"true" if holds else "false"}, so {computed}'


def number_in(said: str) -> Fraction | None:
    """Parse a text as a number: whole, decimal or a fraction; None for other text."""
    text = said.strip()
    if len(text) > LONGEST_NUMBER:
        return None
    if text.startswith("(") and text.endswith(")") and not text.startswith("(("):
        text = text[1:-1].strip()
    text = text.replace("{,}", ",")
    sign, over = "", _QUOTIENT.fullmatch(text)
    if over is not None:
        above, below = over.groups()
    elif (over := _FRACTION.fullmatch(text)) is not None:
        sign, above, below = over.groups()
    else:
        return None
    numerator, denominator = _decimal(above), _decimal(below or "1")
    if not denominator:
        return None
    return numerator / denominator * (-1 if sign == "-" else 1)


def _decimal(text: str) -> Fraction:
    """The value of a text that matches `_NUMBER`."""
    return Fraction("".join(text.replace(",", "").split()))
