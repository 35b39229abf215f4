"""The documentation builds as a site without a warning, its links are valid, and the README's Python runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    built = build(ROOT, tmp_path / "site")
    assert (built.returncode, "WARNING" in built.stderr) == (0, False), built.stderr
    assert (tmp_path / "site/index.html").is_file()
    assert (tmp_path / "site/recipes/lgc-v2.html").is_file()


def test_links_to_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    pages = {"CHANGELOG.md": "", "CONTRIBUTING.md": "[files](train/none)", "SECURITY.md": ""}
    pages |= {"README.md": "[a](docs/a.md#no-heading)", "docs/a.md": "[b](b.md) [r](../README.md) `[c](c.md)`"}
    for name, text in pages.items():
        (tmp_path / name).write_text(f"# Title\n\n{text}\n")
    shutil.copy(ROOT / "docs/site_hooks.py", tmp_path / "docs")
    settings, _ = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:\n  -")
    (tmp_path / "mkdocs.yml").write_text(settings)
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode == 1
    assert built.stderr.count("WARNING") == 3
    assert "there is no train/none" in built.stderr
    assert "b.md" in built.stderr
    assert "no-heading" in built.stderr


def test_the_readme_is_short_and_its_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) < 150
    (program,) = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    assert re.fullmatch(r"[01]\.[05]\d* \w+\n", capsys.readouterr().out)


def test_the_files_to_copy_exist() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Set up")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| a")]
    assert len(rows) == 8
    for row in rows:
        for path in re.findall(r"`([a-z_/]+/[\w./*]*)`", f"{row[2]} {row[3]}"):
            folders = (
                ROOT,
                ROOT / "veritas_rl/envs/openspiel",
                ROOT / "train/verl/config",
                ROOT / "tests/envs/openspiel",
            )
            assert any(list(folder.glob(path)) for folder in folders), path
