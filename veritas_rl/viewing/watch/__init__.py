"""A page that shows the runs of a folder from their files, and changes nothing there."""
