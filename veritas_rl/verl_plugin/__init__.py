"""The one place that imports verl: what it takes to train games with an unmodified verl.

verl finds `plugin` through the `verl.plugins` entry point of this package and imports it in each of its processes.
"""
