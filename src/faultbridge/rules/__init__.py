"""Rules: stores policies, and reads everything on which decisions about a cluster depend.

A policy is an immutable document, stored under the hash of its content. The rules of a cluster (`Rules`) are its
registration, its policy, the version of the fault catalog, and the number of GPUs of each instance type. Read in this
order:

- `policies`: stores policy documents and selects the current policy.
- `rulebook`: reads registrations and policies, and returns the rules of a cluster.

`pipeline.decide` applies the rules. `policyfile` defines the file format of policies.

Tests: tests/rules.
"""
