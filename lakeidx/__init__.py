"""lakeidx: primary-key tables on an object store in the Apache Paimon format."""

__version__ = "0.1.0"
