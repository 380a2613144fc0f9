"""The commands, one folder for each subject; `faultbridge.cli.app` lists them, `options` has their shared options."""
