"""Explains why a job died, and decides whether it may restart, from the content of files and times.

`dumps` finds the ranks that others wait for in PyTorch Flight Recorder dumps, `signals` converts logs and dumps to
signals, `verdict` compares these with failure mechanisms, which are data.
"""
