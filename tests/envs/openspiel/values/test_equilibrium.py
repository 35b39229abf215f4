"""Equilibria are kept in a folder, because they take up to a minute."""

from pathlib import Path

import pytest

from veritas_rl.envs.openspiel import playing
from veritas_rl.envs.openspiel.cases import load
from veritas_rl.envs.openspiel.values import equilibrium
from veritas_rl.envs.openspiel.values.equilibrium import Equilibrium

KUHN = load("kuhn_poker")
BET = playing.replay(KUHN, (2, 0, 1))
"""The second player has the lowest card, and the first player has bet."""


def test_an_equilibrium_is_the_same_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Equilibrium(KUHN, tmp_path)
    found = first.values(BET), first.probabilities(BET)
    assert found[0][0] > found[0][1]  # folding is better
    monkeypatch.setattr(equilibrium.pyspiel, "CFRPlusSolver", None)
    again = Equilibrium(KUHN, tmp_path)
    assert (again.values(BET), again.probabilities(BET)) == found
    with pytest.raises(TypeError):
        Equilibrium(load("leduc_poker"), tmp_path)  # each case has a file of its own


@pytest.mark.parametrize("content", ["", "[]", "[1, 2]", "{}", "[{}, {"])
def test_a_damaged_file_is_replaced(tmp_path: Path, content: str) -> None:
    values = Equilibrium(KUHN, tmp_path).values(BET)
    (file,) = tmp_path.iterdir()
    whole = file.read_text()
    file.write_text(content)
    assert Equilibrium(KUHN, tmp_path).values(BET) == values
    assert file.read_text() == whole


def test_a_folder_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    without = Equilibrium(KUHN)
    assert Equilibrium(KUHN, tmp_path / "file" / "folder").values(BET) == without.values(BET)
