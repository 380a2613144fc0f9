"""Decides what ended a job: restart it, restart it without some nodes, or stop.

Reading order: `mechanisms` reads the data, `time_line` orders the signals, `hypotheses` scores each mechanism,
`verdict` decides, `devices` names GPUs and ranks, `document` is the result as JSON, `golden_cases` tests the data.
"""
