"""The sets of questions of reasoning-gym (https://github.com/open-thought/reasoning-gym) as an environment.

sets.py       the library's sets: which are used, their levels, and a question of an index
scoring.py    what an answer is, and what it is paid
env.py        settings, tasks and sessions
"""
