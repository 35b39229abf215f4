"""OpenSpiel's games (https://github.com/google-deepmind/open_spiel) as an environment.

`cases` names and loads them, `games` describes them, `positions` draws the states of single moves, `text` shows them,
`parsing` reads replies, `values` says what moves are worth, and `env` puts these together.
"""
