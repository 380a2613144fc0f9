"""Adapters that mend an instance in place."""
