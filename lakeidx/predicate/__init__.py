"""Predicates: parse, build, evaluate, and prune with them.

Import the names below; a predicate is a tree of leaves over columns, bound to a schema before it is used.
What is pruned with it belongs elsewhere: files in `lakeidx.table.scan`, rows of a file in `lakeidx.data` and `lakeidx.file_index`.
"""

from lakeidx.predicate.bind import BoundPredicate as BoundPredicate
from lakeidx.predicate.bind import bind as bind
from lakeidx.predicate.bind import bind_foreign as bind_foreign
from lakeidx.predicate.builder import Column as Column
from lakeidx.predicate.builder import col as col
from lakeidx.predicate.devolve import devolve as devolve
from lakeidx.predicate.literals import cast_literal as cast_literal
from lakeidx.predicate.mask import ColumnStats as ColumnStats
from lakeidx.predicate.mask import all_null_stats as all_null_stats
from lakeidx.predicate.mask import evaluate as evaluate
from lakeidx.predicate.mask import filter_table as filter_table
from lakeidx.predicate.mask import may_match_stats as may_match_stats
from lakeidx.predicate.text import format_predicate as format_predicate
from lakeidx.predicate.tree import FALSE as FALSE
from lakeidx.predicate.tree import TRUE as TRUE
from lakeidx.predicate.tree import And as And
from lakeidx.predicate.tree import Compare as Compare
from lakeidx.predicate.tree import Constant as Constant
from lakeidx.predicate.tree import In as In
from lakeidx.predicate.tree import IsNull as IsNull
from lakeidx.predicate.tree import Leaf as Leaf
from lakeidx.predicate.tree import Match as Match
from lakeidx.predicate.tree import MatchKind as MatchKind
from lakeidx.predicate.tree import Op as Op
from lakeidx.predicate.tree import Or as Or
from lakeidx.predicate.tree import Predicate as Predicate
from lakeidx.predicate.tree import Values as Values
from lakeidx.predicate.tree import and_ as and_
from lakeidx.predicate.tree import between as between
from lakeidx.predicate.tree import columns as columns
from lakeidx.predicate.tree import equality_values as equality_values
from lakeidx.predicate.tree import is_row as is_row
from lakeidx.predicate.tree import leaves as leaves
from lakeidx.predicate.tree import negate as negate
from lakeidx.predicate.tree import or_ as or_
from lakeidx.predicate.tree import project as project
from lakeidx.predicate.tree import rename as rename
from lakeidx.predicate.tree import split_and as split_and
