"""Commands for the embedded stack, which runs on this machine."""
