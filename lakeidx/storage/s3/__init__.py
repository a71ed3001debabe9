"""Events of S3: what a message says of created objects, and the queue that messages are received from.

Import `EventQueue` and `created_objects` from their modules. Objects are read by `lakeidx.storage.remote`.
"""
