"""Domain: the terms of Faultbridge as frozen values and pure rules, standard library only.

Reading order:

- `faults`: the four kinds of observations, and the severity, action and component of a fault.
- `catalog`: the meaning of each fault code: severity, action, and what ends the fault.
- `conditions`: faults that are active on a node, and the sources that report them.
- `edges`: node and case statuses, and the table of legal transitions between them.
- `cases`: one fault of one node from detection to closure, with its repair attempts.
- `nodes`: repaired faults whose relapse needs a stronger repair. Whether a repair follows a failed attempt. A node's
  complete state, its names, placement and current instance.
- `cluster`: everything that concerns many nodes: registration, status, slots, breakers, incidents, jobs, spares.
- `policy`: customer rules for conditions, limits and maintenance windows.
- `entries`: timeline entries, and what one decision changes.
- `causation`: which entry or record caused each entry.
- `offenders`: whether a card, such as a GPU, or its slot is the cause of repeated faults.
- `records`, `instances`: raw records with their outcomes, and the instances that back nodes.
- `findings`: signs of gray failures, and the precision of their detectors.
- `names`, `times`, `safe_text`: validation of names, timestamps as text, and display of text from records.
- `copies`: creates and copies frozen values quickly.

Nothing here reads a clock, a file or a network. Tests: tests/domain.
"""
