"""OpenSpiel's games (https://github.com/google-deepmind/open_spiel) as an environment.

`cases` names and loads them, `games` describes them, `positions` draws the states of single moves, `text` shows them,
`parsing` reads replies, `scoring` values them (`solver` exactly, where a game is small), and `env` puts these together.
"""
