"""Incidents: one shared cause behind the faults of many nodes holds their repairs, and sends one page.

In reading order:

- `correlate`: the entry point; opens, changes and closes the incidents of a cluster, and lets cases wait for them.
- `affected_nodes`: reads the affected nodes and the sizes of failure domains from the table.
- `onsets`: counts faults, as the history of the rate rule.
- `intake`: whether records arrive at all.
- `changes`: commits changes of incidents with the holds on repairs and the entries that record them.
- `entries`: the entries of an incident.
- `held`: absorbs the cases of affected nodes, and releases them again.
- `orders`: lets operators close an incident.

The pure rules are in `faultbridge.pipeline.correlate`. Tests: tests/scenarios/incidents.
"""
