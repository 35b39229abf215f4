"""What training without a GPU needs: platform, engines, rollout, corrections, speed patches, fork server.

`room.register` is the one way in. What every run uses stands in the folder above.
"""
