"""Explains why a job died and decides whether it may restart. No clock, network or files.

`dumps` names the ranks that the others wait for, `signals` reads logs and dumps into signals, and `verdict` scores the
mechanisms that the packaged data and a customer define.
"""
