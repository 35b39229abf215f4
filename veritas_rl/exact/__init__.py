"""Whole policies of small games, scored exactly."""
