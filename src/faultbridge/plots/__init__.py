"""Plots: results of the policy lab as SVG; standard library only.

- `charts`: stacked bars and points with confidence intervals, as SVG text.
- `results`: the charts of a comparison of systems and of a back-test.

Nothing here runs in Lambda. Tests: tests/plots.
"""
