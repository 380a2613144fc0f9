"""A customer's EventBridge rule files: test them, and deploy them with CloudFormation.

Reading order: `rule_file` reads a file and runs its test events, `pattern_check` compares a pattern with the event
schemas, `cloudformation` writes the template of a folder of rules.
"""
