"""A training batch row by row: its tokens, what is learned, rewards and advantages, in a terminal and as a page."""
