"""Recipes' expected figures, the results of their runs, and the pages that show both."""
