"""The options that every command line shares which lets players meet: what is played, and how models write."""

import argparse
from typing import TYPE_CHECKING

from veritas_rl.envs.task import PROMPTS

if TYPE_CHECKING:
    from veritas_rl.players.loading import ReplySettings


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add them to a parser."""
    parser.add_argument("--games", default="", help="short names and cases with commas; default: every described game")
    parser.add_argument("--seed", type=int, default=42, help="of the deals, the bots and the replies")
    parser.add_argument("--base", help="the base of an adapter or checkpoint that names none, or whose own is gone")
    parser.add_argument("--prompt", choices=PROMPTS, default="full", help="what a model is shown")
    parser.add_argument("--temperature", type=float, default=0.0, help="of a model's replies; default: 0")
    parser.add_argument("--top_p", type=float, default=1.0, help="of a model's replies")
    parser.add_argument("--max_tokens", type=int, default=1024, help="the most tokens of a reply")
    parser.add_argument("--concurrency", type=int, default=256, help="how many replies are written at once")
    parser.add_argument("--timeout", type=float, default=600.0, help="the most seconds a server may take for a reply")
    parser.add_argument("--max_moves", type=int, default=1000, help="a longer game ends as unfinished")


def replies_of(given: argparse.Namespace) -> "ReplySettings":
    """How models write, from what was typed.

    Raises:
        UserError: A number is out of range.
    """
    # Help and a wrong option need not wait for what this imports.
    from veritas_rl.players.loading import ReplySettings

    return ReplySettings(
        max_tokens=given.max_tokens,
        temperature=given.temperature,
        top_p=given.top_p,
        seed=given.seed,
        concurrency=given.concurrency,
        timeout=given.timeout,
    )
