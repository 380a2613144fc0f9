"""Commands that register a fleet, show it, and control its repairs."""
