"""Players: each answers a batch of turns."""
