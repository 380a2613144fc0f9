"""Raw text to observations: one module a format, registered by name; no clock, no network, no files."""
