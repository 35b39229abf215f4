"""Who plays: each player answers a batch of turns."""
