"""Tests of lakeidx.index; a package, because a property test has a module of the same name."""
