"""Commands about policies: check, publish, list and show them, compare two, and test one on recorded history.

Reading order: `policy` (the verbs), `documents` (files and stored versions), `recorded_history` (entries to replay),
`backtest` (`backtest` and `diff`), `tune` (searches for a better policy).
"""
