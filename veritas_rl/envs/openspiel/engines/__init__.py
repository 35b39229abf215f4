"""External engines, which value moves and play: Stockfish, GNU Go, Pachi, GNU Backgammon, a double dummy solver."""
