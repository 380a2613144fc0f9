"""JSON Schemas of the events: how they are built, validated, released and kept compatible.

Read in this order:

- `build`: the schema of an event from its model, in an open and a closed form. Validates events against the schemas,
  formats included
- `gate`: the folder schemas/ with generated and released files. The changes between two schemas, and which of them
  are allowed. The checks that a change of the schemas must pass before it is merged
- `reference_page`: docs/reference/events.md from the schemas

`validation` and `gate` need jsonschema. No Lambda function imports this package. The command is
`faultbridge.model.events.generate`. Tests: tests/events.
"""
