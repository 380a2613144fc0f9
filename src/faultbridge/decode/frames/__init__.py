"""The chain of frames, from the bytes of a body to log lines, and the shared parts of the decoders.

`chain` is the way through the frames, and `line` is what each of them yields: a text with its time, host and origin.
Each frame is one file, in the order in which a body passes them: `body` (gzip, UTF-16, a packed CloudWatch Logs record,
NUL bytes), `journal` (journalctl with one field per line), `container` (lines that CRI or Docker split), `stores`
(CloudWatch Logs, `aws logs tail`, Loki, OTLP, Splunk, CloudWatch Logs Insights, EC2 and SSM),
`pretty_json` (documents over several lines), `collector` (journald, Docker, Fluent Bit, GCP and Filebeat in JSON),
`prefix` (syslog, RFC 5424, dmesg, /dev/kmsg), and `joined_lines` (several messages in one line).

`decoder` is the interface of a decoder, and builds its results. `values` reads untrusted values within limits,
`documents` parses JSON, `clock` reads timestamps, and `prometheus` reads metrics. `instance_type` adds the checks that
depend on the instance type, and finds the GPU that a message names.
"""
