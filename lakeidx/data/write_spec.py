"""Settings of the data files of one write, and the hooks that see their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from lakeidx.data.parquet.columns import ParquetColumns
from lakeidx.data.parquet.file import WriterSettings
from lakeidx.data.parquet.properties import ParquetProperties, parquet_properties
from lakeidx.data.parquet.schema import file_fields
from lakeidx.data.stats_modes import StatsMode, parse_stats_mode, stats_modes
from lakeidx.errors import UnsupportedError
from lakeidx.format.data_file import FileSource
from lakeidx.format.file_names import NewFileNames, data_file_extension
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.types import Field

DEFAULT_TARGET_BYTES = 128 << 20
_DEFAULT_APPEND_TARGET_BYTES = 256 << 20


class FileIndexBuilder(Protocol):
    """Builds the file index of one data file while it is written."""

    def add(self, table: pa.Table) -> None:
        """Add the next rows of the file: the table's columns, without system columns; may be dictionary-encoded."""
        ...

    def finish(self) -> tuple[bytes | None, list[tuple[str, bytes]]]:
        """Finish the file; return (bytes for the manifest or None, companion files as (suffix of the data file's name,
        content)).
        """
        ...


class FooterMetadataBuilder(Protocol):
    """Builds key-value metadata of one Parquet file while it is written."""

    def add(self, table: pa.Table) -> None:
        """Add the next rows of the file, as for `FileIndexBuilder`."""
        ...

    def finish(self) -> Mapping[str, str]:
        """Return the entries of the footer."""
        ...


@dataclass(frozen=True)
class WriteSpec:
    """Settings of the files of one `DataFileWriter`, and what follows from them.

    level          0 for a flush; the output level of a compaction
    changelog      a changelog file: its own statistics and compression options
    """

    schema: TableSchema
    level: int
    file_source: FileSource
    changelog: bool

    @classmethod
    def of(cls, schema: TableSchema, level: int, file_source: FileSource, *, changelog: bool) -> WriteSpec:
        """Return the one of a schema, made and checked when first requested.

        errors   as `check_format`
        """
        return schema.once(
            f"write_spec {level} {int(file_source)} {changelog}",
            lambda: _checked(cls(schema, level, file_source, changelog)),
        )

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        """Return the trimmed primary key; empty for append tables."""
        return self.schema.trimmed_primary_keys

    @cached_property
    def thin(self) -> bool:
        """Files without ``_KEY_`` columns."""
        return bool(self.key_names) and self.schema.table_options.data_file_thin_mode

    @cached_property
    def given(self) -> pa.Schema:
        """Return the columns of the rows to write."""
        return self.schema.kv_arrow_schema if self.key_names else self.schema.arrow_schema

    @cached_property
    def keys_in_front(self) -> tuple[int, ...]:
        """Numbers of the columns in `given` that files have once more in front, as ``_KEY_`` columns."""
        return () if self.thin else tuple(self.given.names.index(name) for name in self.key_names)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """All columns of the files."""
        return file_fields(self.schema.fields, self.key_names, thin=self.thin)

    @cached_property
    def columns(self) -> ParquetColumns:
        """All columns of the files, for Arrow's writer."""
        return ParquetColumns.of(self.fields)

    @cached_property
    def modes(self) -> Mapping[str, StatsMode]:
        """Return the statistics mode of every column of the files."""
        options = self.schema.table_options
        text = options.metadata_stats_mode_per_level.get(str(self.level), options.metadata_stats_mode)
        if self.changelog and options.changelog_file_stats_mode is not None:
            text = options.changelog_file_stats_mode
        return stats_modes(
            [f.name for f in self.fields],
            default=parse_stats_mode(text),
            options=options.raw,
            thin_keys=self.key_names if self.thin else (),
            keep_first_columns=options.metadata_stats_keep_first_n_columns,
        )

    @cached_property
    def reduced(self) -> tuple[tuple[Field, StatsMode], ...]:
        """Return the columns whose statistics their mode changes."""
        return tuple((f, self.modes[f.name]) for f in self.fields if not self.modes[f.name].keeps_all(f.type))

    @cached_property
    def properties(self) -> ParquetProperties:
        """Return the settings of Arrow's writer."""
        option, codec = self._codec
        return parquet_properties(self.schema.table_options, compression=codec, option=option)

    @cached_property
    def settings(self) -> WriterSettings:
        """Return the same for files whose columns do not come as dictionaries."""
        return self.properties.settle(self.columns.physical)

    @cached_property
    def target_bytes(self) -> int:
        """Size after which the next row group begins a new file, if the caller wants none."""
        default = DEFAULT_TARGET_BYTES if self.key_names else _DEFAULT_APPEND_TARGET_BYTES
        return self.schema.table_options.target_file_size or default

    @property
    def compression(self) -> str:
        """The codec as options name it."""
        return self._codec[1]

    @property
    def _codec(self) -> tuple[str, str]:
        o = self.schema.table_options
        return self._chosen(
            "compression", o.changelog_file_compression, o.file_compression_per_level, o.file_compression
        )

    def _chosen(
        self, name: str, of_changelog: str | None, by_level: Mapping[str, str], otherwise: str
    ) -> tuple[str, str]:
        """Return which of the options ``file.<name>`` holds for these files, and its text."""
        if self.changelog and of_changelog is not None:
            return f"changelog-file.{name}", of_changelog
        if str(self.level) in by_level:
            return f"file.{name}.per.level", by_level[str(self.level)]
        return f"file.{name}", otherwise

    @cached_property
    def _affixes(self) -> tuple[str, str]:
        options = self.schema.table_options
        suffix = self.compression if options.file_suffix_include_compression else None
        prefix = options.changelog_file_prefix if self.changelog else options.data_file_prefix
        return prefix, data_file_extension("parquet", suffix)

    def new_name(self, names: NewFileNames) -> str:
        """Draw the name of the next file."""
        prefix, extension = self._affixes
        return names.data_file(extension, prefix=prefix)

    def check_format(self) -> None:
        """Refuse file formats other than Parquet, the only one written.

        errors   UnsupportedError naming the option
        """
        o = self.schema.table_options
        key, wanted = self._chosen("format", o.changelog_file_format, o.file_format_per_level, o.file_format)
        if wanted.lower() != "parquet":
            raise UnsupportedError(f"option '{key}' = {wanted}: lakeidx reads such data files, but writes Parquet only")


def _checked(spec: WriteSpec) -> WriteSpec:
    spec.check_format()
    return spec
