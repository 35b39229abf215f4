"""Environments behind a server with the HTTP protocol of affinetes."""
