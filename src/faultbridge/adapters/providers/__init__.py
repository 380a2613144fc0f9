"""What replaces an instance, one module a provider."""
