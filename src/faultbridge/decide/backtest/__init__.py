"""Back-test: what another policy, the tested policy, would have decided about the recorded history.

Faultbridge's decision stages are pure code without I/O. The back-test runs them with the recorded facts under the
tested policy, and compares their decisions about cases with the recorded decisions. As long as the two agree, the
recorded times and outcomes apply. From the first decision that differs, the case is simulated under the tested policy,
with recorded or assumed outcomes. The report names and counts the data that was not recorded.

Reading order:

- `record`: commits (entries that were written together), and the course of each recorded case. Conditions, placements
  and operator orders of nodes, rebuilt from entries. The case of a node, rebuilt from its entries. Compared
  decisions, and the course of a case under the tested policy.
- `report`: whether a decision differs because another policy was in force. Whether later entries confirm that a case
  needed its repair. Totals, differences and missing data, as a JSON document.
- `in_step`: repair slots and breakers under the tested policy. Compares the decisions under the tested policy with
  the recorded decisions, until two decisions differ. Continues a case after a decision that differs.
- `replay`: runs the recorded entries through these modules.

Tests: tests/backtest.
"""
