"""What is played: the protocol (`base`), the registry, and a folder for each environment."""
