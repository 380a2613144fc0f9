"""Mutation tests: break the product in one place at a time and count which mutants the tests detect.

Reading order: `catalog` (selects the mutants), `planted` (bugs planted by hand), `generated` (mutants of any code),
`swap` (puts a mutant into the running program), `checks` (simulated runs that may detect one), `runner` (runs all
mutants), `report` (the lists of survivors in docs/mutants.md), `__main__` and `sample` (the two commands).
"""
