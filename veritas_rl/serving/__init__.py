"""An HTTP server that offers environments and models by several protocols."""
