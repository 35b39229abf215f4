"""The games of TextArena (https://github.com/LeonGuertler/TextArena) as an environment of whole games.

games.py      the library's games: which are used, their seats, and a game that runs
answers.py    the answer of a reply, and random answers of the forms that a question shows
session.py    a game as a session
env.py        settings, tasks and the environment
"""
