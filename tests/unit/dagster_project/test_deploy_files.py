"""What is in deploy/ is well formed, holds no secret, and says the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

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
