"""successor."""
