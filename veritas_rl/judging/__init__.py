"""Judging: positions and games, statistics, reports."""
