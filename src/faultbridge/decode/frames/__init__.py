"""Shared parts of the decoders.

`decoder` is the interface of a decoder. `fields` reads untrusted values within limits, and `documents` parses JSON.
`wrappers` unwraps one line that a log collector wrapped in JSON. `log_answers` and `tailed_events` find log lines in
the responses of APIs and of `aws logs tail`. `partial_lines` joins lines that a container runtime split.
`spread_documents` joins JSON documents that are printed over several lines. `wrapped_lines` unwraps and joins the lines
of a body or of a CloudWatch Logs record. `journal` converts the output of journalctl, `prefix` strips log prefixes,
`prometheus` reads metrics, and `clock` reads timestamps. `fault_codes` translates error numbers to fault codes, and
`interfaces` lists the names of virtual interfaces. `instance_type` adds the checks that depend on the instance type:
the number of GPUs (`gpu_count`) and the rates of EFA devices. `named_gpu` finds the GPU that a message names.
`lazy_pattern` compiles regular expressions at first use.
"""
