"""Environments of other libraries, one file each: optional extras that are imported only if they are named."""
