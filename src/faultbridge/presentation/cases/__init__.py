"""Cases: what the page of a case shows: its answers, its phases and its course.

Read in this order:

- `case_facts`: the documents from which a case is explained
- `waits`, `attempts`: why it waited, and what each attempt did
- `phases`: what its time was spent on
- `case_values`, `advice`: why it was not repaired, what happens next and what to do, as sentences and their values
- `case_answers`: the questions of a case with their answers
- `case_page`: the page

Tests: tests/presentation.
"""
