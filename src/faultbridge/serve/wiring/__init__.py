"""The composition root: defines which service is built from which ports, settings and other services.

Reading order:

- `function`: the installation of a Lambda function, built once per process from environment variables.
- `installation`: the class `Installation`, which builds all services from ports and settings.
- `recording`: factories of the packages that record facts (ledger, rules, registry, ingest, gateway).
- `job_tracking`: the factory of the package that records jobs.
- `repairing`: factories of the packages that act on nodes (repair, incidents).
- `operating`: the factory of the operations that run after new entries and each minute (ops).
- `reporting`: factories of the packages that inform operators and keep the record (pager, archive, api, console).

Each package has one factory class. A property of the factory imports and builds a service at first use, so that a
Lambda function loads only what it runs. Tests and the simulation build the same `Installation` from fake ports.
"""
