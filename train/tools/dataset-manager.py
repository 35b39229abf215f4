"""The file of `data.custom_cls.path`. verl loads it by path. The package contains the classes."""

from veritas_rl.verl_plugin.dataset import DynamicEnvDataset, LGCV2DynamicDataset, OpenSpielDataset

__all__ = ["DynamicEnvDataset", "LGCV2DynamicDataset", "OpenSpielDataset"]
