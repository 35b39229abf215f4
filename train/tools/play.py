"""Play a game against a model, a bot or an engine, on a page of this machine or by typing.

    python train/tools/play.py --game "hex(board_size=5)" --opponent mcts:200
    python train/tools/play.py --game chess --opponent uci:stockfish --seat 1
    python train/tools/play.py --opponent models/hex_5
    python train/tools/play.py --game leduc_poker --opponent http://localhost:8000/v1 --terminal

An OPPONENT is a bot of the environment (listed at the end), a folder (a model, an adapter, global_step_N, or an
experiment), a hub id, or the address of an OpenAI-compatible server. Games that end are added to the output folder:
games.html and games.jsonl show them move by move, and demonstrations.jsonl has your moves for
train/tools/convert_to_parquet.py.
"""

from pathlib import Path

from veritas_rl.errors import UserError, exit_on_user_error
from veritas_rl.judging.options import (
    PlayersParser,
    add_config,
    add_reply_options,
    ask_as_trained,
    config_of,
    replies_of,
)
from veritas_rl.paths import ROOT

OUTPUT = ROOT / "train/outputs/play"
PORT = 8760
RETRIES = 2
"""How often a model may answer again after a mistake, in a whole game."""


def main() -> None:
    """The command line."""
    parser = PlayersParser(__doc__, "openspiel")
    add = parser.add_argument
    add("--game", help='the game to play, such as "hex(board_size=5)"; default: that of the opponent\'s training')
    add("--opponent", default="random", help="the player of the other seats; default: random")
    add("--seat", type=int, default=0, help="your seat, counted from 0; default: 0")
    add("--terminal", action="store_true", help="play in this terminal by typing, without a page")
    add("--port", type=int, default=PORT, help=f"port of the page; 0 uses a free port; default: {PORT}")
    add("--no_browser", action="store_true", help="do not open a browser")
    add("--output", type=Path, default=OUTPUT, help="the folder for the games that end")
    add("--seed", type=int, default=42, help="seed of deals, dice, bots and replies; default: 42")
    retries = f"how often a model may answer again after a mistake, in a whole game; default: {RETRIES}"
    add("--retries", type=int, default=RETRIES, help=retries)
    add_config(parser)
    add_reply_options(parser)
    parser.set_defaults(concurrency=8)
    given = parser.parse_args()
    if not 0 <= given.port < 65536:
        raise UserError(f"--port must be between 0 and 65535, not {given.port}")
    # Late, because the following code imports pyspiel: a wrong option does not need it.
    from veritas_rl.envs.registry import get_environment, make_task
    from veritas_rl.envs.task import task_values
    from veritas_rl.players.loading import open_player
    from veritas_rl.players.registry import check_bot, is_bot
    from veritas_rl.viewing.play.table import Table

    environment = get_environment(given.env)
    if "mode" not in environment.config_type.model_fields:
        raise UserError(f"{given.env} asks single questions and has no games to play; evaluate.py judges a model on it")
    trained = ask_as_trained(given, [given.opponent]).get(given.opponent)
    replies = replies_of(given)
    chosen = given.game or (",".join(trained.cases) if trained else "")
    if not chosen:
        raise UserError(f'{given.opponent} does not say which game: name one with --game, such as "hex(board_size=5)"')
    cases = environment.read_config({environment.config_type.cases_key: chosen, "mode": "episode"}).cases
    games = {case.partition("(")[0] for case in cases}
    if len(games) != 1:
        named = f"--game {given.game} names" if given.game else f"{given.opponent} was trained on"
        raise UserError(f"{named} {len(games)} games: name one with --game, of {', '.join(cases)}")
    values = {"mode": "episode", "seed": given.seed, "prompt": given.prompt}
    if "retries" in task_values(environment.task_type):
        values["retries"] = given.retries
    for key, value in config_of(given):
        if key in values:
            raise UserError(
                f"{key} is not set with --config; use --{key} if play.py --help lists it, else leave it out"
            )
        values[key] = value
    task = make_task(given.env, cases[0], 0, **values)
    player = None
    if environment.players_of(task) > 1:
        if is_bot(given.opponent, given.env):
            check_bot(given.opponent, given.env, [task.case])
        player = open_player(given.opponent, given.env, replies, given.output / "models", given.base)
    try:
        table = Table(task, given.seat, player and player.player, given.opponent, given.output)
        if given.terminal:
            from veritas_rl.viewing.play.terminal import play_in_terminal

            play_in_terminal(table)
        else:
            from veritas_rl.viewing.play.server import serve

            serve(table, given.port, not given.no_browser)
    finally:
        if player:
            player.close()


if __name__ == "__main__":
    exit_on_user_error(main)
