"""The rules: the policies of an installation, and the rules for decisions about a cluster.

A policy is an immutable document, stored under the hash of its content. A decision about a cluster uses the cluster's
registration, its policy, the fault catalog, and the number of GPUs of each instance type. Read in this order:

- `policies`: stores policy documents and selects the current one.
- `rulebook`: reads registrations and policies, and returns the rules of a cluster.

How a policy decides is in `pipeline.decide`. The file format of policies is in `policyfile`.

Tests: tests/rules.
"""
