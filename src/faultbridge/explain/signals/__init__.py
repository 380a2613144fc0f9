"""Converts the files and the record of a job to signals: facts with a file and, if known, time and line.

Reading order: `signal` (the values and the patterns), `job_log` and `node_log` (one file each), `read_files` (all
files, and what Faultbridge recorded about a job).
"""
