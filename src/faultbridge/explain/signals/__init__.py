"""Reads the files of a job into signals, each with its time, node, rank, file, line and trust.

Reading order: `signal` defines the values, `file_kind` recognizes a file, `patterns` and `line_facts` read one line,
`evidence_store` bounds the memory, `job_log` and `node_log` read one file, `read_files` reads all of them.
"""
