"""The single table on DynamoDB.

Read in this order:

- `table`: `DynamoTable`, the Table port
- `expressions`: conditions, updates and key ranges as DynamoDB expressions
- `values`: conversion between Python values and DynamoDB's typed JSON
- `throttling`: errors and retries of throttled reads and writes
"""
