"""Cases: the content of the page of a case: answers to questions, phases, attempts and entries.

Read in this order:

- `case_facts`: the documents from which the page of a case is built
- `waits`, `attempts`: why the case waited, and what each attempt did
- `phases`: how the time of the case was spent
- `advice`: why the case was not repaired, what happens next and what to do, as sentences
- `case_values`: the values that these sentences insert
- `case_answers`: the questions about a case with their answers
- `case_page`: the page

Tests: tests/presentation.
"""
