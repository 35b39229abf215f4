"""A run's own past as an opponent: each game has one of its checkpoints, and the base plays before there is any."""

import shutil
from collections.abc import Callable
from pathlib import Path

from veritas_rl.envs.base import Turn
from veritas_rl.players.loading import ReplySettings, open_player
from veritas_rl.players.past import PastPlayer

SETTINGS = ReplySettings(max_tokens=6)
MESSAGES = ({"role": "user", "content": "one"},)


def turns(batch: str) -> list[Turn]:
    """Two moves of each of twelve games."""
    return [Turn(0, MESSAGES, (), dice=(batch + game, ply, 0)) for game in "abcdefghijkl" for ply in (0, 2)]


def said(player: PastPlayer, batch: str) -> list[str]:
    return [reply.text for reply in player.act(turns(batch))]


def text_of(name: Path, tmp_path: Path) -> str:
    return open_player(str(name), "openspiel", SETTINGS, tmp_path / "merged").player.act(turns("any")[:1])[0].text


def test_each_game_has_one_of_the_checkpoints(
    tiny_model: Path, save_checkpoint: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    player = PastPlayer(run, str(tiny_model), "openspiel", SETTINGS)
    base = text_of(tiny_model, tmp_path)
    assert set(said(player, "first")) == {base}
    save_checkpoint(run, tiny_model, 1, 1.0)  # nothing has changed: it plays as its base does
    assert set(said(player, "second")) == {base}
    save_checkpoint(run, tiny_model, 2, -1.0)
    other = text_of(run / "global_step_2", tmp_path)
    assert other != base
    # Games that are in play go on with whom they began.
    assert set(said(player, "first")) == {base}
    texts = said(player, "third")
    assert set(texts) == {base, other}
    assert texts[::2] == texts[1::2]  # both moves of a game are of one player
    assert said(PastPlayer(run, str(tiny_model), "openspiel", SETTINGS), "third") == texts
    shutil.rmtree(run / "global_step_1")
    assert said(player, "third") == texts
    assert set(said(player, "fourth")) == {other}
