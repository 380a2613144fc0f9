"""Adapters that keep the evidence of an instance."""
