"""Players of OpenSpiel games: tree search and exact solutions."""
