"""Recorded games, and the pages that show them."""
