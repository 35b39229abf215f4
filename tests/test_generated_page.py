"""A generated page is written, or checked against the text that would be written."""

from pathlib import Path

import pytest

from veritas_rl import generated_page
from veritas_rl.errors import UserError
from veritas_rl.generated_page import page_command


def test_check_says_in_one_line_whether_the_page_is_current(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generated_page, "ROOT", tmp_path)
    page, gone = tmp_path / "pages/page.md", tmp_path / "pages/gone.md"
    page.parent.mkdir()

    def run(*options: str, text: str = "new") -> int:
        monkeypatch.setattr("sys.argv", ["module", *options])
        return page_command("some.module", lambda: {page: text}, page.parent)

    assert run("--check") == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert "page.md" in line
    assert "python -m some.module" in line
    assert run() == 0
    assert page.read_text() == "new"
    assert run("--check") == 0
    gone.write_text("of a page that is not made any more")
    assert run("--check") == 1
    assert "gone.md is out of date" in capsys.readouterr().out
    assert run() == 0
    assert not gone.exists()
    assert run("--check", text="newer") == 1
    with pytest.raises(UserError, match="--chekc"):
        run("--chekc")
