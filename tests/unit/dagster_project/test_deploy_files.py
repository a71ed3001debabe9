"""What is in deploy/ is well formed, holds no secret, and says the same everywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

DEPLOY = Path(__file__).parents[3] / "deploy"
FILES = sorted(DEPLOY.glob("*.yaml")) + sorted(DEPLOY.glob("kubernetes/*.yaml")) + sorted(DEPLOY.glob("helm/*.yaml"))


def documents(file: Path) -> list[Any]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_files_are_yaml_and_hold_no_secret(file: Path) -> None:
    assert all(d is not None for d in documents(file))
    for line in file.read_text(encoding="utf-8").splitlines():
        if "${" in line:
            continue
        match = re.search(r"(?i)(password|secret_access_key)[\"']?\s*[:=]\s*(?P<value>[^\s{$<].*)", line)
        assert match is None or match["value"].startswith(("...", "false")), line


def test_compose_services_have_what_a_deployment_needs() -> None:
    compose = documents(DEPLOY / "compose.yaml")[0]
    services = compose["services"]
    assert {"webserver", "daemon", "code", "postgres", "s3", "spark-master", "spark-worker"} == set(services)
    for name, service in services.items():
        for needed in service.get("depends_on", ()):
            assert "healthcheck" in services[needed], f"{name} waits for {needed}"
        assert service["restart"] == "unless-stopped"
    assert services["spark-worker"]["deploy"]["replicas"] == 2


def test_variables_of_the_instance_are_set_in_compose() -> None:
    instance = documents(DEPLOY / "dagster.yaml")[0]
    wanted = {v["env"] for v in instance["storage"]["postgres"]["postgres_db"].values() if isinstance(v, dict)}
    compose = documents(DEPLOY / "compose.yaml")[0]
    assert wanted <= set(compose["services"]["code"]["environment"])
    assert instance["concurrency"]["pools"] == {"default_limit": 1, "granularity": "op"}


def test_kubernetes_objects_fit_together() -> None:
    objects = [d for f in DEPLOY.glob("kubernetes/*.yaml") for d in documents(f)]
    names = {(o["kind"], o["metadata"]["name"]) for o in objects}
    for o in objects:
        assert {"apiVersion", "kind", "metadata"} <= set(o)
        assert o["kind"] == "Namespace" or o["metadata"]["namespace"] == "lakeidx"
        if o["kind"] == "Deployment":
            assert o["spec"]["selector"]["matchLabels"].items() <= o["spec"]["template"]["metadata"]["labels"].items()
            for container in o["spec"]["template"]["spec"]["containers"]:
                assert {"readinessProbe", "livenessProbe", "resources"} <= set(container)
                maps = [e["configMapRef"]["name"] for e in container["envFrom"] if "configMapRef" in e]
                assert all(("ConfigMap", m) in names for m in maps)


def follows_compose_spec(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_compose_file_follows_the_compose_specification(tmp_path: Path) -> None:
    done = follows_compose_spec(DEPLOY / "compose.yaml")
    assert done.returncode == 0, done.stdout
    wrong = documents(DEPLOY / "compose.yaml")[0]
    wrong["services"]["code"]["depends_on"]["s3"]["condition"] = "service_well"
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(wrong))
    assert follows_compose_spec(tmp_path / "compose.yaml").returncode == 1


KUBERNETES = [(f.name, d) for f in sorted(DEPLOY.glob("kubernetes/*.yaml")) for d in documents(f)]


@pytest.mark.parametrize("thing", [d for _, d in KUBERNETES], ids=[f"{f}-{d['kind']}" for f, d in KUBERNETES])
def test_kubernetes_objects_follow_the_published_schemas(thing: dict[str, Any]) -> None:
    kubernetes_validate.validate(thing, "1.30", strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**thing, "metadata": {"name": 5, "namespaze": "x"}}, "1.30", strict=True)


def helm_values() -> dict[str, Any]:
    found: dict[str, Any] = documents(DEPLOY / "helm" / "values.yaml")[0]
    return found


def test_what_helm_values_hand_to_pods_follows_the_published_schemas() -> None:
    """Probes, resources and references to secrets and settings go into pods as they stand here."""
    values = helm_values()
    code = values["dagster-user-deployments"]["deployments"][0]
    run = values["runLauncher"]["config"]["k8sRunLauncher"]
    containers = []
    for name, part in (
        ("web", values["dagsterWebserver"]),
        ("daemon", values["dagsterDaemon"]),
        ("code", code),
        ("run", run),
    ):
        container: dict[str, Any] = {"name": name, "image": "x", "resources": part["resources"]}
        for probe in ("readinessProbe", "livenessProbe"):
            if probe in part:
                # `enabled` is the chart's own switch.
                container[probe] = {k: v for k, v in part[probe].items() if k != "enabled"}
        container["envFrom"] = [{"configMapRef": r} for r in part.get("envConfigMaps", ())]
        container["envFrom"] += [{"secretRef": r} for r in part.get("envSecrets", ())]
        containers.append(container)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}}
    kubernetes_validate.validate(pod, "1.30", strict=True)
    named = {d["metadata"]["name"] for _, d in KUBERNETES if d["kind"] == "ConfigMap"}
    assert {r["name"] for part in (code, run) for r in part["envConfigMaps"]} <= named
    assert values["global"]["serviceAccountName"] in {d["metadata"]["name"] for _, d in KUBERNETES}


def test_the_chart_and_the_instance_file_say_the_same() -> None:
    values, instance = helm_values(), documents(DEPLOY / "dagster.yaml")[0]
    daemon = values["dagsterDaemon"]
    assert values["additionalInstanceConfig"]["concurrency"]["pools"] == instance["concurrency"]["pools"]
    most = daemon["runCoordinator"]["config"]["queuedRunCoordinator"]["maxConcurrentRuns"]
    assert most == instance["concurrency"]["runs"]["max_concurrent_runs"]
    assert daemon["runRetries"]["maxRetries"] == instance["run_retries"]["max_retries"]
    assert daemon["runMonitoring"]["startTimeoutSeconds"] == instance["run_monitoring"]["start_timeout_seconds"]
    given_back = instance["run_monitoring"]["free_slots_after_run_end_seconds"]
    assert daemon["runMonitoring"]["freeSlotsAfterRunEndSeconds"] == given_back
    assert values["postgresql"]["postgresqlDatabase"]


def test_the_container_file_passes_the_linter() -> None:
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert linter is not None, "hadolint is one of the development requirements"
    done = subprocess.run(
        [linter, str(DEPLOY / "Containerfile")], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture
def entrypoint(tmp_path: Path) -> Callable[..., list[str]]:
    """Runs the image's entry point where tini and java only print what they were given."""
    for name in ("tini", "java"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (tmp_path / name).chmod(0o755)

    def call(*arguments: str, **variables: str) -> list[str]:
        path = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"
        command = ["sh", str(DEPLOY / "entrypoint.sh"), *arguments]
        done = subprocess.run(
            command, env={"PATH": path, **variables}, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return call


def test_the_entry_point_runs_commands_as_they_are(entrypoint: Callable[..., list[str]]) -> None:
    assert entrypoint("dagster-webserver", "-p", "3000", "a b") == ["--", "dagster-webserver", "-p", "3000", "a b"]


def test_the_entry_point_starts_executors_for_spark_on_kubernetes(entrypoint: Callable[..., list[str]]) -> None:
    found = entrypoint(
        "executor",
        SPARK_HOME="/spark",
        SPARK_DRIVER_URL="spark://driver",
        SPARK_EXECUTOR_ID="3",
        SPARK_EXECUTOR_CORES="2",
        SPARK_EXECUTOR_MEMORY="4g",
        SPARK_APPLICATION_ID="app",
        SPARK_EXECUTOR_POD_IP="10.0.0.3",
        SPARK_EXECUTOR_POD_NAME="pod",
        SPARK_RESOURCE_PROFILE_ID="0",
        SPARK_JAVA_OPT_0="-Da=b c",
        SPARK_JAVA_OPT_1="-XX:+UseG1GC",
    )
    assert found[:6] == ["--", "java", "-Da=b c", "-XX:+UseG1GC", "-Xms4g", "-Xmx4g"]
    assert found[6:8] == ["-cp", "/spark/jars/*"]
    assert found[8] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    given = dict(zip(found[9::2], found[10::2], strict=True))
    assert given == {
        "--driver-url": "spark://driver",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "app",
        "--hostname": "10.0.0.3",
        "--podName": "pod",
        "--resourceProfileId": "0",
    }


@pytest.mark.dagster
def test_definitions_load_without_network_spark_or_secrets(tmp_path: Path) -> None:
    """Dagster's own validation, in a process where sockets to elsewhere and pyspark are errors."""
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, sys\n"
        "sys.modules['pyspark'] = None\n"
        "plain = socket.socket.connect\n"
        "def connect(self, address):\n"
        "    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ('127.0.0.1', 'localhost', '::1'):\n"
        "        raise OSError('no network while definitions load')\n"
        "    return plain(self, address)\n"
        "socket.socket.connect = connect\n"
    )
    root = DEPLOY.parent
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{root}"}
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-m", "dagster_project.definitions"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Validation successful" in done.stderr + done.stdout
    assert "left out" not in done.stderr + done.stdout
