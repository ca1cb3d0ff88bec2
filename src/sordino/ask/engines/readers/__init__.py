"""Readers of files and other sources: CSV, Parquet, SQLite, PostgreSQL, Spark, lake tables."""
