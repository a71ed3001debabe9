"""Tables in assets written by hand: an IO manager, resources, and the metadata of both.

`lakeidx.dagster` offers `LakeIdxIOManager`, `LakeIdxTable` and `LakeIdxCatalog`; what they do is a call of `lakeidx.Table` each.
Assets made from pipeline files do not belong here: they are in `lakeidx.dagster.assets`.
"""
