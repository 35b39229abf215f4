"""Which task comes next: stages of rising difficulty, and failures that are asked again. No torch, no verl."""
