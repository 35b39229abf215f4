"""Exact scores of policies in small games."""
