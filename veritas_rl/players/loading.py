"""Opens a player by its name: a bot, a server, a model's folder, a checkpoint, an adapter, a hub id.

random, mcts:50, exact              a bot, see `registry`
http://host:8000/v1                 an OpenAI-compatible chat server; http://host:8000/v1#NAME if it serves several
a folder with config.json           a Hugging Face model
a folder with adapter_config.json   an unmerged adapter on the base model that it names
.../global_step_N                   a checkpoint of verl, merged into a folder first
a folder of global_step_N           an experiment: its newest complete checkpoint
EXPERIMENT@mean:10                  the mean of the weights of the experiment's last 10 complete checkpoints
Qwen/Qwen3-4B-Instruct-2507         a model on the Hugging Face hub
smollm2-135m                        a model in a Python package, see `checkpoints/packaged.py`
"""

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veritas_rl.chat_template import end_warning
from veritas_rl.checkpoints.adapter import SETTINGS, WEIGHTS, base_name, check_adapter, weights_fingerprint
from veritas_rl.checkpoints.kept import read_card
from veritas_rl.checkpoints.layout import check_shards, shard_files, step_folders, step_of, whole_checkpoints
from veritas_rl.checkpoints.origin import Asked, asked_in_training
from veritas_rl.checkpoints.packaged import PACKAGED, provide
from veritas_rl.envs.base import Player
from veritas_rl.errors import UserError
from veritas_rl.players.cost import Purse
from veritas_rl.players.registry import forms_of, is_bot, kind_of, make_bot
from veritas_rl.seeding import digest

if TYPE_CHECKING:
    from veritas_rl.players.generation import GenerationEngine

LONGEST_PROMPT = 16384
"""The maximum number of tokens of a prompt. Prompts of games are far shorter, and a longer context takes memory."""

FIXED = frozenset({"model", "messages", "n", "stream"})
"""The parameters of requests to a server that nobody can choose."""

_ADDRESS = re.compile(r"https?://")
_MEAN = re.compile(r"(.+)@mean:([1-9]\d*)")
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


@dataclass(frozen=True)
class ReplySettings:
    """The settings of a model's replies.

    Attributes:
        max_tokens: The maximum number of tokens of a reply.
        temperature: The sampling temperature; 0 is greedy.
        top_p: The probability of nucleus sampling.
        seed: Seeds each reply together with the turn's dice.
        concurrency: The number of replies that a server or the engine generates at once.
        timeout: The maximum number of seconds that a server may take for a reply.
        enable_thinking: Whether a model with a thinking mode thinks before it answers; a server decides that itself.
        say_limit: Whether each prompt states the token limit of the reply.
        request: Further parameters of requests to a server, as pairs of name and value; None leaves one out.
    """

    max_tokens: int = 1024
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 42
    concurrency: int = 64
    timeout: float = 600.0
    enable_thinking: bool = False
    say_limit: bool = False
    request: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.max_tokens < 1 or self.concurrency < 1:
            raise UserError(
                f"max_tokens and concurrency must be at least 1, got {self.max_tokens} and {self.concurrency}"
            )
        if not 0 <= self.temperature < float("inf") or not 0 < self.top_p <= 1:
            raise UserError(
                f"temperature must be at least 0 and top_p in (0, 1], got {self.temperature} and {self.top_p}"
            )

        if fixed := sorted(FIXED & dict(self.request).keys()):
            raise UserError(f"--request {fixed[0]} has no effect: leave it out")

    @property
    def sampling(self) -> str:
        """The settings that a reply depends on, besides the model."""
        thinking = ",enable_thinking" if self.enable_thinking else ""
        drawn = f"temperature={self.temperature},top_p={self.top_p},seed={self.seed}"
        limit = ",say_limit" if self.say_limit else ""
        request = f",request={self.request}" if self.request else ""
        return f"max_tokens={self.max_tokens},{drawn}{thinking}{limit}{request}"


def _nothing_to_close() -> None:
    pass


@dataclass(frozen=True)
class NamedPlayer:
    """A player with its name and identity.

    Attributes:
        name: The name that the user typed.
        identity: Equal for players with equal play: a fingerprint of the weights, and the sampling settings.
        player: The player.
        is_model: Whether the player reads messages and generates text.
        close: Ends the player's threads and connections.
    """

    name: str
    identity: str
    player: Player
    is_model: bool
    close: Callable[[], None] = _nothing_to_close


def open_player(
    name: str, env: str, settings: ReplySettings, merged: Path, base: str | None = None, purse: Purse | None = None
) -> NamedPlayer:
    """Open the player of a name.

    Args:
        name: A name as described at the head of this file.
        env: The environment that is played.
        settings: The settings of a model's replies.
        merged: The folder of merged checkpoints.
        base: The base model of a checkpoint or adapter that records none, or whose base is missing.
        purse: The counter of servers' costs, with or without a budget.

    Raises:
        UserError: There is no such player, or it cannot be opened; the message says why.
    """
    if is_bot(name, env):
        identity = f"{kind_of(name, env).canonical(name)},seed={settings.seed}"
        return NamedPlayer(name, identity, make_bot(name, env, settings.seed), is_model=False)
    if _ADDRESS.match(name):
        from veritas_rl.players.server import ServerPlayer

        player = ServerPlayer(
            name,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            seed=settings.seed,
            concurrency=settings.concurrency,
            timeout=settings.timeout,
            say_limit=settings.say_limit,
            request=dict(settings.request),
            purse=purse,
        )
        return NamedPlayer(name, f"{player.url}#{player.model},{settings.sampling}", player, is_model=True)
    check_player(name, env)
    return _player_of(name, find_model(name, merged, base), settings)


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model.

    Attributes:
        folder: The folder of a Hugging Face model.
        adapter: The folder of an adapter for the model, or None.
    """

    folder: Path
    adapter: Path | None = None


def find_model(name: str, merged: Path, base: str | None = None) -> ModelFiles:
    """The files of the model of a name. A trainer's checkpoint is merged first.

    Args:
        name: A name of a model, see the head of this file.
        merged: The folder of merged checkpoints.
        base: The base model of a checkpoint or adapter that records none, or whose base is missing.

    Raises:
        UserError: There is no such model, or it cannot be merged; the message says why.
    """
    if mean := _MEAN.fullmatch(name):
        return ModelFiles(_mean_of(Path(mean[1]).expanduser().resolve(), int(mean[2]), merged, base))
    folder = Path(provide(name)).expanduser()
    if folder.exists():
        return _in_folder(folder.resolve(), merged, base)
    from veritas_rl.checkpoints.models import Base

    try:
        return ModelFiles(Base.find(name).folder)
    except UserError as error:
        why = str(error).removeprefix("the base ")
        raise UserError(f"no player {name!r}: there is no such folder, and the hub says: {why}") from error


def asked_in_training_of(name: str, env: str) -> Asked | None:
    """How the model of a name was asked about an environment in its training; None if that is not recorded."""
    mean = _MEAN.fullmatch(name)
    folder = Path(mean[1] if mean else name).expanduser()
    return asked_in_training(folder, env) if folder.is_dir() else None


def is_player(name: str, env: str) -> bool:
    """Whether a name can refer to a player: a bot, an address, a folder, a hub id or a packaged model."""
    mean = _MEAN.fullmatch(name)
    there = Path(mean[1] if mean else name).expanduser().exists()
    return bool(is_bot(name, env) or _ADDRESS.match(name) or _HUB_ID.fullmatch(name) or name in PACKAGED or there)


def check_player(name: str, env: str) -> None:
    """Check that a name can refer to a player.

    Raises:
        UserError: The name is no bot, no address, no folder, no hub id and no packaged model.
    """
    if not is_player(name, env):
        raise UserError(
            f"no player {name!r}: there is no such folder, and the name is no hub id such as "
            f"Qwen/Qwen3-4B-Instruct-2507, no http address, and no bot ({', '.join(forms_of(env))})"
        )


def players_in(env: str, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names that are players of an environment. A run of several environments has one list of opponents.

    Raises:
        UserError: There are names, and none of them is a player.
    """
    found = tuple(name for name in names if is_player(name, env))
    if names and not found:
        check_player(names[0], env)
    return found


def _in_folder(folder: Path, merged: Path, base: str | None) -> ModelFiles:
    if (folder / "config.json").is_file():
        if card := read_card(folder):
            card.check_digest(folder)
        return ModelFiles(folder)
    if (folder / SETTINGS).is_file():
        from veritas_rl.checkpoints.models import Base

        found = Base.find(base or base_name(folder)).folder
        check_adapter(folder, found)
        return ModelFiles(found, folder)
    if re.fullmatch(r"global_step_\d+", folder.name):
        return ModelFiles(_merge(folder, merged, base))
    if steps := step_folders(folder):
        newest = (whole_checkpoints(folder) or steps)[-1]
        return ModelFiles(_merge(newest, merged, base))
    raise UserError(
        f"{folder} is no checkpoint: it has neither config.json (a model), nor {SETTINGS} (an adapter), nor "
        "global_step_N (a trainer's checkpoints)"
    )


def _mean_of(experiment: Path, count: int, merged: Path, base: str | None) -> Path:
    """Write the mean of an experiment's last checkpoints into a model folder, unless that exists."""
    steps = whole_checkpoints(experiment) or step_folders(experiment)
    if len(steps) < count:
        raise UserError(f"{experiment} has {len(steps)} complete checkpoints, and the mean needs {count}")
    models = [_merge(checkpoint, merged, base) for checkpoint in steps[-count:]]
    version = f"{digest(*map(str, models)):016x}"[:8]
    target = merged / f"{experiment.name}-mean-{count}-{version}"
    if not target.exists():
        from veritas_rl.checkpoints.mean import write_mean

        write_mean(models, target)
    return target


def _merge(checkpoint: Path, merged: Path, base: str | None) -> Path:
    """Merge a trainer's checkpoint into a model folder, unless that exists."""
    check_shards(checkpoint)
    # The folder's name depends on the times of the files, so a rewritten checkpoint is merged again.
    files = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in shard_files(checkpoint)]
    version = f"{digest(checkpoint, base, files):016x}"[:8]
    target = merged / f"{checkpoint.parent.name}-step-{step_of(checkpoint)}-{version}"
    if not target.exists():
        from veritas_rl.checkpoints.assemble import merge_checkpoint
        from veritas_rl.checkpoints.models import quiet

        quiet()
        merge_checkpoint(checkpoint, target, base)
    return target


@dataclass(frozen=True)
class LoadedModel:
    """A loaded model.

    Attributes:
        engine: The engine of the model.
        tokenizer: The model's tokenizer, with a chat template.
        fingerprint: A digest that is equal for equal weights.
    """

    engine: "GenerationEngine"
    tokenizer: Any
    fingerprint: str


def load_model(files: ModelFiles, max_tokens: int, concurrency: int) -> LoadedModel:
    """Load a model, with or without an adapter, on the GPU if there is one.

    Args:
        files: The files of the model.
        max_tokens: The maximum number of tokens of a reply.
        concurrency: The number of replies that are generated at once.

    Raises:
        UserError: The model does not load, or the engine does not support it.
    """
    # Imported late, because bots and servers need no torch.
    import torch

    from veritas_rl.checkpoints.models import load_adapter, quiet
    from veritas_rl.players.generation import GenerationEngine
    from veritas_rl.players.language_model import load_language_model

    quiet()
    model, tokenizer = load_language_model(files.folder, "cuda" if torch.cuda.is_available() else "cpu")
    fingerprint = weights_fingerprint(files.folder)
    if files.adapter is not None:
        model = load_adapter(model, files.adapter).get_base_model()
        fingerprint += hashlib.sha256((files.adapter / WEIGHTS).read_bytes()).hexdigest()
    if note := end_warning(tokenizer, model.generation_config, files.folder):
        print(note, file=sys.stderr)
    longest = model.config.get_text_config(decoder=True).max_position_embeddings
    try:
        engine = GenerationEngine.of(
            model,
            tokenizer,
            max_batch_size=concurrency,
            max_model_len=min(longest, LONGEST_PROMPT + max_tokens),
        )
    except ValueError as error:
        raise UserError(
            f"the engine cannot serve {files.folder} ({error}); serve the model with vLLM and give its address"
        ) from error
    return LoadedModel(engine, tokenizer, fingerprint)


def _player_of(name: str, files: ModelFiles, settings: ReplySettings) -> NamedPlayer:
    loaded = load_model(files, settings.max_tokens, settings.concurrency)
    from veritas_rl.players.language_model import LanguageModelPlayer
    from veritas_rl.players.sampling import SamplingParams

    params = SamplingParams(settings.max_tokens, settings.temperature, settings.top_p)
    shown = {"enable_thinking": settings.enable_thinking, "say_limit": settings.say_limit}
    player = LanguageModelPlayer(loaded.engine, loaded.tokenizer, params, settings.seed, **shown)
    identity = f"{loaded.fingerprint},{settings.sampling}"
    return NamedPlayer(name, identity, player, is_model=True, close=loaded.engine.close)
