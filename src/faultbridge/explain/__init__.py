"""Explains why a job died, and decides whether it may restart. It uses no clock, network or files.

`dumps` finds the ranks that other ranks wait for, in dumps of the PyTorch Flight Recorder. `signals` converts logs and
dumps to signals. `verdict` scores the mechanisms, which are possible causes that packaged data and customers define.
"""
