"""Tables that Spark reads: the session, the settings that our SQL rests on, and the columns that a source states; never a row.

Nothing that Spark says goes into an error: it may quote a cell, or settings with a password.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.ask.engines.readers.lake_tables import BY_LIBRARY, check_folder
from sordino.ask.engines.table_layout import PhysicalColumn
from sordino.core.errors import SourceError
from sordino.core.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INSTALL = "needs pyspark, and Java 17 or 21: pip install 'sordino[spark]', apt-get install openjdk-17-jre-headless"
# What a setting must be, so that no row makes a question fail, or decides whether others count.
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # without it sums wrap and casts give NULL
    "spark.sql.parquet.filterPushdown": "false",  # a Parquet file's bounds leave NaN out
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.constraintPropagation.enabled": "false",  # else a join puts all steps of its keys into filters
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # else a day before 1582 may fail a question
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # which folders there are decides no type
}
_OWN = {"spark.ui.enabled": "false", "spark.sql.ansi.enabled": "true", "spark.ui.showConsoleProgress": "false"}
_KINDS = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "void": "NULL",
}
# What a session needs to read a format: its jar and settings, those of Spark 4.0.
_READERS = {
    "delta": (
        '"spark.jars.packages" = "io.delta:delta-spark_2.13:4.0.0", "spark.sql.extensions" = '
        '"io.delta.sql.DeltaSparkSessionExtension" and "spark.sql.catalog.spark_catalog" = '
        '"org.apache.spark.sql.delta.catalog.DeltaCatalog"'
    ),
    "iceberg": (
        '"spark.jars.packages" = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0" and "spark.sql.extensions" = '
        '"org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"'
    ),
}
_OPENING = threading.Lock()
_DEEPEST = 12
_TASK = re.compile(
    r"Job aborted due to stage failure: [^:]*: Lost task [0-9.]+ in stage [0-9.]+ \(TID \d+\) \([^()]*\): ([\w.$]+)"
)


def open_session(settings: Sequence[tuple[str, str]]) -> SparkSession:
    """Return the session that is active, or one made of these settings; raises SourceError where none can be had."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SourceError(f"a Spark source {_INSTALL}") from None
    session: SparkSession | None = None
    try:
        with _OPENING:
            session = SparkSession.getActiveSession()
            if session is None:
                builder = SparkSession.builder.appName("sordino")
                stated = dict(settings)
                if "spark.remote" in stated:
                    builder = builder.remote(stated.pop("spark.remote"))
                else:
                    stated = _OWN | stated
                for name, value in stated.items():
                    builder = builder.config(name, value)
                session = builder.getOrCreate()
    except Exception:  # of any kind: a missing Java, a cluster that does not answer, a stopped session
        session = None
    if session is None:
        raise SourceError(f"no Spark session can be made: check [engine.spark]; Spark {_INSTALL}")
    return session


def check_settings(session: SparkSession) -> None:
    """Set what our SQL rests on, and see that it is set; raises SourceError, which names what is not."""
    broken = ""
    for name, value in _SETTINGS.items():
        try:
            if session.conf.get(name) != value:
                session.conf.set(name, value)
                broken = broken or ("" if session.conf.get(name) == value else name)
        except Exception:  # of any kind: the session is stopped, or the setting cannot be changed
            broken = broken or name
    if broken:
        raise SourceError(
            f"the Spark session is stopped, or does not let {broken} be {_SETTINGS[broken]}, on which every answer rests: "
            "open a session that does"
        )


def is_alive(session: SparkSession) -> bool:
    """Return whether a session still answers; a classic one that is stopped still knows its settings."""
    try:
        stopped = getattr(session, "is_stopped", None)  # of Spark Connect
        if stopped is None:
            context = session.sparkContext._jsc
            stopped = context is None or context.sc().isStopped()
        session.conf.get("spark.sql.ansi.enabled")
    except Exception:  # of any kind
        return False
    return not stopped


def open_frame(session: SparkSession, source: Source, schema: Any = None) -> DataFrame:
    """Return the rows of a source, none read yet; raises SourceError. With `schema` no file is opened to find one."""
    check_folder(source)
    frame: DataFrame | None = None
    cause = "it cannot be read"
    try:
        if source.format == "spark":
            frame = session.table(source.path.removeprefix("spark:"))
        else:
            reader = session.read.format(source.format)
            if schema is not None and source.format == "parquet":
                reader = reader.schema(schema)
            frame = reader.load(source.path)
        frame.schema  # noqa: B018  # a Connect client finds out here what is not there
    except Exception as error:  # of any kind: only its class is looked at
        cause = _cause(error, source.format)
    if frame is None or cause != "it cannot be read":
        raise SourceError(f"source {source.path!r}: {cause}")
    return frame


def _cause(error: Exception, kind: str) -> str:
    needs = ""
    if kind in _READERS:
        needs = (
            f"start it with {_READERS[kind]}, in [engine.spark] or by its builder; or without Spark, {BY_LIBRARY[kind]}"
        )
    causes = {
        "TABLE_OR_VIEW_NOT_FOUND": "there is no such table or view",
        "SCHEMA_NOT_FOUND": "there is no such schema",
        "CATALOG_NOT_FOUND": "there is no such catalog",
        "REQUIRES_SINGLE_PART_NAMESPACE": "there is no such catalog",
        "PATH_NOT_FOUND": "there is no such path",
        "UNABLE_TO_INFER_SCHEMA": "there is no such table there",
        "DATA_SOURCE_NOT_FOUND": f"this session has no reader of {kind} tables: {needs}",
        "INSUFFICIENT_PERMISSIONS": "this user has no right to read it",
        "PARSE_SYNTAX_ERROR": "it is not the name of a table, such as spark:catalog.schema.table",
    }
    return next((causes[name] for name in error_names(error) if name in causes), "the session cannot open it")


def error_names(error: Exception) -> list[str]:
    """Return what kinds of error this one and its causes are: conditions and classes, never a word of their messages.

    Of a task that failed elsewhere the class is in the message, at a place that no cell can stand before.
    """
    names = [str(getattr(error, "getCondition", lambda: "")() or "").partition(".")[0], type(error).__name__]
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(_DEEPEST):
        if java is None:
            break
        try:
            names.append(java.getClass().getSimpleName())
            task = _TASK.match(java.getMessage() or "")
            names += [task[1].rpartition(".")[2]] if task else []
            names.append((java.getCondition() or "").partition(".")[0] if hasattr(java, "getCondition") else "")
        except Exception:  # a kind without a condition, or a gateway that is gone
            names.append("")
        java = _next(java)
    return [name for name in names if name]


def _next(java: Any) -> Any:
    try:
        return java.getCause()
    except Exception:  # of any kind: the gateway is gone
        return None


def read_columns(frame: DataFrame) -> dict[str, PhysicalColumn]:
    """Return the columns of a table, as its schema states them."""
    return {field.name: _physical_column(field.dataType) for field in frame.schema.fields}


def _physical_column(spark_type: Any) -> PhysicalColumn:
    if spark_type.typeName() == "array":
        return PhysicalColumn("LIST", _physical_column(spark_type.elementType).kind)
    # Without the digits of a decimal, or the length of a text.
    name = re.sub(r"[( ].*", "", spark_type.simpleString())
    if name in ("string", "char", "varchar"):
        return PhysicalColumn("VARCHAR")
    return PhysicalColumn("DECIMAL" if name == "decimal" else _KINDS.get(name, name.upper()))


def reads(session: SparkSession, text: str) -> bool:
    """Return whether Spark's parser takes a text; nothing is looked up or run. True where the session's parser is elsewhere."""
    # A session of Spark Connect has no parser here.
    inner = getattr(session, "_jsparkSession", None)
    if inner is None:
        return True
    try:
        inner.sessionState().sqlParser().parsePlan(text)
    except Exception as error:  # of any kind: a session that is gone is no fault of the text
        return "ParseException" not in type(error).__name__ and "ParseException" not in str(error)[:2000]
    return True
