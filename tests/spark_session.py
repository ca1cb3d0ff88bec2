"""A Spark session for tests: two threads of one process, two shuffle partitions, no page; skipped where Java is absent."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING = "Java is not here: scripts/system-packages installs it (apt-get install openjdk-17-jre-headless)"


def start(place: str) -> SparkSession:
    """Return the session; its warehouse and its scratch files lie in a directory. Skips where Java or pyspark is absent."""
    pytest.importorskip("pyspark", reason="pyspark is not here: pip install 'sordino[spark]'")
    if shutil.which("java") is None:
        pytest.skip(_MISSING)
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # compiled once, for a short life
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",  # tables are small; the deep tests compile theirs
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": place,
        "spark.local.dir": tempfile.gettempdir(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]").appName("sordino")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
