"""Errors of the command line.

Reading order: `failures` converts an exception to one line and an exit code; `hints` contains the advice for each
reason.
"""
