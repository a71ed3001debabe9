"""Commands about the history of a table: ``lakeidx branch``.

The commands are found by `lakeidx.cli.main`; nothing is imported from here. What they do is in `lakeidx.api.history`, tags and
rollback are in `lakeidx.cli.maintain_commands`.
"""
