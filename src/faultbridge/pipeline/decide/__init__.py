"""Decide: derives node status, case transitions, timers and admissions from state, policy and time.

Rules for one node, in reading order:

- `decide`: the entry point after every change of a node's conditions.
- `opt_out`: until when no case opens for a node that is ignored, under maintenance, or absent during an update.
- `open_case`: creates a case.
- `escalation`: raises the repair action of a waiting case if a fault joins it that needs a stronger action.
- `governing_rules`: the rules whose approvals and windows apply to a repair action.
- `repair_actions`: chooses the repair action of the next attempt.
- `relapse`: the repair action for a fault that comes back after its repair.
- `case_moves`: changes the status of a case and computes the node's next timer.
- `approval_timeout`: escalates a case whose approval request was not answered in time.
- `shadow`: records as a note what a second policy would have decided.
- `required_order`: the operator command without which a node or its case cannot continue.
- `no_repair`: why a node with faults has no case, as a text for operators.
- `phase_durations`: the durations that the closing entry reports.
- `orchestrator_unreachable`: whether a repair may proceed without the orchestrator.

Rules for a cluster:

- `maintenance_windows`: whether a maintenance window is open.
- `admit`: which queued cases may start.
- `breaker`: when too many failing nodes stop new repairs.
- `cluster_status`: the cluster's status from the statuses of its nodes.
- `provider_conditions`: the provider's open conditions, the desired number of nodes, and pauses for updates.
- `instance_pairing`: which unassigned instance belongs to which node.

The packages `repair` and `registry` apply most of these rules to the table. Tests: tests/pipeline.
"""
