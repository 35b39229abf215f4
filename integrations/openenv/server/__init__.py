"""The server of the environment: veritas-rl's own."""
