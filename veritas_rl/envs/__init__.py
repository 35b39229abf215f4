"""The environments: the protocol (`base`), the registry, and a folder for each environment."""
