"""The cost of chat servers: tokens, and money if their prices are known.

Requests are counted, not moves: equal requests are sent and paid once, and a game that was lost to an interruption was
paid too. `spending.json` in the output folder stores the count, so that a budget applies to all commands with this
folder together.
"""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from veritas_rl.checkpoints.folder import write_whole
from veritas_rl.envs.base import Message, Missing
from veritas_rl.errors import UserError

SPENDING = "spending.json"

PRICED_TOKENS = 1_000_000
"""The number of tokens that a price refers to."""

MESSAGE_TOKENS = 16
"""The maximum number of tokens that a chat template adds to a message."""


@dataclass(frozen=True)
class Price:
    """The price of a million tokens.

    Attributes:
        read: The price of prompt tokens.
        written: The price of reply tokens, including thinking.
    """

    read: float
    written: float

    def __post_init__(self) -> None:
        for price in (self.read, self.written):
            if not 0 <= price < float("inf"):
                raise UserError(f"a price must be a number of at least 0, for a million tokens, got {price}")

    def of(self, prompt_tokens: int, tokens: int) -> float:
        """The price of these numbers of tokens."""
        return (self.read * prompt_tokens + self.written * tokens) / PRICED_TOKENS


@dataclass(frozen=True)
class Prices:
    """The prices of models.

    Attributes:
        models: The price of each model, by the server's name of the model.
        others: The price of every other model; None if it is unknown.
        currency: The currency.
        date: The day of the prices; "" if it was not given.
    """

    models: Mapping[str, Price] = field(default_factory=dict)
    others: Price | None = None
    currency: str = "USD"
    date: str = ""

    def of(self, model: str) -> Price | None:
        """The price of a model; None if it is unknown."""
        return self.models.get(model, self.others)


def read_prices(path: Path, others: Price | None = None) -> Prices:
    """Read the prices of a YAML file: `date`, `currency` (by default USD) and `models`, each with `in` and `out`.

        date: 2026-11-22
        models: {some-model: {in: 0.25, out: 2.0}}

    Raises:
        UserError: The file cannot be read, or lacks the date or a price.
    """
    import yaml

    try:
        values = yaml.safe_load(path.read_text("utf-8"))
        models = {str(name): Price(float(row["in"]), float(row["out"])) for name, row in values["models"].items()}
        return Prices(models, others, str(values.get("currency", "USD")), str(values["date"]))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except (OSError, ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read as prices ({error}); docs/evaluation.md shows the format") from error
    except KeyError as error:
        raise UserError(f"{path} lacks {error}; it needs `date` and `models`, each with `in` and `out`") from error


@dataclass(frozen=True)
class Spent:
    """The requests to a model and their tokens.

    Attributes:
        model: The server's name of the model.
        requests: The number of requests, without those that the server refused.
        prompt_tokens: The number of prompt tokens that the server reported.
        tokens: The number of reply tokens that the server reported.
        unsaid: The number of requests without reported tokens, such as those that timed out.
        most_prompt_tokens: The upper bound of the prompt tokens of the unreported requests.
        most_tokens: The upper bound of the reply tokens of the unreported requests.
        again: The number of requests that were sent again after a failure that may pass.
        missing: The number of replies without text, by `Missing`.
    """

    model: str
    requests: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    unsaid: int = 0
    most_prompt_tokens: int = 0
    most_tokens: int = 0
    again: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)

    def plus(self, **more: int) -> "Spent":
        """The sum of these counts and the given ones."""
        return dataclasses.replace(self, **{name: getattr(self, name) + count for name, count in more.items()})

    def money(self, price: Price) -> float:
        """The cost of the reported tokens."""
        return price.of(self.prompt_tokens, self.tokens)

    def most_money(self, price: Price) -> float:
        """The upper bound of the cost of all requests."""
        return self.money(price) + price.of(self.most_prompt_tokens, self.most_tokens)


@dataclass
class Request:
    """A running request.

    Attributes:
        most_prompt_tokens: The upper bound of its prompt tokens.
        most_tokens: The upper bound of its reply tokens.
        said: The numbers of both that the server reported; None if it has reported none.
        free: Whether it costs nothing, because the server refused it.
        missing: Why the reply has no text.
    """

    most_prompt_tokens: int
    most_tokens: int
    said: tuple[int, int] | None = None
    free: bool = False
    missing: Missing | None = None


class Purse:
    """Counts the cost of requests, and keeps it within a budget.

    Args:
        folder: The folder of `spending.json`.
        prices: The prices of models.
        budget: The maximum amount that may be spent for this folder; None for no limit.

    Raises:
        UserError: The file cannot be read, or the budget is not above 0.
    """

    def __init__(self, folder: Path, prices: Prices | None = None, budget: float | None = None) -> None:
        if budget is not None and not 0 < budget < float("inf"):
            raise UserError(f"--budget must be above 0, got {budget}")
        self.prices = prices or Prices()
        self.budget = budget
        self._path = folder / SPENDING
        self._spent: dict[str, Spent] = {}
        self._held = 0.0
        self._running = 0
        if self._path.exists():
            try:
                rows = json.loads(self._path.read_text("utf-8"))
                self._spent = {row["model"]: Spent(**row) for row in rows}
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise UserError(f"{self._path} cannot be read ({error}); give another --output") from error

    @property
    def spent(self) -> list[Spent]:
        """The requests and tokens of each model, in the order of the models' names."""
        return [self._spent[model] for model in sorted(self._spent)]

    def open(self, model: str) -> None:
        """Check that the price of a model is known if there is a budget.

        Raises:
            UserError: There is a budget, and no price of this model.
        """
        if self.budget is not None and self.prices.of(model) is None:
            raise UserError(f"--budget needs the price of {model}; give --price_in and --price_out, or --prices FILE")

    @asynccontextmanager
    async def asked(self, model: str, messages: Sequence[Message], max_tokens: int) -> AsyncIterator[Request]:
        """The context of one request: wait until the budget covers its upper bound, and then count its cost.

        Raises:
            UserError: The budget does not cover the request, and no running request could free money.
        """
        # A text has at most as many tokens as bytes.
        most = sum(len(message["content"].encode()) + MESSAGE_TOKENS for message in messages)
        price = self.prices.of(model)
        dearest = price.of(most, max_tokens) if price else 0.0
        while self.budget is not None and self._most_money() + self._held + dearest > self.budget:
            if not self._running:
                raise UserError(
                    f"the budget of {self.budget:g} {self.prices.currency} is spent ({self.summary()}); run the same "
                    "command with a larger --budget to continue"
                )
            await asyncio.sleep(0.02)
        request = Request(most, max_tokens)
        self._held += dearest
        self._running += 1
        try:
            yield request
        finally:
            self._held -= dearest
            self._running -= 1
            self._count(model, request)

    def ask_again(self, model: str) -> None:
        """Count a request that is sent again."""
        self._spent[model] = self._spent.get(model, Spent(model)).plus(again=1)

    def _count(self, model: str, request: Request) -> None:
        spent = self._spent.get(model, Spent(model))
        if name := request.missing:
            # A prompt that a filter withholds costs nothing, and is counted all the same.
            spent = dataclasses.replace(spent, missing={**spent.missing, name: spent.missing.get(name, 0) + 1})
            self._spent[model] = spent
        if request.free:
            return
        if request.said is not None:
            read, written = request.said
            self._spent[model] = spent.plus(requests=1, prompt_tokens=read, tokens=written)
        else:
            most = {"most_prompt_tokens": request.most_prompt_tokens, "most_tokens": request.most_tokens}
            self._spent[model] = spent.plus(requests=1, unsaid=1, **most)

    def _most_money(self) -> float:
        priced = ((spent, self.prices.of(spent.model)) for spent in self._spent.values())
        return sum(spent.most_money(price) for spent, price in priced if price)

    def save(self) -> None:
        """Write the count to `spending.json`."""
        rows = [dataclasses.asdict(spent) for spent in self.spent]
        write_whole(self._path, json.dumps(rows, indent=2) + "\n")

    def values(self) -> list[dict[str, Any]]:
        """The requests, tokens and cost of each model as plain values; money is None if the price is unknown."""
        found = []
        for spent in self.spent:
            price = self.prices.of(spent.model)
            money = {
                "money": round(spent.money(price), 6) if price else None,
                "most_money": round(spent.most_money(price), 6) if price else None,
                "price_in": price.read if price else None,
                "price_out": price.written if price else None,
                "currency": self.prices.currency,
                "prices_of": self.prices.date,
            }
            found.append(dataclasses.asdict(spent) | money)
        return found

    def summary(self) -> str:
        """The total cost in a few words."""
        requests = sum(spent.requests for spent in self._spent.values())
        return f"at most {_amount(self._most_money())} {self.prices.currency} for {requests:,} requests"


def describe(row: Mapping[str, Any]) -> str:
    """A row of `Purse.values` as a sentence."""
    line = (
        f"{row['model']}: {row['requests']:,} requests, {row['prompt_tokens']:,} tokens read, {row['tokens']:,} written"
    )
    if row["again"]:
        line += f"; {row['again']:,} sent again"
    if row["missing"]:
        line += (
            f"; replies without text: {', '.join(f'{count:,} {why}' for why, count in sorted(row['missing'].items()))}"
        )
    if row["money"] is None:
        return f"{line}; no price is known"
    of = f" at the prices of {row['prices_of']}" if row["prices_of"] else ""
    line += f"; {_amount(row['money'])} {row['currency']}{of}"
    if row["unsaid"]:
        most = f"{_amount(row['most_money'])} {row['currency']}"
        line += f"; the server did not say the tokens of {row['unsaid']}, with them at most {most}"
    return line


def _amount(money: float) -> str:
    # Two decimals, or four significant digits if the amount is below 1.
    return f"{money:.2f}" if money >= 1 or not money else f"{money:.4g}"
