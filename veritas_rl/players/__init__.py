"""The players: each one answers a batch of turns."""
