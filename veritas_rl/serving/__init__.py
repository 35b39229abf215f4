"""Our environments and models for others: one HTTP server that speaks several protocols."""
