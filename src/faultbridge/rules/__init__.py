"""Rules: stores policies, and reads the rules for decisions about a cluster.

A policy is an immutable document, stored under its version (a part of the hash of the document). The rules of a cluster
(`Rules`) contain its registration, its policy, the shadow policy, the version of the fault catalog, and the number of
GPUs of each instance type. Read in this order:

- `policies`: stores policy documents and selects the current policy.
- `rulebook`: reads registrations and policies, and returns the rules of a cluster.

`pipeline.decide` applies the rules. `policyfile` defines the file format of policies.

Tests: tests/rules.
"""
