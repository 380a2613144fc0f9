"""Explains why a job died, and decides whether it may restart.

`dumps` finds the ranks that other ranks wait for, in dumps of the PyTorch Flight Recorder. `signals` converts logs and
dumps to signals. `verdict` compares the signals with failure mechanisms, which are known ways in which jobs die. The
package and customers define these mechanisms as data. Callers pass the content of the files and the times.
"""
