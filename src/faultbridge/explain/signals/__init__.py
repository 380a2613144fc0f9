"""Converts the files and the record of a job to signals, each with its time, node, rank, file, line and trust.

Reading order: `signal` defines the values, `file_kind` recognizes a file, `patterns` and `line_facts` read one line,
`text_search` finds lines, `handled` finds errors that ended no process, `kernel_claims` marks lines that only claim to
be the kernel's, `evidence_store` bounds the memory, `job_log` and `node_log` read one file, and `read_files` reads all
files. `recorded` and `recorded_end` read Faultbridge's record.
"""
