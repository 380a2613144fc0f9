"""Commands that check, publish, list, show, compare, back-test and tune policies.

Reading order: `policy` (the verbs), `documents` (files and stored versions), `recorded_history` (entries to replay),
`backtest` (`backtest` and `diff`), `tune` (searches for a better policy).
"""
