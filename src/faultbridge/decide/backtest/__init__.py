"""Back-test: what another policy, the tested policy, would have decided about the recorded history.

The decision stages run with the recorded facts under the tested policy. As long as decisions agree, the recorded times
and outcomes apply. From the first decision that differs, the case is simulated with recorded or assumed outcomes. The
report counts the data that was not recorded. Reading order: `record` (commits, and nodes and cases rebuilt from
entries), `in_step` (compares decisions, then simulates), `replay` (runs the entries), `report` (totals, differences,
gaps). Tests: tests/backtest.
"""
