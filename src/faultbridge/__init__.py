"""Faultbridge turns GPU-node faults into verified repairs, pages and an audit timeline."""

__version__ = "0.1.0"
