"""The decoders of nvidia-smi's outputs.

The decoders are `xml_output`, `csv_output` and `text_output` (with `full_query_text` for `nvidia-smi -q`).
`snapshot` builds the health snapshot from the `checks` of each GPU's fields, and `peers` compares the GPUs.
`nvlink` reads the listings of links, and `failures` reads error messages.
"""
