"""The decoder of the logs of training jobs: `training_log`."""
