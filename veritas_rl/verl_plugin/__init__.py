"""The verl plugin: everything that trains games with an unmodified verl. Only this folder imports verl.

verl finds `plugin` through this package's entry point `verl.plugins`, and imports it in each of its processes.
"""
