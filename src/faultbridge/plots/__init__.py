"""Plots: results of the lab and of the back-test as SVG charts; standard library only.

- `charts`: stacked bars and points with confidence intervals, as SVG text.
- `results`: the charts of a lab comparison of repair systems, and of a back-test.

This package does not run in Lambda. Tests: tests/plots.
"""
