"""Presentation: the content of each page of the console, as plain data from the API's documents.

This package reads no table and writes no HTML. Read in this order:

- `tones`: the urgency (tone) and the symbol of each status, severity and outcome. Names in recorded data as words for
  readers
- `entry_rows`: one timeline entry as a row, with its JSON and its position in the hash chain
- `history`: bars on a common time axis (swim lanes, Gantt), and the ticks of the axis. Bars from the entries of a
  node or a case
- `areas`: the nodes of a cluster by status over time, and the affected nodes of an incident over time
- `grid`: the nodes of a cluster by group and failure domain, and the share of GPUs in service
- `breakers`: what closes an open circuit breaker, and when
- `case_page`: the page of a case, with its questions and answers, phases, attempts and waits
- `job_rows`: jobs in a list and as lanes
- `job_page`, `node_page`: the questions and answers about a job, and about a node
- `node_page`, `cluster_page`, `fleet_page`, `incident_page`, `job_page`: one page each
- `downloads`: the entries of a page as CSV

`faultbridge.serve.console` renders these pages. Tests: tests/presentation.
"""
