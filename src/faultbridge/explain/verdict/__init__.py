"""Decides what ended a job, and what to do: restart it, restart it without some nodes, or stop.

Reading order: `mechanisms` defines failure mechanisms, the known ways in which jobs die. `time_line` orders the signals
of a job. `situation` combines the time line and the mechanisms. `hypotheses` scores each mechanism, with `doubts` and
`node_evidence`. `verdict` decides. `devices` finds the GPUs and ranks. `document` converts the result to JSON.
`golden_cases` tests the data.
"""
