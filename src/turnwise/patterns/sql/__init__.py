"""The pattern language as DuckDB SQL over stored trajectories. Text only: nothing here opens a database."""

from turnwise.patterns.sql.compiler import Columns, matches_sql, values_sql

__all__ = ["Columns", "matches_sql", "values_sql"]
