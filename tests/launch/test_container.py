"""The container's image is built from the Dockerfile, and trains as a user that is not root.

    sudo apt-get install buildah debootstrap
    python -m pytest -m long tests/launch/test_container.py

No Docker engine and no registry is needed: debootstrap makes the base image, a Debian with Python instead of verl's
image, and buildah builds in a plain folder. This takes about eight minutes and 10 GB, and needs root.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BASE, IMAGE = "localhost/base", "localhost/veritas-rl"
SECRET = "hf_planted_in_the_folder_that_is_built"
SHORT = (
    *("trainer.total_training_steps=1", "data.train_batch_size=16", "veritas_rl.warm_up.steps=10"),
    "veritas_rl.evaluation=null",
)
PACKAGES = "python3,python3-venv,python3-dev,gcc,git,ca-certificates,procps"

pytestmark = [
    pytest.mark.long,
    pytest.mark.training,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("buildah", "debootstrap"))),
        reason="needs root, buildah and debootstrap",
    ),
]


def run(*words: str | Path) -> str:
    """What a command prints that has a secret in its environment."""
    environment = {**os.environ, "HF_TOKEN": SECRET}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def of_pip() -> Iterator[str]:
    """The options that mount what pip's configuration on this machine names: its files, and local packages."""
    debug = run(sys.executable, "-m", "pip", "config", "debug")
    files = re.findall(r"^\s+(/.*), exists: True$", debug, re.MULTILINE)
    named = re.findall(r"(?:^|[\s'=]|file://)(/[^\s']+)", run(sys.executable, "-m", "pip", "config", "list"))
    # An index is a folder `simple` beside the files that its pages link to.
    above = {str(Path(path).parent) if Path(path).name == "simple" else path for path in named if Path(path).exists()}
    for path in sorted({*files, *above}):
        yield f"--volume={path}:{path}:ro"


def test_the_image_is_built_and_trains_as_a_user_that_is_not_root(tmp_path: Path) -> None:
    store, context, system = tmp_path / "store", tmp_path / "context", tmp_path / "system"

    def buildah(*words: str | Path) -> str:
        return run("buildah", "--root", store, "--runroot", tmp_path / "run", "--storage-driver=vfs", *words)

    def inside(*words: str) -> str:
        return buildah("run", "--isolation=chroot", "run", "--", *words)

    for name in run("git", "-C", ROOT, "ls-files").splitlines():
        if (ROOT / name).is_file():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, context / name)
    for place in (".env", "veritas_rl/.env", "train/artifacts/key.txt", ".git/config"):
        (context / place).parent.mkdir(parents=True, exist_ok=True)
        (context / place).write_text(f"HF_TOKEN={SECRET}\n")
    try:
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", system)
        buildah("from", "--name=base", "scratch")
        buildah("copy", "--quiet", "base", system, "/")
        buildah("commit", "--quiet", "base", BASE)
        buildah("bud", "--isolation=chroot", *of_pip(), f"--build-arg=IMAGE={BASE}", f"--tag={IMAGE}", context)
        # buildah writes one layer, and this driver keeps it as a folder.
        (inside_workspace,) = store.glob("vfs/dir/*/workspace/veritas-rl")
        assert (inside_workspace / "train/scripts/openspiel-ppo-trainer.sh").is_file()
        layer = inside_workspace.parents[1]
        places = [layer / name for name in ("workspace", "home", "root", "tmp", "etc", "opt", "var")]
        searched = subprocess.run(["grep", "-rlsa", SECRET, *places], capture_output=True, text=True, check=False)
        assert (searched.returncode, searched.stdout) == (1, "")
        assert SECRET not in buildah("inspect", "--type=image", IMAGE)
        buildah("from", "--name=run", IMAGE)
        assert inside("id", "--user", "--name").strip() == "trainer"
        assert inside("pwd").strip() == "/workspace/veritas-rl"
        # The environment of the image is used as it is, although this user cannot write into it.
        printed = inside("bash", "train/scripts/openspiel-ppo-trainer.sh", *SHORT)
        assert "step 1/1" in printed
        assert "global_step_1" in printed
    finally:
        shutil.rmtree(store, ignore_errors=True)
        shutil.rmtree(system, ignore_errors=True)
