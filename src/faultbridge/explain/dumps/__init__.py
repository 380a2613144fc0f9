"""Names the ranks that a hanging job waits for, from PyTorch Flight Recorder dumps.

Reading order: `plain_pickle` reads pickled plain data without running any of it, `dump` turns the dump of one rank into
its operations, `job_dumps` indexes the dumps of a job, `waiting` states what each rank waits for, `terminal` finds the
ends of that graph, `mismatch` compares the calls of one operation, `collectives` names the ranks.
"""
