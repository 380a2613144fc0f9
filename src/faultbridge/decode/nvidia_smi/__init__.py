"""The decoders of the output of nvidia-smi.

The decoders are `xml_output`, `csv_output` and `text_output` (with `full_query_text` for `nvidia-smi -q`). `snapshot`
builds the health snapshot from the results of `checks`, which checks the fields of each GPU. `peers` compares the GPUs
with each other. `nvlink` reads lists of links, and `failures` reads error messages.
"""
