"""Mutation tests: break the product in one place at a time and count which mutants the tests detect.

Reading order: `catalog` (generates the mutants), `swap` (puts a mutant into the running program), `checks` (simulated
runs that may detect one), `runner` (runs all mutants), `report` (the list of survivors in docs/mutants.md), `__main__`.
"""
