"""Tests of lakeidx.bucket_assignment; a package, because a property test has a module of the same name."""
