"""What `data.custom_cls.path` names: verl loads this file by path. The classes live in the package."""

from veritas_rl.verl_plugin.dataset import DynamicEnvDataset, LGCV2DynamicDataset, OpenSpielDataset

__all__ = ["DynamicEnvDataset", "LGCV2DynamicDataset", "OpenSpielDataset"]
