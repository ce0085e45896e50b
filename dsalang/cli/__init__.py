"""The `dsa` command."""
