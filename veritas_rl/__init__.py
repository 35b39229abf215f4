"""veritas-rl: teach language models to play games, and prove that they learned.

The library imports without verl, torch or a GPU, except in the folders that `docs/architecture.md` names.
"""
