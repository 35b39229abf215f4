"""From a few questions to `.env` and a recipe: `train/tools/configure.py`."""
