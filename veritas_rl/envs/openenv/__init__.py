"""Environments behind a server with OpenEnv's protocol: `env=openenv:http://127.0.0.1:8000`.

connection.py   one session over a WebSocket
schema.py       what a server says about its actions and observations, and whether it keeps to seeds
env.py          settings, tasks and the environment
"""
