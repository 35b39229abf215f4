"""Players of OpenSpiel games: tree search, exact solutions and external engines."""
