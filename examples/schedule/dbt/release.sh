#!/bin/sh
# dbt builds the table that Sordino protects; what Sordino releases comes back as a seed, which everybody may read.
# dbt's own models cannot ask through the SQL port: they create tables there, and it holds none.
set -eu
day=$1
dbt build --exclude 'resource_type:seed'
python release_tables.py nightly.toml --day "$day" --folder seeds/released
dbt seed --select 'path:seeds/released'
