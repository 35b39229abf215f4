"""Environments of other libraries: optional extras that are imported only if they are named."""
