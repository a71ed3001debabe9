"""Deleting what nothing needs: expiry, tags, rollback, changelogs, orphans.

Import the verbs (`expire_…`, `roll_back`, `create_tag`); `plan_…` functions are pure.
Removing staging of batches lives in `lakeidx.maintenance.staging_cleanup`.
"""
