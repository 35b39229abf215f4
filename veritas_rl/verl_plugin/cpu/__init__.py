"""What only runs without a GPU use: platform, engines, rollout, speed patches, fork server."""
