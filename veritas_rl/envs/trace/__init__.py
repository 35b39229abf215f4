"""Predict the exact output of a Python program."""
