"""Runs the pipeline of this folder over a queue, and prints the view that it made.

    python examples/declarative/run.py <database url> [folder for the tables]

Needs `pip install 'queenmq[server,spark-connect]'` and a broker's database; `make pipelines` takes
that of `make run`. Takes about a minute. Each run needs a folder of its own: Spark's own catalogue
is kept in memory, so tables of an earlier run are unknown to it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg
import pyarrow.parquet as pq

from queenmq.spark.runtime.java import prepare_environment, stay_on_loopback

HERE = Path(__file__).parent


async def push_orders(url: str) -> None:
    """Three orders, as a program of yours would push them."""
    session = await asyncpg.connect(url)
    try:
        for customer, total in (("c1", 10.5), ("c2", 20), ("c1", 4.5)):
            order = json.dumps({"customer": customer, "total": total})
            await session.execute("SELECT queen.push('orders', $1::json)", order)
    finally:
        await session.close()


def copy_pipeline(url: str, folder: Path) -> Path:
    """The pipeline with this database, its tables below this folder; the specification."""
    shutil.copytree(HERE, folder / "pipeline", dirs_exist_ok=True)
    spec = folder / "pipeline" / "spark-pipeline.yml"
    text = spec.read_text().replace("/tmp/queen-declarative", str(folder.absolute()))
    spec.write_text(text.replace("postgresql://queen@127.0.0.1:5432/queen", url))
    return spec


def main(url: str, folder: str | None = None) -> None:
    home = Path(folder or tempfile.mkdtemp(prefix="queen-declarative-"))
    asyncio.run(push_orders(url))
    spec = copy_pipeline(url, home)
    prepare_environment()
    stay_on_loopback()
    command = [str(Path(sys.executable).parent / "spark-pipelines"), "run", "--spec", str(spec)]
    subprocess.run(command, check=True, cwd=home)
    view = pq.read_table(home / "spark-warehouse" / "turnover").to_pylist()
    print(json.dumps(sorted(view, key=lambda row: str(row["customer"]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
