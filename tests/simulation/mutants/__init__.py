"""Mutants of the product: each breaks one condition of a write, one acknowledgement or one watermark's comparison."""
