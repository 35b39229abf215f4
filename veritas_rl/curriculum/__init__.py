"""Which task is played next: stages of rising difficulty, and replay of failed tasks. No torch, no verl."""
