"""Decides what ended a job, and what to do: restart it, restart it without some nodes, or stop.

Reading order: `mechanisms` (the known ways in which jobs die), `situation` (the signals in order of time), `doubts`
(scores and doubts), `verdict` (the decision), `document` (its JSON, and golden cases).
"""
