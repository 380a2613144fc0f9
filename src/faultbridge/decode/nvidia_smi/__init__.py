"""The decoders of the output of nvidia-smi: `xml_output`, `csv_output` and `text_output`.

`snapshot` checks the fields of each GPU, compares the GPUs with each other, and reads error messages.
"""
