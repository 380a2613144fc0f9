"""Shared parts of all decoders.

`decoder` is the interface of a decoder. `fields` reads untrusted values within limits. `documents` parses JSON,
`wrappers` unpacks CloudWatch Logs records and lines that collectors wrapped in JSON, `journal` converts what
journalctl prints, `prefix` strips log prefixes, `prometheus` reads metrics, and `clock` reads timestamps.
`fault_codes` names codes by number. `gpu_count` compares GPUs with the instance type.
"""
