"""Files and folders appear complete or not at all."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from veritas_rl.checkpoints.folder import whole_folder, write_whole
from veritas_rl.errors import UserError


def test_a_folder_appears_at_the_end_and_all_may_read_it(tmp_path: Path) -> None:
    target = tmp_path / "some/model"
    with whole_folder(target) as beside:
        (beside / "inner").mkdir()
        save_file({"a": torch.ones(2)}, beside / "inner/a.safetensors")
        assert not target.exists()
    assert [path.name for path in target.parent.iterdir()] == ["model"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in [target, *target.rglob("*")]}
    assert modes == {"model": 0o755, "inner": 0o755, "a.safetensors": 0o644}


def test_after_an_error_there_is_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with whole_folder(tmp_path / "model") as beside:
            (beside / "a").write_text("a part")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserError, match="is not empty"), whole_folder(taken):
            pass
    with pytest.raises(UserError, match="cannot be created"), whole_folder(tmp_path / "file/model"):
        pass
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    with whole_folder(tmp_path / "empty") as beside:
        (beside / "a").touch()
    assert (tmp_path / "empty/a").is_file()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.json", "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "a.json", "new \udc80")
    assert (tmp_path / "a.json").read_text() == "old"
    write_whole(tmp_path / "a.json", "new")
    assert (tmp_path / "a.json").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
