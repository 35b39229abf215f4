"""Costs of servers: counted from the usage in their answers, saved in the folder, and never above the budget."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from veritas_rl.envs.base import Turn
from veritas_rl.errors import UserError
from veritas_rl.players.cost import Price, Prices, Purse, describe, read_prices
from veritas_rl.players.server import ServerPlayer

DEAR = Prices(others=Price(1.0, 10.0))


def turns(count: int) -> list[Turn]:
    return [Turn(0, ({"role": "user", "content": f"position {index}"},), (), dice=(index,)) for index in range(count)]


def test_requests_are_counted_and_not_replies(chat_server: Callable[..., Any], tmp_path: Path) -> None:
    server = chat_server()
    purse = Purse(tmp_path, DEAR)
    player = ServerPlayer(server.url, max_tokens=4, purse=purse)
    said = player.act([*turns(3), *turns(5)])
    read, written = (sum(getattr(reply, name) for reply in said[3:]) for name in ("prompt_tokens", "tokens"))
    (row,) = purse.values()
    assert (row["requests"], row["prompt_tokens"], row["tokens"], row["unsaid"]) == (5, read, written, 0)
    assert row["money"] == row["most_money"] == pytest.approx((read + 10 * written) / 1e6)
    # Another command with the same folder continues the count.
    again = Purse(tmp_path, Prices({"tiny": Price(2.0, 0.0)}, date="2026-11-22"))
    assert again.spent == purse.spent
    ServerPlayer(server.url, max_tokens=4, purse=again).act(turns(1))
    (row,) = again.values()
    assert row["requests"] == 6
    assert row["money"] == pytest.approx(2 * row["prompt_tokens"] / 1e6)
    assert describe(row).endswith("USD at the prices of 2026-11-22")


def test_a_budget_is_never_exceeded(chat_server: Callable[..., Any], tmp_path: Path) -> None:
    server = chat_server(delay=0.02)
    budget = 600e-6  # a request costs at most 140e-6: 24 bytes and 16 more, and 10 tokens at 10e-6
    purse = Purse(tmp_path, DEAR, budget)
    player = ServerPlayer(server.url, max_tokens=10, concurrency=8, purse=purse)
    with pytest.raises(UserError, match=r"the budget of 0\.0006 USD is spent \(at most .* for \d+ requests\)"):
        player.act(turns(200))
    (row,) = purse.values()
    assert budget / 2 < row["most_money"] <= budget
    assert row["requests"] == len(server.asked) < 200
    # The budget also applies to a second command, and a larger budget allows more requests.
    with pytest.raises(UserError, match="is spent"):
        ServerPlayer(server.url, max_tokens=10, purse=Purse(tmp_path, DEAR, budget)).act(turns(20))
    more = Purse(tmp_path, DEAR, 1.0)
    ServerPlayer(server.url, max_tokens=10, purse=more).act(turns(3))
    assert more.spent[0].requests > row["requests"] + 2


def test_unreported_tokens_count_with_their_highest_possible_cost(
    chat_server: Callable[..., Any], tmp_path: Path
) -> None:
    server = chat_server(delay=0.5)
    purse = Purse(tmp_path, DEAR)
    with pytest.raises(UserError, match="did not answer"):
        ServerPlayer(server.url, max_tokens=4, timeout=0.1, tries=2, wait=0.01, purse=purse).act(turns(1))
    (row,) = purse.values()
    assert (row["requests"], row["unsaid"], row["money"]) == (2, 2, 0)
    assert row["most_money"] == pytest.approx(2 * (len("position 0") + 16 + 40) / 1e6)
    assert "did not say the tokens of 2" in describe(row)
    busy = chat_server(failures=1)
    purse = Purse(tmp_path / "none", DEAR)
    (tmp_path / "none").mkdir()
    ServerPlayer(busy.url, max_tokens=4, tries=2, wait=0.01, purse=purse).act(turns(1))
    assert purse.spent[0].requests == 1, "what a server refuses costs nothing"


def test_a_budget_needs_a_price(chat_server: Callable[..., Any], tmp_path: Path) -> None:
    url = chat_server().url
    with pytest.raises(UserError, match="--budget needs the price of tiny"):
        ServerPlayer(url, max_tokens=4, purse=Purse(tmp_path, Prices({"other": Price(1, 1)}), 1.0))
    for budget in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="--budget must be above 0"):
            Purse(tmp_path, DEAR, budget)


def test_prices_have_a_date(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("date: 2026-11-22\nmodels: {a: {in: 0.25, out: 2}}\n")
    prices = read_prices(file, Price(1, 1))
    assert (prices.of("a"), prices.of("b"), prices.currency, prices.date) == (
        Price(0.25, 2),
        Price(1, 1),
        "USD",
        "2026-11-22",
    )
    for text, message in (
        ("models: {a: {in: 1, out: 1}}", "lacks 'date'"),
        ("date: 2026-11-22\nmodels: {a: {in: 1}}", "lacks 'out'"),
        ("date: 2026-11-22\nmodels: {a: {in: -1, out: 1}}", "a price must be a number"),
        ("date: 2026-11-22\nmodels: [a]", "cannot be read"),
        ("[", "cannot be read"),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=message):
            read_prices(file)


def test_a_spoilt_count_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "spending.json").write_text(json.dumps([{"model": "a", "more": 1}]))
    with pytest.raises(UserError, match="cannot be read"):
        Purse(tmp_path)
