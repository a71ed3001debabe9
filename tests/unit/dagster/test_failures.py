"""Each kind of error maps to retry, no retry or alert, and steps and runs say so."""

from __future__ import annotations

import errno
import pickle

import dagster as dg
import pytest

from lakeidx import errors
from lakeidx.dagster.failures import ERROR_KIND, REACTIONS, WHAT_TO_DO, error_kind, failures_explained
from lakeidx.dagster.sensors.failed_runs import diagnose
from lakeidx.storage.files import translate

KINDS = {
    cls.kind: cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, errors.LakeIdxError) and cls is not errors.LakeIdxError
}


def test_every_kind_of_lakeidx_error_has_a_reaction_that_agrees_with_it() -> None:
    assert set(KINDS) <= set(REACTIONS)
    for kind, cls in KINDS.items():
        assert REACTIONS[kind].retry == cls.retryable, kind


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_step_fails_with_kind_advice_and_whether_a_retry_makes_sense(kind: str) -> None:
    with pytest.raises(dg.Failure) as caught, failures_explained():
        raise KINDS[kind]("what happened", path="/lake/f", offset=7, snapshot_id=3)
    failure = caught.value
    assert failure.allow_retries == REACTIONS[kind].retry
    said = {key: value.value for key, value in failure.metadata.items()}
    assert said[ERROR_KIND] == kind
    assert said[WHAT_TO_DO] == REACTIONS[kind].advice
    assert (said["lakeidx/file"], said["lakeidx/offset"], said["lakeidx/snapshot_id"]) == ("/lake/f", 7, 3)


def test_a_full_disk_is_distinguished_from_a_store_that_does_not_answer() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    translated = translate(full, "/lake/f")
    translated.__cause__ = full
    assert error_kind(translated) == "disk_full"
    # As it comes out of a Spark task, which pickles it; and as Spark words it when its own files do not fit.
    assert error_kind(pickle.loads(pickle.dumps(translated))) == "disk_full"
    assert error_kind(RuntimeError("Job aborted: java.io.IOException: No space left on device")) == "disk_full"
    assert error_kind(pickle.loads(pickle.dumps(errors.UnavailableError("503")))) == "unavailable"
    assert error_kind(errors.UnavailableError("503")) == "unavailable"
    assert error_kind(MemoryError()) == "out_of_memory"
    assert error_kind(RuntimeError("py4j: java.lang.OutOfMemoryError: Java heap space")) == "out_of_memory"
    assert error_kind(ValueError("?")) == "unknown"


def test_what_dagster_raises_itself_is_left_alone() -> None:
    for error in (dg.RetryRequested(), dg.Failure("already said")):
        with pytest.raises(type(error)) as caught, failures_explained():
            raise error
        assert caught.value is error


def test_a_run_is_diagnosed_by_its_worst_step() -> None:
    assert diagnose({}) == "killed"
    assert diagnose({}, started=False) == "not_started"
    assert diagnose({"a": None}) == "unknown"
    assert diagnose({"a": "unavailable", "b": "corrupt_file"}) == "corrupt_file"
    assert diagnose({"a": "commit_conflict", "b": "disk_full"}) == "disk_full"
