"""Object stores of clouds behind the port `lakeidx.storage.base.ObjectStore`, through obstore: S3, Google, Azure.

Import `RemoteStore`, or open a store with `lakeidx.storage.open_store`. Clients, retries and conditional puts are decided here and
nowhere else; what is pickled is the URI and the options, never a client.
"""
