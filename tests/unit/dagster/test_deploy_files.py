"""What is in deploy/ is well formed, holds no secret, and says the same everywhere."""

from __future__ import annotations

import json
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

from lakeidx.testing.limits import HANGS_SECONDS

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
        assert match is None or match["value"].startswith(("...", "false", "lakeidx-store:")), line


def test_compose_services_have_what_a_deployment_needs() -> None:
    compose = documents(DEPLOY / "compose.yaml")[0]
    services = compose["services"]
    lasting = {"webserver", "daemon", "code", "postgres", "s3", "spark-master", "spark-worker", "login"}
    assert {*lasting, "bucket"} == set(services)
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            ends = how["condition"] == "service_completed_successfully"
            assert ends is (needed == "bucket"), f"{name} waits for {needed}"
        limits = service["deploy"]["resources"]["limits"]
        assert {"cpus", "memory"} == set(limits), name
        assert not service["image"].endswith(":latest") or service["image"] == "lakeidx:latest"
        assert ("healthcheck" in service) is (name in lasting)
        assert service["restart"] == ("unless-stopped" if name in lasting else "on-failure")
    assert services["spark-worker"]["deploy"]["replicas"] == 2
    assert "bucket" in services["code"]["depends_on"]
    assert any(v.endswith(":/opt/lakeidx/pipelines:ro") for v in services["code"]["volumes"])


def test_slots_of_compose_are_those_of_its_workers() -> None:
    services = documents(DEPLOY / "compose.yaml")[0]["services"]
    spark = json.loads(services["code"]["environment"]["LAKEIDX_SPARK_CONFIG"])
    worker = services["spark-worker"]
    cores = int(re.search(r"--cores (\d+)", worker["command"][-1])[1])  # type: ignore[index]
    assert int(spark["spark.cores.max"]) == cores * worker["deploy"]["replicas"]
    assert int(spark["spark.executor.cores"]) == cores


def test_the_image_compiles_kernels_as_the_user_that_runs_it() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    assert lines.index("USER 10001") + 1 == lines.index("RUN lakeidx warm-up")
    text = "\n".join(lines)
    assert "NUMBA_CACHE_DIR=/opt/lakeidx/kernels" in text
    assert text.index("chown -R 10001 /opt/dagster/home /opt/lakeidx/kernels") < text.index("USER 10001")


def test_variables_of_the_instance_are_set_in_compose() -> None:
    instance = documents(DEPLOY / "dagster.yaml")[0]
    settings = [*instance["storage"]["postgres"]["postgres_db"].values(), *instance["compute_logs"]["config"].values()]
    wanted = {v["env"] for v in settings if isinstance(v, dict)}
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
                maps = [e["configMapRef"]["name"] for e in container.get("envFrom", ()) if "configMapRef" in e]
                assert all(("ConfigMap", m) in names for m in maps)


@pytest.mark.parametrize(
    ("cloud", "manager", "secret"),
    [
        ("google", "GCSComputeLogManager", "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("azure", "AzureBlobComputeLogManager", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_values_of_a_cloud_change_what_is_there(cloud: str, manager: str, secret: str) -> None:
    values, own = documents(DEPLOY / "helm" / "values.yaml")[0], documents(DEPLOY / "helm" / f"{cloud}.yaml")[0]
    assert set(own) <= set(values)
    assert own["computeLogManager"]["type"] == manager
    assert list(own["computeLogManager"]["config"]) == [
        {"google": "gcs", "azure": "azureBlob"}[cloud] + "ComputeLogManager"
    ]
    text = (DEPLOY / "helm" / f"{cloud}.yaml").read_text()
    assert text.count(secret) == 2, "who writes logs reads the variable that the secret sets"
    named = set(re.findall(r"lakeidx-store[a-z-]*", text))
    assert named == set(re.findall(r"lakeidx-store[a-z-]*", (DEPLOY / "helm" / "values.yaml").read_text()))


def follows_compose_spec(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)


@pytest.mark.slow
def test_compose_file_follows_the_compose_specification(tmp_path: Path) -> None:
    done = follows_compose_spec(DEPLOY / "compose.yaml")
    assert done.returncode == 0, done.stdout
    wrong = documents(DEPLOY / "compose.yaml")[0]
    wrong["services"]["code"]["depends_on"]["bucket"]["condition"] = "service_well"
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
        container["volumeMounts"] = part.get("volumeMounts", [])
        more = part.get("runK8sConfig", {})
        spec = {"containers": [container], "volumes": part.get("volumes", []), **more.get("podSpecConfig", {})}
        metadata = {"name": "x", **more.get("podTemplateSpecMetadata", {})}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        kubernetes_validate.validate(pod, "1.30", strict=True)
    named = {d["metadata"]["name"] for _, d in KUBERNETES if d["kind"] == "ConfigMap"}
    assert {r["name"] for part in (code, run) for r in part["envConfigMaps"]} <= named


def accounts() -> dict[str, dict[str, Any]]:
    """The service accounts by name."""
    return {d["metadata"]["name"]: d for _, d in KUBERNETES if d["kind"] == "ServiceAccount"}


def test_every_role_has_an_account_and_only_two_may_ask_kubernetes() -> None:
    values = helm_values()
    run = values["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]
    spark = next(d for f, d in KUBERNETES if d["kind"] == "Deployment" and d["metadata"]["name"] == "spark-connect")
    used = [
        values["serviceAccount"]["name"],
        values["dagster-user-deployments"]["serviceAccount"]["name"],
        run["podSpecConfig"]["serviceAccountName"],
        spark["spec"]["template"]["spec"]["serviceAccountName"],
        "spark-executor",
    ]
    assert sorted(used) == sorted(accounts())
    assert "serviceAccountName" not in values["global"], "it would be that of all roles"
    assert {n for n, a in accounts().items() if a.get("automountServiceAccountToken", True)} == {
        "dagster",
        "spark-connect",
    }
    command = spark["spec"]["template"]["spec"]["containers"][0]["args"][-1]
    assert "executor.serviceAccountName=spark-executor" in command
    bound = [s["name"] for _, d in KUBERNETES if d["kind"] == "RoleBinding" for s in d["subjects"]]
    assert bound == ["spark-connect"], "the chart binds the account of Dagster"


def policies() -> dict[str, dict[str, Any]]:
    """The network policies by name."""
    return {d["metadata"]["name"]: d["spec"] for _, d in KUBERNETES if d["kind"] == "NetworkPolicy"}


def test_what_no_policy_allows_is_refused() -> None:
    assert policies()["nothing-else"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    # Nobody else than who is named comes in: an empty `from` would let in all.
    open_to_all = [n for n, spec in policies().items() for rule in spec.get("ingress", ()) if "from" not in rule]
    assert open_to_all == ["login"]


def test_only_runs_reach_spark_connect_and_only_through_tls_with_a_token() -> None:
    spark = policies()["spark-connect"]["ingress"]
    assert [r["from"] for r in spark] == [[{"podSelector": {"matchLabels": {"lakeidx/role": "run"}}}]]
    run = helm_values()["runLauncher"]["config"]["k8sRunLauncher"]
    assert run["runK8sConfig"]["podTemplateSpecMetadata"]["labels"] == {"lakeidx/role": "run"}
    assert {"name": "spark-connect-token"} in run["envSecrets"]
    settings = next(d["data"] for _, d in KUBERNETES if d["metadata"]["name"] == "lakeidx-settings")
    assert settings["LAKEIDX_SPARK_REMOTE"] == "sc://spark-connect.lakeidx.svc:15002/;use_ssl=true"
    deployment = next(
        d for _, d in KUBERNETES if d["kind"] == "Deployment" and d["metadata"]["name"] == "spark-connect"
    )
    server = deployment["spec"]["template"]["spec"]["containers"][0]
    assert {"secretRef": {"name": "spark-connect-token"}} in server["envFrom"]
    assert "grpc.binding.address=127.0.0.1" in server["args"][-1]
    assert "spark.authenticate=true" in server["args"][-1]


def test_budgets_leave_what_was_asked_for() -> None:
    budgets = {
        d["metadata"]["name"]: d["spec"]["minAvailable"] for _, d in KUBERNETES if d["kind"] == "PodDisruptionBudget"
    }
    assert budgets == {"spark-connect": 1, "spark-executors": 3, "code": 1, "login": 1}


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
        [linter, str(DEPLOY / "Containerfile")], capture_output=True, text=True, check=False, timeout=HANGS_SECONDS
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
            command, env={"PATH": path, **variables}, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return call


def test_the_entry_point_runs_commands_as_they_are(entrypoint: Callable[..., list[str]]) -> None:
    assert entrypoint("dagster-webserver", "-p", "3000", "a b") == ["--", "dagster-webserver", "-p", "3000", "a b"]


def test_the_entry_point_hands_the_secret_on_in_a_file_of_its_own(
    entrypoint: Callable[..., list[str]], tmp_path: Path
) -> None:
    file = '"$SPARK_CONF_DIR/spark-defaults.conf"'
    show = f'stat -c %a {file}; cat {file}; echo "[$LAKEIDX_SPARK_SECRET]"'
    (tmp_path / "tini").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    found = entrypoint("sh", "-c", show, LAKEIDX_SPARK_SECRET="hush")
    assert found == [
        "600", "spark.authenticate true", "spark.network.crypto.enabled true", "spark.authenticate.secret hush", "[]",
    ]  # fmt: skip


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
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": f"{tmp_path}:{root}",
        "LAKEIDX_PIPELINES": f"{root}/pipelines",
    }
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-m", "lakeidx.dagster.definitions"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Validation successful" in done.stderr + done.stdout
    assert "left out" not in done.stderr + done.stdout
