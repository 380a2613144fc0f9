"""Decoders: convert the raw text of one source into observations, without clock or network.

An observation is a fault, a clear, a health snapshot or a counter sample. `registry` finds a decoder by source name and
imports it on first use. `records` decodes one record. `frames` has the chain that unwraps what runtimes, collectors and
log stores put around lines, and the parts that decoders share; read it first. `line_source` reads each log that a file
of `data/log_sources` describes; `data/sources.json` lists all other sources. The other modules and folders
contain the decoders by source family: `kernel`, `nvidia_smi`, `dcgm`, `kubernetes`, `nvsentinel`, `aws`, `hyperpod`,
`slurm`, `network`, `host`, `alerts`, `training`, and `native` for Faultbridge's own formats. `verification` reads the
results of tests that Faultbridge starts itself.
"""
