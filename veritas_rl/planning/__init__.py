"""Forecast memory and time of a run from the model's shape and the resolved settings.

`docs/planning.md` has the formulas, their sources and how they were checked.
"""
