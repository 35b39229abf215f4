"""Logic puzzles of nine types, generated, solved and checked by this package without network or dataset."""
