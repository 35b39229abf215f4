"""Judging players: matches, statistics with intervals, and the reports that people read."""
