"""A page over the runs of a folder, from the files that they leave. Nothing there is changed."""
