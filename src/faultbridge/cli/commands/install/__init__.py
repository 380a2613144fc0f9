"""Commands that install Faultbridge, connect clusters to it, look for what is missing, and remove it."""
