"""Training without a GPU: platform, engines, rollout, corrections, speed patches, fork server.

`room.register` is the only entry point. The parent folder contains what every run uses.
"""
