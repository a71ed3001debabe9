"""What the data files of one write have in common, and the hooks that see their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from lakeidx.data.parquet.file import ParquetColumns
from lakeidx.data.parquet.properties import ParquetProperties, parquet_properties
from lakeidx.data.parquet.schema import file_fields
from lakeidx.data.stats import StatsMode, parse_stats_mode, stats_modes
from lakeidx.errors import UnsupportedError
from lakeidx.format.data_file import FileSource
from lakeidx.format.file_names import NewFileNames, data_file_extension
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.types import Field


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


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """What the files of one `write_data_files` call have in common.

    level          0 for a flush; the output level of a compaction
    changelog      a changelog file: its own statistics and compression options
    """

    schema: TableSchema
    level: int
    file_source: FileSource
    changelog: bool

    @property
    def key_names(self) -> tuple[str, ...]:
        """The trimmed primary key; empty for append tables."""
        return self.schema.trimmed_primary_keys

    @property
    def thin(self) -> bool:
        """Files without ``_KEY_`` columns."""
        return bool(self.key_names) and self.schema.table_options.data_file_thin_mode

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns of the files."""
        return self.schema.once("file_fields", lambda: file_fields(self.schema.fields, self.key_names, thin=self.thin))

    @property
    def columns(self) -> ParquetColumns:
        """All columns of the files, for Arrow's writer."""
        return self.schema.once("parquet_columns", lambda: ParquetColumns.of(self.fields))

    def modes(self) -> dict[str, StatsMode]:
        """Return the statistics mode of every column of the files."""
        return self.schema.once(f"stats_modes {self.level} {self.changelog}", self._modes)

    def _modes(self) -> dict[str, StatsMode]:
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

    @property
    def properties(self) -> ParquetProperties:
        """Settings of Arrow's writer."""
        options, (option, codec) = self.schema.table_options, self._codec
        return self.schema.once(
            f"parquet_properties {codec}", lambda: parquet_properties(options, compression=codec, option=option)
        )

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

    def new_name(self, names: NewFileNames) -> str:
        """Draw the name of the next file."""
        options = self.schema.table_options
        suffix = self.compression if options.file_suffix_include_compression else None
        prefix = options.changelog_file_prefix if self.changelog else options.data_file_prefix
        return names.data_file(data_file_extension("parquet", suffix), prefix=prefix)

    def check_format(self) -> None:
        """Refuse file formats other than Parquet, the only one written.

        errors   UnsupportedError naming the option
        """
        o = self.schema.table_options
        key, wanted = self._chosen("format", o.changelog_file_format, o.file_format_per_level, o.file_format)
        if wanted.lower() != "parquet":
            raise UnsupportedError(f"option '{key}' = {wanted}: lakeidx reads such data files, but writes Parquet only")
