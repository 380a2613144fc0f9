"""The decoder of training job logs, with the compiled patterns of its mapping: `training_log`."""
