"""Records: what a recipe promises, what its runs came to, and the pages that show both."""
