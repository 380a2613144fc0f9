"""Adapters of the Launcher port."""
