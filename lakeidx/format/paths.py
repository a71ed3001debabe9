"""Paths of every file of a table.

::

    <warehouse>/<db>.db/<table>/
      schema/  snapshot/  manifest/  index/  statistics/  tag/  changelog/  consumer/
      branch/branch-<name>/{schema,snapshot,tag,changelog,consumer}/     manifests and data stay under the table
      [<data-file.path-directory>/]<k1=v1>/<k2=v2>/bucket-<n>/

source   org.apache.paimon.utils.FileStorePathFactory, BranchManager, org.apache.paimon.catalog.{AbstractCatalog, Identifier},
         release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.format.file_names import EARLIEST, LATEST
from lakeidx.format.partition_names import DEFAULT_NAME, bucket_dir_name, partition_dir_name
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.types import Field

MAIN_BRANCH = "main"
_BRANCH_OF = "$branch_"


@dataclass(frozen=True, slots=True)
class TableLocation:
    """A table directory, split as a filesystem catalog lays it out.

    warehouse   everything before the database directory
    database    without its ``.db``; None when the table is not in a ``<db>.db`` directory
    """

    warehouse: str
    database: str | None
    table: str


def split_table_name(name: str) -> tuple[str, str]:
    """Split ``database.table`` at its first dot, as Java does: more dots are the table's.

    errors   InvalidInputError for another form, and for anything but text
    """
    database, dot, table = name.partition(".") if isinstance(name, str) else ("", "", "")
    if not dot or not database.strip() or not table.strip() or {"/", "\0"} & {*name} or table in (".", ".."):
        raise InvalidInputError(f"write the table as database.table, not {name!r}")
    return database, table


def check_table_name(table: str, *, path: str | None = None) -> None:
    """Refuse the name of a new table that would be taken for that of a branch or a system table, as Java's catalogs do."""
    if "$" in table:
        raise InvalidInputError(
            f"call the table otherwise than {table!r}: behind '$' comes the name of a branch or a system table",
            path=path,
        )


def split_branch_name(uri: str) -> tuple[str, str | None]:
    """Split the path of a branch (``/lake/db.db/t$branch_b``) into the table's and the branch; None for another path."""
    root, dollar, name = uri.rstrip("/").rpartition(_BRANCH_OF)
    return (root, _checked(name, "branch")) if dollar and "/" not in name else (uri, None)


def with_branch(uri: str, branch: str) -> str:
    """Return the path of a branch, or of its system table, from the table's; InvalidInputError when it names one already."""
    folder, slash, name = uri.rstrip("/").rpartition("/")
    table, dollar, system = name.partition("$")
    if f"{dollar}{system}".startswith(_BRANCH_OF):
        raise InvalidInputError(f"the path names a branch already: leave out branch {branch!r}", path=uri)
    return f"{folder}{slash}{table}{_BRANCH_OF}{_checked(branch, 'branch')}{dollar}{system}"


def split_table_uri(uri: str) -> TableLocation:
    """Split ``<warehouse>/<db>.db/<table>``.

    errors   InvalidInputError when no table name is left
    """
    path = uri.rstrip("/")
    parent, _, table = path.rpartition("/")
    if not table or table in (".", "..") or (path.endswith(":") and uri.startswith(path + "//")):
        raise InvalidInputError("this is not a table's directory", path=uri)
    warehouse, slash, db = parent.rpartition("/")
    if db.endswith(".db") and len(db) > 3:
        return TableLocation(warehouse if warehouse or not slash else "/", db[:-3], table)
    if not slash and not parent and path == table:
        return TableLocation(".", None, table)
    return TableLocation(parent or "/", None, table)


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Makes the path of every file of one table (and branch).

    root               table directory, path or URI
    partition_fields   partition columns in order; needed for `bucket_dir` of partitioned tables
    """

    root: str
    partition_fields: tuple[Field, ...] = ()
    legacy_partition_names: bool = True
    default_partition_name: str = DEFAULT_NAME
    data_directory: str | None = None
    index_in_data_dir: bool = False
    branch: str = MAIN_BRANCH

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", self.root.rstrip("/") or "/")

    @classmethod
    def of(cls, root: str, schema: TableSchema, *, branch: str = MAIN_BRANCH) -> TablePaths:
        """Make the paths of a table with this schema; InvalidInputError when an option of it leads out of the table's
        directory.
        """
        options = schema.table_options
        for key, text in (
            ("data-file.path-directory", options.data_file_path_directory or ""),
            ("partition.default-name", options.partition_default_name),
            ("data-file.prefix", options.data_file_prefix),
            ("changelog-file.prefix", options.changelog_file_prefix),
        ):
            if ".." in text.split("/") or "\0" in text or (key.endswith("prefix") and "/" in text):
                raise InvalidInputError(f"option '{key}' leads out of the table's directory: {text!r}", path=root)
        return cls(
            root,
            partition_fields=tuple(schema.field(k) for k in schema.partition_keys),
            legacy_partition_names=options.partition_legacy_name,
            default_partition_name=options.partition_default_name,
            data_directory=options.data_file_path_directory,
            index_in_data_dir=options.index_file_in_data_file_dir,
            branch=branch,
        )

    @property
    def uri(self) -> str:
        """The name of the table, or branch: ``/lake/db.db/t`` or ``/lake/db.db/t$branch_b``."""
        return self.root if self.branch == MAIN_BRANCH else f"{self.root}{_BRANCH_OF}{self.branch}"

    # Directories

    @property
    def branch_root(self) -> str:
        """Directory of the branch's schemas, snapshots, tags, changelogs and consumers."""
        if self.branch == MAIN_BRANCH:
            return self.root
        return f"{self.root}/branch/branch-{_checked(self.branch, 'branch')}"

    @property
    def schema_dir(self) -> str:
        """Directory of schema files."""
        return f"{self.branch_root}/schema"

    @property
    def snapshot_dir(self) -> str:
        """Directory of snapshot files and their hints."""
        return f"{self.branch_root}/snapshot"

    @property
    def changelog_dir(self) -> str:
        """Directory of long-lived changelogs and their hints."""
        return f"{self.branch_root}/changelog"

    @property
    def tag_dir(self) -> str:
        """Directory of tags."""
        return f"{self.branch_root}/tag"

    @property
    def consumer_dir(self) -> str:
        """Directory of consumers."""
        return f"{self.branch_root}/consumer"

    @property
    def branch_dir(self) -> str:
        """Directory of all branches."""
        return f"{self.root}/branch"

    @property
    def manifest_dir(self) -> str:
        """Directory of manifests, manifest lists and index manifests."""
        return f"{self.root}/manifest"

    @property
    def index_dir(self) -> str:
        """Directory of index files."""
        return f"{self.root}/index"

    @property
    def statistics_dir(self) -> str:
        """Directory of table statistics."""
        return f"{self.root}/statistics"

    # Metadata files

    def schema_path(self, id: int) -> str:
        """Return ``schema/schema-<id>``."""
        return f"{self.schema_dir}/schema-{id}"

    def snapshot_path(self, id: int) -> str:
        """Return ``snapshot/snapshot-<id>``."""
        return f"{self.snapshot_dir}/snapshot-{id}"

    @property
    def latest(self) -> str:
        """The hint for the newest snapshot."""
        return f"{self.snapshot_dir}/{LATEST}"

    @property
    def earliest(self) -> str:
        """The hint for the oldest snapshot."""
        return f"{self.snapshot_dir}/{EARLIEST}"

    def changelog_path(self, id: int) -> str:
        """Return ``changelog/changelog-<id>``."""
        return f"{self.changelog_dir}/changelog-{id}"

    @property
    def changelog_latest(self) -> str:
        """The hint for the newest long-lived changelog."""
        return f"{self.changelog_dir}/{LATEST}"

    @property
    def changelog_earliest(self) -> str:
        """The hint for the oldest long-lived changelog."""
        return f"{self.changelog_dir}/{EARLIEST}"

    def tag_path(self, name: str) -> str:
        """Return ``tag/tag-<name>``."""
        return f"{self.tag_dir}/tag-{_checked(name, 'tag')}"

    def consumer_path(self, id: str) -> str:
        """Return ``consumer/consumer-<id>``."""
        return f"{self.consumer_dir}/consumer-{_checked(id, 'consumer')}"

    def manifest_path(self, name: str) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.manifest_dir}/{name}"

    def statistics_path(self, name: str) -> str:
        """Return the path of a statistics file."""
        return f"{self.statistics_dir}/{name}"

    # Data and index files

    def partition_dir(self, partition: Mapping[str, Any]) -> str:
        """Return the directory of a partition.

        partition   column name -> internal value
        """
        base = self.root if not self.data_directory else f"{self.root}/{self.data_directory.strip('/')}"
        name = partition_dir_name(
            partition,
            self.partition_fields,
            legacy=self.legacy_partition_names,
            default_name=self.default_partition_name,
        )
        return f"{base}/{name}" if name else base

    def bucket_dir(self, partition: Mapping[str, Any], bucket: int) -> str:
        """Return the directory of a (partition, bucket)."""
        return f"{self.partition_dir(partition)}/{bucket_dir_name(bucket)}"

    def data_file(
        self, partition: Mapping[str, Any], bucket: int, file_name: str, *, external_path: str | None = None
    ) -> str:
        """Return the path of a data or changelog file; `external_path` of its manifest entry is the whole path when set."""
        return external_path if external_path is not None else f"{self.bucket_dir(partition, bucket)}/{file_name}"

    def extra_file(
        self, partition: Mapping[str, Any], bucket: int, extra_name: str, *, external_path: str | None = None
    ) -> str:
        """Return the path of a companion (``.index``, ``.lookup``) of a data file: always in the data file's own directory."""
        if external_path is not None:
            return f"{external_path.rpartition('/')[0]}/{extra_name}"
        return f"{self.bucket_dir(partition, bucket)}/{extra_name}"

    def index_path(self, name: str) -> str:
        """Return the path of an index file at the default place."""
        return f"{self.index_dir}/{name}"

    def index_file(
        self, partition: Mapping[str, Any], bucket: int, name: str, *, external_path: str | None = None
    ) -> str:
        """Return the path of an index file, wherever the options and its index manifest entry put it."""
        if external_path is not None:
            return external_path
        return f"{self.bucket_dir(partition, bucket)}/{name}" if self.index_in_data_dir else self.index_path(name)


def _checked(name: str, what: str) -> str:
    if not name.strip() or "/" in name or "\0" in name or name in (".", ".."):
        raise InvalidInputError(f"a {what} name must be text without '/', not {name!r}")
    return name
