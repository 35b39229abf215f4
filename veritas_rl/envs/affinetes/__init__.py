"""Environments that run elsewhere, behind the HTTP protocol of affinetes."""
