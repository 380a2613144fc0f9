"""EventBridge rule files of a customer: test them, and deploy them with CloudFormation.

Reading order: `rule_file` reads a file and runs its golden cases, `pattern_check` compares a pattern with the event
schemas, `cloudformation` writes the template of a folder of rules.
"""
