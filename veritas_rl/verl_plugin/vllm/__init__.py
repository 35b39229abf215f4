"""What verl's rollout in vLLM lacks: answers of workers, their adapter, and ends of what failed."""
