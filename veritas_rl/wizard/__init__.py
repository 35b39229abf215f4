"""Write `.env` and a recipe from the answers to a few questions: `train/tools/configure.py`."""
