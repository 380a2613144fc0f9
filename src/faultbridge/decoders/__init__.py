"""Decoders: convert the raw text of one source into observations, without clock, network or files.

An observation is a fault, a clear, a health snapshot or a counter sample. `registry` finds a decoder by source name and
imports it on first use. `records` decodes one record, and first removes the wrapping that a log collector added.
`common` has the parts that all decoders share; read it first. The other folders contain the decoders by source family:
`kernel`, `nvidia_smi`, `dcgm`, `kubernetes`, `hyperpod`, `nvsentinel`, `aws`, `network`, `host`, `alerts`, `slurm`,
`training`, and `native` for Faultbridge's own formats. `verification` reads the results of tests that Faultbridge
starts itself.
"""
