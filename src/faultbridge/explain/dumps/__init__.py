"""Finds the ranks that a hanging job waits for, from PyTorch Flight Recorder dumps.

Reading order: `plain_pickle` reads pickled plain data without running any code in it. `dump` converts the dump of one
rank to its operations. `job_dumps` indexes the dumps of a job. `waiting` finds what each rank waits for, as a graph.
`terminal` finds the ends of that graph. `mismatch` compares the calls of one operation. `collectives` returns the ranks
that the job waits for.
"""
