"""Fixtures of the embedded stack's own tests."""

from tests.local.stack import embedded_stack, tiny_stack

__all__ = ["embedded_stack", "tiny_stack"]
