"""Release the tables of each day with Airflow: a retry, a cleared task, a backfill of a released day charge nothing."""

from __future__ import annotations

import datetime

from airflow.models.dag import DAG
from airflow.providers.standard.operators.bash import BashOperator

PROJECT = "/srv/sordino"
# {{ ds }} is the day of the run, the same at each retry
RELEASE = f"cd {PROJECT} && .venv/bin/python release_tables.py nightly.toml --day {{{{ ds }}}}"
BACKUP = f"cd {PROJECT} && .venv/bin/sordino ledger backup backups/{{{{ ds }}}} --quiet"

with DAG(
    "sordino_release",
    schedule="15 2 * * *",
    start_date=datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC),
    # one charge after the other
    max_active_runs=1,
    # days that nobody released are not made up for without being asked
    catchup=False,
    default_args={"retries": 3, "retry_delay": datetime.timedelta(minutes=10)},
):
    release = BashOperator(task_id="release", bash_command=RELEASE)
    backup = BashOperator(task_id="backup", bash_command=BACKUP)
    release >> backup
