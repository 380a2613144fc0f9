"""The pure verbs of the pipeline, one a file: resolve, compare, classify, fold, decide, admit."""
