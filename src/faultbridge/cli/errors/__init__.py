"""Errors of the command line.

Reading order: `failures` maps an exception to one line and an exit code; `hints` holds the advice for each reason.
"""
