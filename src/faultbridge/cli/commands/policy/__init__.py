"""Commands that check, publish, list, show, compare and back-test policies."""
