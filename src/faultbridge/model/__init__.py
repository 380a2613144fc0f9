"""Domain: the terms of Faultbridge as frozen values and pure rules, standard library only.

Reading order:

- `fault_enums`, `enums`: the enumerations that the domain and the events share.
- `faults`: the four kinds of observations, and the component of a fault.
- `catalog`: the meaning of each fault code: severity, action, and what ends the fault.
- `conditions`: faults that are active on a node, and the sources that report them.
- `edges`: the tables of legal transitions between the statuses of nodes and cases.
- `cases`: one fault of one node from detection to closure, with its repair attempts.
- `nodes`: repaired faults whose relapse needs a stronger repair. Whether a repair follows a failed attempt. A node's
  complete state, its names, placement and current instance.
- `cluster`: everything that concerns many nodes: registration, status, slots, breakers, incidents, jobs, spares.
- `policy`: customer rules for conditions, limits and maintenance windows.
- `entries`: timeline entries, and what one decision changes.
- `causation`: which entry or record caused each entry.
- `offenders`: whether a card, such as a GPU, or its slot is the cause of repeated faults.
- `records`: raw records with their outcomes.
- `findings`: signs of gray failures, and the precision of their detectors.
- `names`, `times`, `safe_text`: validation of names, timestamps as text, and display of text from records.

Nothing here reads a clock, a file or a network. Tests: tests/domain.
"""
