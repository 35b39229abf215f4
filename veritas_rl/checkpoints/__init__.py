"""What training leaves behind: the layout of a checkpoint, its adapter, and a merge that is compared with its base."""
