"""Starting a run: the small model that a machine without a GPU trains, and its supervised warm-up."""
