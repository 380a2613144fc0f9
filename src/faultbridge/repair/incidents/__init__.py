"""Incidents: when many nodes fail for one shared cause, their repairs wait and one page is sent.

Read in this order:

- `correlate`: the entry point. It opens, changes and closes incidents, and makes the affected cases wait for them.
  Reads the affected nodes and the sizes of failure domains from the table. Counts the starts of faults. The incident
  rule for unusual fault rates uses this history. States whether any records arrive from the nodes.
- `changes`: commits changes of incidents, with the holds that delay repairs and the entries that record the changes.
  Drafts the entries of an incident. Lets operators close an incident.
- `held`: makes the cases of affected nodes wait for their incident, and releases them afterwards.

The rules without I/O are in `faultbridge.decide.correlate`. Tests: tests/scenarios/incidents.
"""
