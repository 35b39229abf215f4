"""OpenSpiel's games (https://github.com/google-deepmind/open_spiel) as an environment.

`cases` names and loads the games, `games` describes them, `positions` draws the states of single moves, `text` writes
prompts, `parsing` reads replies, `values` estimates the values of moves, and `env` is the environment.
"""
