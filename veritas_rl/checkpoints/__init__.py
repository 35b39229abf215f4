"""Checkpoints: their layout, adapters, and merges that are compared with the base."""
