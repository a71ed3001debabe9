"""Statements from the command line, from a pipe and from a prompt: ``lakeidx sql``.

`command` is the command, `prompt` what asks for statements on a terminal. What a statement means, and who does it, is in
`lakeidx.api.sql`; how rows are printed, in `lakeidx.cli.output`.
"""
