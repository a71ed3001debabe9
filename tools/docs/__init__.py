"""Make the parts of the documentation that follow from the code.

Pictures and byte dumps are committed, because README and the pages show them where no site is built; ``python -m
tools.docs`` writes them anew and ``--check`` compares (tests/docs does so). Reference pages are made by `tools.docs.site`
whenever the site is built and are never committed. Nothing here is part of the product, and the product imports nothing of it.
"""
