"""Options shared by the command lines that play games: the cases, and how models write."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veritas_rl.envs.registry import environment_named
from veritas_rl.errors import UserError
from veritas_rl.parallel import AUTO, PATIENCE

if TYPE_CHECKING:
    from veritas_rl.checkpoints.origin import Asked
    from veritas_rl.players.cost import Prices, Purse
    from veritas_rl.players.loading import ReplySettings


ENVIRONMENT = "the environment: a name, FILE.py:NAME, package.module:NAME, or a server's URL"
"""What `--env` takes."""


class EnvironmentOption(argparse.Action):
    """An option that names an environment as `registry.environment_named` takes it; the value is the name."""

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: object, option_string: object = None
    ) -> None:
        setattr(namespace, self.dest, environment_named(str(values), Path.cwd()))


class PlayersParser(argparse.ArgumentParser):
    """A command line whose help ends with the players of the environment that `--env` names.

    Args:
        description: The first part of the help, as it is written.
        env: The environment if `--env` is not given.
    """

    def __init__(self, description: str | None, env: str) -> None:
        super().__init__(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
        )
        add_environment(self, env)

    def format_help(self) -> str:
        # Imported late, because the registry of players imports pyspiel and scipy, which other commands do not need.
        from veritas_rl.players.registry import describe

        finder = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
        add_environment(finder, self.get_default("env"))
        env = finder.parse_known_args(sys.argv[1:])[0].env
        return f"{super().format_help()}\nplayers of {env}:\n{describe(env)}"


def add_environment(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add `--env`, which is required without a default."""
    said = f"{ENVIRONMENT}; default: {default}" if default else ENVIRONMENT
    parser.add_argument("--env", action=EnvironmentOption, default=default, required=default is None, help=said)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the shared options to a parser."""
    add = parser.add_argument
    games = "cases to play, separated by commas; default: all cases of the environment"
    add("--games", "--cases", default="", help=games)
    add_config(parser)
    add("--seed", type=int, default=42, help="seed of the deals, the bots and the replies; default: 42")
    add_reply_options(parser)
    add("--concurrency", type=int, default=256, help="maximum number of replies generated at once; default: 256")
    moves = "end a game as unfinished after this many moves of all seats; default: 0, the game's own limit"
    add("--max_moves", type=int, default=0, help=moves)
    add("--price_in", type=float, metavar="MONEY", help="a server's price for a million prompt tokens")
    add("--price_out", type=float, metavar="MONEY", help="a server's price for a million reply tokens")
    add("--prices", type=Path, metavar="FILE", help="YAML file with the prices of several models and their date")
    add("--budget", type=float, metavar="MONEY", help="the most money that servers may charge for this output folder")


def add_reply_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a model's prompt and replies. `replies_of` also needs `--seed` and `--concurrency`."""
    add = parser.add_argument
    add("--base", help="base model of an adapter or checkpoint that names none, or whose base is missing")
    prompt = (
        "prompt of a model: full; unlisted: without the legal answers; brief: only the question; default: that of the "
        "model's training, full if that is unknown"
    )
    add("--prompt", help=prompt)
    temperature = "sampling temperature of a model; default: 0, and 1 with --exact of evaluate.py"
    add("--temperature", type=float, default=0.0, help=temperature)
    add("--top_p", type=float, default=1.0, help="top-p (nucleus) sampling of a model, in (0, 1]; default: 1")
    add("--enable_thinking", action="store_true", help="switch on the thinking mode of a model that has one")
    limit = "state the token limit of the reply in each prompt; default: as in the model's training"
    add("--say_limit", action=argparse.BooleanOptionalAction, help=limit)
    tokens = "maximum number of tokens of a reply; default: that of the model's training, 1024 if that is unknown"
    add("--max_tokens", type=int, help=tokens)
    request = "a parameter of requests to a server, such as reasoning_effort=low; without value: left out; repeatable"
    add("--request", action="append", default=[], metavar="NAME=VALUE", help=request)
    timeout = "maximum number of seconds that a server may take for a reply; default: 600"
    add("--timeout", type=float, default=600.0, help=timeout)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option for an environment's own settings."""
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the environment; may be repeated",
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Add the option for the workers, see `parallel.read_workers`."""
    help = (
        "number of Ray workers that share the work; 1: only this process. The results are the same. Default: auto, one "
        f"worker for each core once the work has lasted {PATIENCE:g} seconds, or for each CPU of the Ray cluster at "
        "RAY_ADDRESS. Only this process asks models and servers: a local model uses all cores by itself"
    )
    parser.add_argument("--workers", default=AUTO, metavar="auto|N", help=help)


def config_of(given: argparse.Namespace) -> tuple[tuple[str, Any], ...]:
    """The environment's own settings, sorted by key. A value is read as YAML, as in Hydra.

    Raises:
        UserError: A setting is not of the form KEY=VALUE, or is given twice.
    """
    return _pairs("--config", given.config)


def _pairs(option: str, texts: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    import yaml

    settings: dict[str, Any] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UserError(f"{option} takes KEY=VALUE, not {text!r}")
        if key in settings:
            raise UserError(f"{option} {key} is given twice; give it once")
        try:
            settings[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"{option} {text}: the value is not valid YAML: {error}") from error
    return tuple(sorted(settings.items()))


def ask_as_trained(given: argparse.Namespace, players: Sequence[str]) -> "Mapping[str, Asked]":
    """Set the options of prompts and replies that were not given as the models were asked in their training.

    The limit of replies keeps its default beside a model of unknown training, which may need more tokens.

    Args:
        given: The options, which are changed.
        players: The names of the players.

    Returns:
        How each model of known training was asked, by name.

    Raises:
        UserError: The models were trained with different prompts.
    """
    from veritas_rl.players.loading import asked_in_training_of
    from veritas_rl.players.registry import is_bot

    models = [name for name in dict.fromkeys(players) if not is_bot(name, given.env)]
    asked = {name: found for name in models if (found := asked_in_training_of(name, given.env)) is not None}
    taken = []
    for option, default in {"prompt": "full", "max_tokens": 1024, "say_limit": False}.items():
        if getattr(given, option) is not None:
            continue
        known = {name: value for name, found in asked.items() if (value := getattr(found, option)) is not None}
        if option != "prompt" and len(asked) < len(models):
            known = {}
        if option != "max_tokens" and len(set(known.values())) > 1:
            differing = ", ".join(f"{name} with {value}" for name, value in known.items())
            raise UserError(f"the models were trained with different {option}s: {differing}; choose one by --{option}")
        setattr(given, option, max(known.values(), default=default))
        taken += [f"{option}={getattr(given, option)}"] if known else []
    if taken:
        print(f"note: asked as in training: {', '.join(taken)}", file=sys.stderr)
    return asked


def replies_of(given: argparse.Namespace) -> "ReplySettings":
    """The settings of models' replies, from the command line.

    Raises:
        UserError: A number is out of range.
    """
    # Imported late, so that help and errors in options appear without delay.
    from veritas_rl.players.loading import ReplySettings

    return ReplySettings(
        max_tokens=given.max_tokens,
        temperature=given.temperature,
        top_p=given.top_p,
        seed=given.seed,
        concurrency=given.concurrency,
        timeout=given.timeout,
        enable_thinking=given.enable_thinking,
        say_limit=given.say_limit,
        request=_pairs("--request", given.request),
    )


def purse_of(given: argparse.Namespace, folder: Path) -> "Purse":
    """The counter of servers' costs, from the command line.

    Args:
        given: The options.
        folder: The output folder, where the counter is stored.

    Raises:
        UserError: A price or the budget is missing or invalid, or the file of prices or the counter cannot be read.
    """
    from veritas_rl.players.cost import Purse

    return Purse(folder, prices_of(given), given.budget)


def prices_of(given: argparse.Namespace) -> "Prices":
    """The prices of servers, from the command line.

    Raises:
        UserError: A price is missing or invalid, or the file of prices cannot be read.
    """
    from veritas_rl.players.cost import Price, Prices, read_prices

    if (given.price_in is None) != (given.price_out is None):
        raise UserError("--price_in and --price_out must be given together, because servers charge for both")
    price = None if given.price_in is None else Price(given.price_in, given.price_out)
    return read_prices(given.prices, price) if given.prices else Prices(others=price)
