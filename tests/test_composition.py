"""Composing gives what Hydra composes, also from what is kept of an earlier composition."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from veritas_rl.composition import CONFIG_DIR, composed

CPU = ["hardware=cpu", "start=made", "rollout=transformers"]


def of_hydra(folder: Path, name: str, overrides: list[str]) -> DictConfig:
    """What Hydra composes, resolved."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        configuration = compose(config_name=name, overrides=overrides)
    OmegaConf.resolve(configuration)
    return configuration


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["algorithm=dapo", "data.train_batch_size=64", "++new.key=1", "~ray_kwargs.ray_init.num_cpus"],
        # Values without a dot in their keys, of which the last one counts.
        ["data.train_batch_size=4", "data={train_batch_size: 8}"],
        ["data={train_batch_size: 8}", "data.train_batch_size=4"],
        ["+mine.a=1", "+mine={b: 2}", "+other=3", "hydra.run.dir=/somewhere"],
        ["+mine.a=1", "~mine"],
    ],
)
def test_a_configuration_is_hydras(overrides: list[str]) -> None:
    expected = OmegaConf.to_yaml(of_hydra(CONFIG_DIR, "rl", [*CPU, *overrides]))
    for _ in range(2):
        assert OmegaConf.to_yaml(composed(CONFIG_DIR, "rl", [*CPU, *overrides])) == expected


@pytest.mark.parametrize("refused", ["no_such_key.of=1", "data.train_batch_size=1,2", "algorithm=none", "~data.none"])
def test_what_hydra_refuses_is_refused_with_its_words(refused: str) -> None:
    said = []
    for function in (of_hydra, composed):
        with pytest.raises(HydraException) as error:
            function(CONFIG_DIR, "rl", [*CPU, refused])
        said.append(str(error.value).partition("Config search path")[0])
    assert said[0] == said[1]


def test_files_that_change_appear_or_go_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "root.yaml").write_text("defaults: [{size: small}, {optional extra: more}, _self_]\nhydra: {}\n")
    (tmp_path / "size").mkdir()
    (tmp_path / "extra").mkdir()
    small, more = tmp_path / "size/small.yaml", tmp_path / "extra/more.yaml"
    small.write_text("layers: 1\n")
    assert composed(tmp_path, "root", []) == {"size": {"layers": 1}}
    small.write_text("layers: 12\n")
    assert composed(tmp_path, "root", []) == {"size": {"layers": 12}}
    more.write_text("bias: true\n")
    assert composed(tmp_path, "root", []) == {"size": {"layers": 12}, "extra": {"bias": True}}
    more.unlink()
    assert composed(tmp_path, "root", ["size.layers=2"]) == {"size": {"layers": 2}}
