"""Logic puzzles of nine types. This package generates, solves and checks them without a network or a dataset."""
