"""The only modules that talk to AWS; each implements one port."""
