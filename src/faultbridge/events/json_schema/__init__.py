"""JSON Schemas of the events: how they are built, validated, released and kept compatible.

Read in this order:

- `build`: the schema of an event from its model, in an open and a closed form
- `validation`: validates events against the schemas, formats included
- `folder`: the folder schemas/ with generated and released files
- `compatibility`: the changes between two schemas, and which of them are allowed
- `gate`: the checks that a change of the schemas must pass before it is merged
- `reference_page`: docs/reference/events.md from the schemas

`validation` and `gate` need jsonschema. No Lambda function imports this package. The command is
`faultbridge.events.generate`. Tests: tests/events.
"""
