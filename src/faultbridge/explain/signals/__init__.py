"""Converts the files and the record of a job to signals.

A signal is a fact with a file and, if known, a time, node, rank and line.

Reading order: `signal` defines the values, and `file_kind` recognizes a file. `patterns` and `line_facts` read one
line. `text_search` finds lines. `handled` finds errors that ended no process. `kernel_claims` marks lines that only
look like lines of the kernel. `evidence_store` limits the memory. `job_log` and `node_log` read one file, and
`read_files` reads all files. `recorded` and `recorded_end` read what Faultbridge recorded about a job.
"""
