"""Whether NAME.parquet has the values of NAME.jsonl, as three programs read it: parquet_check.py NAME (see parquet.sh)."""
import json
import math
import struct
import sys

import duckdb
import polars
import pyarrow.parquet

name = sys.argv[1]
lines = []
for line in open(f"{name}.jsonl"):
    row = {}
    for key, value in json.loads(line).items():
        if key in ("params", "metrics", "summary"):
            row.update({f"{key}.{inner}": of for inner, of in value.items()})
        elif key not in ("origin", "device"):
            row[key] = value
    lines.append(row)


def same(key, cell, wanted):
    if key == "tags":
        return (cell or "") == " ".join(wanted)
    if key == "notes":
        return (cell or "") == "\n".join(wanted)
    if wanted is None or cell is None:
        return wanted is None and cell is None
    if isinstance(cell, float):
        wanted = float(wanted)
        return (math.isnan(cell) and math.isnan(wanted)) or struct.pack("d", cell) == struct.pack("d", wanted)
    return cell == wanted and type(cell) is type(wanted)


read = {
    "pyarrow": pyarrow.parquet.read_table(f"{name}.parquet").to_pylist(),
    "polars": polars.read_parquet(f"{name}.parquet").to_dicts(),
}
cursor = duckdb.sql(f"SELECT * FROM '{name}.parquet'")
read["duckdb"] = [dict(zip(cursor.columns, row)) for row in cursor.fetchall()]
for program, rows in read.items():
    assert len(rows) == len(lines), (program, len(rows), len(lines))
    for row, line in zip(rows, lines):
        for key in line:
            assert same(key, row.get(key), line[key]), (program, key, row.get(key), line[key])
        extra = [key for key in row if key not in line and key not in ("origin", "device") and row[key] is not None]
        assert not extra or set(extra) <= {"name", "group"}, (program, extra)
print(f"{name}: {len(lines)} rows of {len(read['pyarrow'][0])} columns, the same to {', '.join(read)}")
