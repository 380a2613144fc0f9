"""Decides what ended a job, and what to do: restart it, restart it without some nodes, or stop.

Reading order: `mechanisms` reads the possible causes. `time_line` orders the signals. `situation` joins both.
`hypotheses` scores each mechanism, with `doubts` and `node_evidence`. `verdict` decides. `devices` finds the GPUs and
ranks. `document` is the result as JSON. `golden_cases` tests the data.
"""
