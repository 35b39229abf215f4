"""Logic puzzles: nine types, each generated, solved and checked here, without a network and without a data set."""
