"""Back-test: what another policy would have decided about recorded history.

Each recorded decision about a case is compared with what the pure stages decide under the other policy at the same
point. Where both agree, the recorded times and answers apply. From the first decision that differs, the case follows
the other policy with recorded or typical outcomes. What the record does not hold is counted and named.

Reading order:

- `record`: commits and the course of each recorded case.
- `facts`: conditions, placements and operator orders of nodes, rebuilt from entries.
- `explanations`: whether a decision differs because another policy was in force.
- `recorded_case`: the case of a node, rebuilt from its entries.
- `course`: decisions, and the course of a case under the other policy.
- `cluster`: slots and breakers under the other policy.
- `in_step`: compares decisions as long as they agree with the record.
- `counterfactual`: continues a case after a decision that differs.
- `replay`: runs a record through these modules.
- `judgment`: whether later entries confirm that a case needed its repair.
- `report`: totals, differences, and what the record does not hold, as a JSON document.

Tests: tests/backtest.
"""
