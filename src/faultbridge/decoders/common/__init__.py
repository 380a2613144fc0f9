"""Shared parts of all decoders.

`decoder` is the interface of a decoder. `fields` reads untrusted values within limits, and `documents` parses JSON.
`wrappers` unwraps one line that a collector wrapped in JSON, `spread_documents` joins documents that were spread over
such lines, and `wrapped_lines` applies both to a body or a CloudWatch Logs record. `journal` converts what journalctl
prints, `prefix` strips log prefixes, `prometheus` reads metrics, and `clock` reads timestamps. `fault_codes` names
codes by number, and `interfaces` knows the names of virtual interfaces. `gpu_count` compares GPUs with the instance
type, and `named_gpu` finds the GPU that a message names.
"""
