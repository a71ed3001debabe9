"""Metrics as text of OpenMetrics: once, or for a scraper that asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import TYPE_CHECKING

from lakeidx.errors import InvalidInputError, LakeIdxError, UnsupportedError
from lakeidx.maintenance.metrics.figures import table_figures
from lakeidx.table.handle import TableHandle

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

#: Addresses that only this machine reaches: figures of tables are nobody else's.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class TableMetrics:
    """A collector of prometheus-client: the figures of tables when they are asked for.

    tables   gives the tables, as they are then
    """

    def __init__(self, tables: Callable[[], Sequence[TableHandle]]) -> None:
        self._tables = tables

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield a family for each figure; a table that cannot be read has ``lakeidx_table_up`` 0, and no others."""
        from prometheus_client.core import GaugeMetricFamily

        families: dict[str, GaugeMetricFamily] = {}

        def add(name: str, text: str, labels: dict[str, str], value: float) -> None:
            if name not in families:
                families[name] = GaugeMetricFamily(name, text, labels=list(labels))
            families[name].add_metric(list(labels.values()), value)

        for table in self._tables():
            begun = time.monotonic()
            database, _, name = table.uri.rstrip("/").rpartition("/")
            labels = {"database": database.rpartition("/")[2].removesuffix(".db"), "table": name}
            try:
                found = list(table_figures(table))
            except LakeIdxError:
                found = None
            add("lakeidx_table_up", "1 where the table can be read.", labels, float(found is not None))
            for figure in found or ():
                add(figure.name, figure.help, {**labels, **figure.labels}, figure.value)
            add("lakeidx_table_scrape_seconds", "Seconds that its figures took.", labels, time.monotonic() - begun)
        yield from families.values()


def _registry(tables: Callable[[], Sequence[TableHandle]]) -> CollectorRegistry:
    try:
        from prometheus_client import CollectorRegistry
    except ModuleNotFoundError as error:
        raise UnsupportedError('metrics need prometheus-client: pip install "lakeidx[metrics]"') from error
    registry = CollectorRegistry(auto_describe=False)
    registry.register(TableMetrics(tables))
    return registry


def metrics_text(tables: Callable[[], Sequence[TableHandle]]) -> str:
    """Return the figures of tables as text of OpenMetrics 1.0."""
    registry = _registry(tables)
    from prometheus_client.openmetrics.exposition import generate_latest

    return str(generate_latest(registry).decode())  # type: ignore[no-untyped-call]


def metrics_rows(tables: Callable[[], Sequence[TableHandle]]) -> list[dict[str, object]]:
    """Return the same figures, a row each: metric, labels, value."""
    families = TableMetrics(tables).collect()
    return [{"metric": s.name, **s.labels, "value": s.value} for family in families for s in family.samples]


def serve_metrics(tables: Callable[[], Sequence[TableHandle]], address: str, stop: Event) -> None:
    """Answer scrapes at ``host:port`` until `stop` is set; each reads the tables anew.

    errors   InvalidInputError for an address that other machines reach, or that is taken
    """
    registry = _registry(tables)
    from prometheus_client import start_http_server

    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if host not in _LOOPBACK or not port.isdecimal():
        raise InvalidInputError(f"metrics are served on this machine only: give 127.0.0.1:PORT, not {address!r}")
    try:
        server, thread = start_http_server(
            int(port), addr="127.0.0.1" if host == "localhost" else host, registry=registry
        )
    except OSError as error:
        raise InvalidInputError(f"metrics cannot be served at {address}: {error.strerror}") from error
    stop.wait()
    server.shutdown()
    thread.join()
