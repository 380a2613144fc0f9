"""The composition root: the only place that knows which service is built from which parts.

Reading order:

- `installation`: the frozen `Installation(ports, settings)`, and how one is built on AWS or from the environment.
- `recording`: the rooms that record facts (ledger, rules, registry, ingest, gateway).
- `job_tracking`: the room that records jobs.
- `repairing`: the rooms that act (repair, ops).
- `reporting`: the rooms that inform people and keep the record (pager, archive, api).

Each room has one factory class with one lazy property a service. A service is imported and built at first use, so
that a Lambda function loads only what it runs. Tests and the simulation use the same root with fake ports.
"""
