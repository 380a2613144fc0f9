"""Presentation: the content of each page of the console, as plain data from the API's documents.

This package reads no table and writes no HTML; `faultbridge.serve.console` renders its pages. Read in this order:
`tones` (urgency and symbol of each value), `entry_rows`, `history` (bars on a time axis), `grid`,
`case_answers` (sentences about a case), then one module a page. Tests: tests/presentation.
"""
