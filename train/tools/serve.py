"""Serve environments and models over HTTP to clients of other projects.

    python train/tools/serve.py --env openspiel --games "hex(board_size=5),leduc_poker" --port 8000
    python train/tools/serve.py --env all
    python train/tools/serve.py --model CHECKPOINT [--adapter NAME=FOLDER] --port 9000

affinetes' client plays and evaluates at http://127.0.0.1:8000, or with several environments at
http://127.0.0.1:8000/trace and so on. A model answers OpenAI's chat completions at http://127.0.0.1:9000/v1: on a CPU
with this project's engine, on GPUs with vLLM. GET / lists what is served. docs/serving.md shows clients.

Only this machine reaches the server. With --host 0.0.0.0 other machines also reach it, and a token is required: write
the token into a file, and set --token_file FILE.

Exit code 0: ended by Ctrl-C. 2: an argument is wrong, or the port is taken.
"""

import argparse
import importlib.util
import logging
import os
import shlex
import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from veritas_rl.configs import split_list
from veritas_rl.envs.registry import ENVIRONMENTS, environment_named
from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.judging.options import add_config, config_of
from veritas_rl.serving.limits import KEEP_ALIVE, LOOPBACK, Limits

if TYPE_CHECKING:
    from veritas_rl.players.loading import ModelFiles
    from veritas_rl.serving.chat import ServedModel
    from veritas_rl.serving.offer import Offer

LEAST_TOKEN = 16
"""The minimum length of a token in characters. A shorter token could be guessed."""

REPLY_TOKENS = 4096
"""The number of reply tokens for which this project's engine reserves memory, in addition to the longest prompt."""

MERGED = Path("train/outputs/served")
"""The folder into which a trainer's checkpoint is merged."""


def main() -> None:
    """The command line."""
    default = Limits()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = parser.add_argument
    env = "environments to serve, separated by commas, or all; default: openspiel, or none with --model"
    add("--env", default="", help=env)
    games = "cases to serve, separated by commas; needs a single environment; default: all of its cases"
    add("--games", "--cases", default="", help=games)
    add_config(parser)
    split = "split of the tasks, if a client does not name one; default: val"
    add("--split", choices=("train", "val"), default="val", help=split)
    opponents = (
        "opponents that clients may choose in games, separated by commas; the first plays if a client does not choose; "
        "default: mcts,random,none"
    )
    add("--opponents", default="", help=opponents)
    add(
        "--ids",
        action="store_true",
        help="in games, replies are ids of actions, as in affinetes' own environment, unless a client asks otherwise",
    )
    add("--model", help="the model to serve: a model's folder, a checkpoint, an adapter or a hub id")
    add("--model_name", default="", help="the model's name for clients; default: the last part of its path")
    adapter = "serve an adapter of the model as NAME; may be repeated"
    add("--adapter", action="append", default=[], metavar="NAME=FOLDER", help=adapter)
    add("--base", help="base model of an adapter or checkpoint that names none, or whose base is missing")
    concurrency = "maximum number of replies that this project's own engine generates at once; default: 32"
    add("--concurrency", type=int, default=32, help=concurrency)
    engine = "engine of the model: own, vllm, or auto (vllm if there is a GPU and vLLM is installed); default: auto"
    add("--engine", choices=("auto", "own", "vllm"), default="auto", help=engine)
    add("--print", action="store_true", help="only print the command that starts vLLM")
    add("--host", default="127.0.0.1", help="the address to listen at; default: 127.0.0.1, for this machine only")
    add("--port", type=int, default=8000, help="the port to listen at; 0 uses a free port; default: 8000")
    add("--token_file", type=Path, help="a file with the token that each client must send")
    sessions = f"maximum number of open sessions; default: {default.sessions}"
    add("--sessions", type=int, default=default.sessions, help=sessions)
    idle = f"seconds without a step after which a session ends; default: {default.idle:g}"
    add("--idle", type=float, default=default.idle, help=idle)
    seconds = f"maximum number of seconds for one step or evaluation; default: {default.seconds:g}"
    add("--seconds", type=float, default=default.seconds, help=seconds)
    evaluations = f"maximum number of evaluations at once, others wait; default: {default.evaluations}"
    add("--evaluations", type=int, default=default.evaluations, help=evaluations)
    given = parser.parse_args()
    token = _token(given.token_file)
    if given.host not in LOOPBACK and not token:
        raise UserError(f"--host {given.host} admits other machines: add --token_file, or leave --host out")
    limits = Limits(sessions=given.sessions, idle=given.idle, seconds=given.seconds, evaluations=given.evaluations)
    env = given.env or ("" if given.model else "openspiel")
    names = list(ENVIRONMENTS) if env == "all" else split_list(env, "env")
    names = [environment_named(name, Path.cwd()) for name in names]
    if len(names) != 1 and (given.games or given.config or given.opponents or given.ids):
        raise UserError("--games, --config, --opponents and --ids need one environment: name it with --env")
    if not given.model and (given.adapter or given.model_name or given.print or given.engine != "auto"):
        raise UserError("--adapter, --model_name, --engine and --print need --model: add it")
    models: dict[str, ServedModel] = {}
    if given.model:
        files = _model_files(given)
        if given.print or _takes_vllm(given.engine):
            if names:
                raise UserError("vLLM cannot serve environments: serve --env with a second command and another --port")
            _run_vllm(given, files, token)
            return
        models = _load(files, given.concurrency)
    offers = [_offer(name, given) for name in names]
    # Late, because help and a wrong option do not need these imports.
    import uvicorn

    from veritas_rl.serving.app import make_app

    app = make_app(offers, limits, token, () if given.host not in LOOPBACK else LOOPBACK, models)
    listening = _listen(given.host, given.port)
    _allow_files()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    host, port = listening.getsockname()[:2]
    shown = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    for name in models:
        print(f"serving the model {name} at {shown}/v1", flush=True)
    if names:
        print(f"serving {', '.join(names)} at {shown}", flush=True)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE,
        limit_concurrency=limits.sessions + 1000,
        ws_max_size=limits.body,
        ws_per_message_deflate=False,  # compression would take longer than the rest of the work for a message
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _offer(name: str, given: argparse.Namespace) -> "Offer":
    from veritas_rl.serving.offer import Offer

    cases, opponents = split_list(given.games, "games"), split_list(given.opponents, "opponents")
    return Offer(name, cases, dict(config_of(given)), opponents, given.split, given.ids)


def _model_files(given: argparse.Namespace) -> dict[str, "ModelFiles"]:
    """The model and its adapters by name, the model first."""
    from veritas_rl.checkpoints.adapter import check_adapter
    from veritas_rl.players.loading import ModelFiles, find_model

    main = find_model(given.model, MERGED, given.base)
    found = {given.model_name or Path(given.model).expanduser().resolve().name: main}
    for text in given.adapter:
        name, separator, place = text.partition("=")
        if not name or not separator or not place:
            raise UserError(f"--adapter must be NAME=FOLDER, not {text!r}")
        if name in found:
            raise UserError(f"two models have the name {name}: choose another name")
        if main.adapter is not None:
            raise UserError(
                f"{given.model} is an adapter: set --model to its base, and add both adapters with --adapter"
            )
        folder = Path(place).expanduser().resolve()
        check_adapter(folder, main.folder)
        found[name] = ModelFiles(main.folder, folder)
    return found


def _takes_vllm(engine: str) -> bool:
    if engine != "auto":
        return engine == "vllm"
    return shutil.which("nvidia-smi") is not None and importlib.util.find_spec("vllm") is not None


def _run_vllm(given: argparse.Namespace, files: dict[str, "ModelFiles"], token: str) -> None:
    """Replace this process with vLLM, or print its command."""
    from veritas_rl.serving.vllm import command

    (name, main), *others = files.items()
    adapters = {other: one.adapter for other, one in others if one.adapter is not None}
    if main.adapter is not None:  # the adapter is served under `name`, and the base under the name of its folder
        adapters, name = {name: main.adapter}, main.folder.name
    made = command(main.folder, name, adapters, given.host, given.port)
    print(shlex.join(made), flush=True)
    if given.print:
        return
    if shutil.which("vllm") is None:
        raise UserError(
            "--engine vllm needs vLLM, which is not installed: run bash train/scripts/setup.sh gpu, or use --engine own"
        )
    if token:
        # Not an argument, because every user of the machine can read the arguments of processes.
        os.environ["VLLM_API_KEY"] = token
    os.execvp(made[0], made)


def _load(files: dict[str, "ModelFiles"], concurrency: int) -> dict[str, "ServedModel"]:
    from veritas_rl.players.loading import load_model
    from veritas_rl.serving.chat import ServedModel

    if concurrency < 1:
        raise UserError(f"--concurrency must be at least 1, not {concurrency}")
    return {name: ServedModel(load_model(one, REPLY_TOKENS, concurrency)) for name, one in files.items()}


def _token(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        raise UserError(f"--token_file {file} cannot be read ({error})") from error
    if len(token) < LEAST_TOKEN or len(token.split()) != 1:
        raise UserError(
            f"--token_file {file} must contain one word of at least {LEAST_TOKEN} characters, such as from openssl "
            "rand -hex 16"
        )
    return token


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)
    except (OSError, OverflowError) as error:
        listening.close()
        raise UserError(f"cannot listen at {host}, port {port} ({error}): choose another --port") from error
    return listening


def _allow_files() -> None:
    """Raise the limit of open files to the maximum, because each open connection is an open file."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    exit_on_user_error(main)
