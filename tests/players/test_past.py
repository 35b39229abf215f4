"""Past models of a run as opponents: each game gets one checkpoint, or the base model before the first checkpoint."""

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
    save_checkpoint(run, tiny_model, 1, 1.0)  # unchanged weights: plays like the base
    assert set(said(player, "second")) == {base}
    save_checkpoint(run, tiny_model, 2, -1.0)
    other = text_of(run / "global_step_2", tmp_path)
    assert other != base
    # Unfinished games keep the opponent that they started with.
    assert set(said(player, "first")) == {base}
    texts = said(player, "third")
    assert set(texts) == {base, other}
    assert texts[::2] == texts[1::2]  # one player makes both moves of a game
    assert said(PastPlayer(run, str(tiny_model), "openspiel", SETTINGS), "third") == texts
    shutil.rmtree(run / "global_step_1")
    assert said(player, "third") == texts
    assert set(said(player, "fourth")) == {other}
