"""Lets a person play a game against a player, in a page of this machine or in the terminal."""
