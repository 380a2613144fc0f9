"""Finds the ranks that a hanging job waits for: `dump` reads one rank's dump, `collectives` compares all."""
