"""Case file: the record of one repair as a file that proves itself, with the form of a hardware return.

`collect` reads the entries, the anchor, policies and history, `form` fills the fields of the form, and `verify_case` is
the program for the reader of the file: standard library only, without code of this package.
"""
