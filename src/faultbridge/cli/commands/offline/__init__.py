"""Commands that work without a stack; only `explain` can also read and record data of one."""
