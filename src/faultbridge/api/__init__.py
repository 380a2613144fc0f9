"""The HTTP API: what is asked and answered, apart from whoever carries it."""
