"""``lakeidx partition``: partitions listed, dropped, expired, marked done.

Its commands are in `lakeidx.cli.partition.commands`; nothing else imports them.
"""
