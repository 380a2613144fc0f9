"""The single DynamoDB table in which Faultbridge stores all its items.

Read in this order:

- `table`: `DynamoTable`, which implements `Table`
- `expressions`: conditions, updates and key ranges as DynamoDB expressions
- `values`: conversion between Python values and DynamoDB's typed JSON
- `throttling`: errors of canceled transactions, and the retry setting after throttling
"""
