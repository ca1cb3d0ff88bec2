-- SQL as tools and books write it, over the tables of test_corpus.py: orders and logins are private, stores and goals public.
--
-- A text ends with a semicolon. What stands behind the semicolon says what is expected: nothing, an answer that is DuckDB's in
-- names, values and order; "named", one that is so but for its names; "keys", one that has declared keys without rows besides;
-- "refused: WORDS", a refusal with these words in it; "later: refused", a refusal for now; "wrong: WHY", a known difference.

-- == Metabase
SELECT "orders"."region" AS "region", COUNT(*) AS "count" FROM "orders" GROUP BY "orders"."region" ORDER BY "orders"."region" ASC;
SELECT CAST(DATE_TRUNC('month', "orders"."placed") AS DATE) AS "placed", COUNT(*) AS "count" FROM "orders" GROUP BY CAST(DATE_TRUNC('month', "orders"."placed") AS DATE) ORDER BY CAST(DATE_TRUNC('month', "orders"."placed") AS DATE) ASC;
SELECT DATE_TRUNC('month', "orders"."day") AS "day", SUM("orders"."qty") AS "sum" FROM "orders" GROUP BY DATE_TRUNC('month', "orders"."day") ORDER BY DATE_TRUNC('month', "orders"."day") ASC;
SELECT "source"."region" AS "region", AVG("source"."count") AS "avg" FROM (SELECT "orders"."region" AS "region", DATE_TRUNC('month', "orders"."day") AS "day", COUNT(*) AS "count" FROM "orders" GROUP BY "orders"."region", DATE_TRUNC('month', "orders"."day")) AS "source" GROUP BY "source"."region" ORDER BY "source"."region" ASC;
SELECT "source"."region" AS "region", "source"."sum" AS "sum", "source"."count" AS "count", CAST("source"."sum" AS DOUBLE) / NULLIF(CAST("source"."count" AS DOUBLE), 0) AS "each" FROM (SELECT "orders"."region" AS "region", SUM("orders"."price") AS "sum", COUNT(*) AS "count" FROM "orders" GROUP BY "orders"."region") AS "source" ORDER BY "source"."region" ASC LIMIT 1048575;
SELECT COUNT(DISTINCT "orders"."customer") AS "count" FROM "orders" WHERE "orders"."member" = TRUE;
SELECT "orders"."channel" AS "channel", SUM(CASE WHEN "orders"."returned" = TRUE THEN 1 ELSE 0.0 END) AS "CountIf" FROM "orders" GROUP BY "orders"."channel" ORDER BY "orders"."channel" ASC;
SELECT "source"."day" AS "day", "source"."count" AS "count", SUM("source"."count") OVER (ORDER BY "source"."day" ASC ROWS UNBOUNDED PRECEDING) AS "sum" FROM (SELECT DATE_TRUNC('month', "orders"."day") AS "day", COUNT(*) AS "count" FROM "orders" GROUP BY DATE_TRUNC('month', "orders"."day")) AS "source" ORDER BY "source"."day" ASC;
SELECT "source"."day" AS "day", "source"."count" AS "count", LAG("source"."count", 1) OVER (ORDER BY "source"."day" ASC) AS "previous" FROM (SELECT DATE_TRUNC('quarter', "orders"."day") AS "day", COUNT(*) AS "count" FROM "orders" GROUP BY DATE_TRUNC('quarter', "orders"."day")) AS "source" ORDER BY "source"."day" ASC;
SELECT "orders"."region" AS "region", COUNT(*) AS "count" FROM "orders" WHERE "orders"."day" >= DATE '2024-01-01' AND "orders"."day" < DATE '2025-01-01' GROUP BY "orders"."region" ORDER BY "count" DESC, "orders"."region" ASC;
SELECT "Stores"."city" AS "Stores__city", SUM("orders"."qty") AS "sum" FROM "orders" LEFT JOIN "stores" AS "Stores" ON "orders"."store_id" = "Stores"."store_id" GROUP BY "Stores"."city" ORDER BY "Stores"."city" ASC; -- keys
SELECT "source"."count" AS "count", COUNT(*) AS "count_2" FROM (SELECT "orders"."region" AS "region", CASE WHEN COUNT(*) > 900 THEN 'many' ELSE 'few' END AS "count" FROM "orders" GROUP BY "orders"."region") AS "source" GROUP BY "source"."count" ORDER BY "source"."count" ASC;
SELECT FLOOR(("orders"."price" / 10.0)) * 10.0 AS "price", COUNT(*) AS "count" FROM "orders" GROUP BY FLOOR(("orders"."price" / 10.0)) * 10.0 ORDER BY FLOOR(("orders"."price" / 10.0)) * 10.0 ASC; -- keys
SELECT EXTRACT(month FROM "orders"."placed") AS "placed", AVG("orders"."price") AS "avg" FROM "orders" GROUP BY EXTRACT(month FROM "orders"."placed") ORDER BY EXTRACT(month FROM "orders"."placed") ASC;
SELECT "source"."region" AS "region", "source"."avg" AS "avg" FROM (SELECT "orders"."region" AS "region", AVG("orders"."qty") AS "avg" FROM "orders" GROUP BY "orders"."region") AS "source" WHERE "source"."avg" > 1 ORDER BY "source"."avg" DESC;
SELECT MAX("source"."count") AS "max", MIN("source"."count") AS "min" FROM (SELECT "orders"."store_id" AS "store_id", COUNT(*) AS "count" FROM "orders" GROUP BY "orders"."store_id") AS "source";
SELECT "orders"."region" AS "region", "orders"."member" AS "member", COUNT(*) AS "count" FROM "orders" WHERE ("orders"."channel" = 'web') OR ("orders"."channel" = 'shop') GROUP BY "orders"."region", "orders"."member" ORDER BY "orders"."region" ASC, "orders"."member" ASC;
SELECT "orders"."customer", "orders"."price" FROM "orders" LIMIT 2000; -- refused: rows
SELECT MAX("orders"."price") AS "max" FROM "orders"; -- refused: one row
SELECT DATE_TRUNC('week', "orders"."day") AS "day", AVG("orders"."price") AS "avg" FROM "orders" WHERE "orders"."day" >= DATE '2024-01-01' GROUP BY DATE_TRUNC('week', "orders"."day") ORDER BY DATE_TRUNC('week', "orders"."day") ASC;
SELECT "source"."region" AS "region", "source"."count" AS "count", "source"."count" / SUM("source"."count") OVER () AS "share" FROM (SELECT "orders"."region" AS "region", COUNT(*) AS "count" FROM "orders" GROUP BY "orders"."region") AS "source" ORDER BY "source"."region";
SELECT CASE WHEN "orders"."price" >= 50 THEN 'high' WHEN "orders"."price" >= 20 THEN 'mid' ELSE 'low' END AS "band", COUNT(DISTINCT "orders"."customer") AS "people" FROM "orders" GROUP BY CASE WHEN "orders"."price" >= 50 THEN 'high' WHEN "orders"."price" >= 20 THEN 'mid' ELSE 'low' END ORDER BY "band" ASC;
SELECT "orders"."channel", SUM(CASE WHEN "orders"."returned" = TRUE THEN 1 ELSE 0.0 END) / CAST(COUNT(*) AS DOUBLE) AS "rate" FROM "orders" WHERE ("orders"."channel" IS NOT NULL) AND (("orders"."channel" <> '') OR ("orders"."channel" IS NULL)) GROUP BY "orders"."channel" ORDER BY "orders"."channel" ASC;
SELECT EXTRACT(ISODOW FROM "orders"."day") AS "dow", COUNT(*) AS "count" FROM "orders" GROUP BY EXTRACT(ISODOW FROM "orders"."day") ORDER BY "dow" ASC;
SELECT CAST(DATE_TRUNC('month', "orders"."placed") AS DATE) AS "m", COUNT(*) AS "count" FROM "orders" GROUP BY CAST(DATE_TRUNC('month', "orders"."placed") AS DATE) ORDER BY 1;
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "orders"."qty") AS "median" FROM "orders";
SELECT COUNT(*) AS "count" FROM "orders" WHERE LOWER("orders"."region") LIKE '%or%';
SELECT SUM("orders"."price" * "orders"."qty") AS "revenue", AVG("orders"."price" * "orders"."qty") AS "mean" FROM "orders";

-- == Superset
SELECT region AS region, COUNT(*) AS "COUNT(*)" FROM orders GROUP BY region ORDER BY "COUNT(*)" DESC LIMIT 1000;
SELECT DATE_TRUNC('MONTH', placed) AS __timestamp, SUM(price) AS "SUM(price)" FROM orders WHERE placed >= '2023-01-01 00:00:00' AND placed < '2025-01-01 00:00:00' GROUP BY DATE_TRUNC('MONTH', placed) ORDER BY __timestamp LIMIT 50000;
SELECT DATE_TRUNC('WEEK', placed) AS __timestamp, COUNT(*) AS count FROM orders WHERE placed >= TIMESTAMP '2024-01-01 00:00:00' AND placed < TIMESTAMP '2024-03-25 00:00:00' GROUP BY DATE_TRUNC('WEEK', placed) ORDER BY count DESC, __timestamp;
SELECT channel AS channel, region AS region, AVG(qty) AS "AVG(qty)" FROM orders WHERE channel IS NOT NULL GROUP BY channel, region ORDER BY channel, region LIMIT 10000;
SELECT count(*) AS rowcount FROM (SELECT region AS region, SUM(qty) AS total FROM orders GROUP BY region) AS rowcount_qry;
SELECT region, SUM(total) AS "SUM(total)" FROM (SELECT region, channel, SUM(qty) AS total FROM orders GROUP BY region, channel) AS virtual_table GROUP BY region ORDER BY "SUM(total)" DESC LIMIT 100;
SELECT DATE_TRUNC('month', __ts) AS __timestamp, SUM(n) AS "SUM(n)" FROM (SELECT DATE_TRUNC('day', placed) AS __ts, COUNT(*) AS n FROM orders GROUP BY 1) AS virtual_table GROUP BY 1 ORDER BY 1;
SELECT region, 100 * COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM orders GROUP BY region ORDER BY share DESC;
SELECT region, channel, n FROM (SELECT region, channel, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY region ORDER BY COUNT(*) DESC) AS r FROM orders GROUP BY region, channel) AS series WHERE r <= 2 ORDER BY region, n DESC;
SELECT COUNT(*) AS count FROM orders JOIN (SELECT region AS region__, COUNT(*) AS mme_inner__ FROM orders GROUP BY region ORDER BY mme_inner__ DESC LIMIT 2) AS series_limit ON region = region__;
SELECT COALESCE(channel, 'N/A') AS channel, COUNT(*) AS n FROM orders GROUP BY COALESCE(channel, 'N/A') ORDER BY n DESC;
SELECT SUM(CASE WHEN returned THEN 1 ELSE 0 END) * 100.0 / COUNT(*) AS "return rate" FROM orders;
SELECT member, SUM(price) / COUNT(DISTINCT customer) AS "spend per customer" FROM orders GROUP BY member ORDER BY member;
SELECT DATE_TRUNC('day', placed) AS __timestamp, COUNT(DISTINCT customer) AS dau FROM orders WHERE placed >= TO_DATE('2024-05-01', 'YYYY-MM-DD') AND placed < TO_DATE('2024-06-01', 'YYYY-MM-DD') GROUP BY 1 ORDER BY 1;
SELECT STRFTIME(placed, '%Y-%m') AS month, COUNT(*) AS n FROM orders GROUP BY month ORDER BY month;
SELECT region AS region FROM orders GROUP BY region ORDER BY region LIMIT 1000;
SELECT DISTINCT channel AS channel FROM orders ORDER BY channel LIMIT 1000;
SELECT min(day) AS mn, max(day) AS mx FROM orders; -- refused: one row
SELECT region AS region, sum(price) AS "SUM(price)" FROM orders WHERE day >= CAST('2024-01-01' AS DATE) AND day < CAST('2024-07-01' AS DATE) GROUP BY region ORDER BY "SUM(price)" DESC LIMIT 10000;
SELECT DATE_TRUNC('month', day) AS day, channel AS channel, COUNT(*) AS count FROM orders WHERE channel IN ('web', 'shop') GROUP BY DATE_TRUNC('month', day), channel ORDER BY count DESC, day, channel LIMIT 1000;
SELECT day AS __timestamp, avg(price) AS p FROM (SELECT day, price FROM orders WHERE member) AS virtual_table WHERE day >= '2024-12-01' GROUP BY day ORDER BY day;
SELECT region, COUNT(*) AS c, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM orders) AS pct FROM orders GROUP BY region ORDER BY c DESC;
SELECT SUM(qty)/COUNT(DISTINCT customer) AS per_head FROM orders;
SELECT CONCAT(region, ', ', channel) AS series, COUNT(*) AS n FROM orders WHERE channel = 'web' GROUP BY CONCAT(region, ', ', channel) ORDER BY n DESC;

-- == Grafana
SELECT TIME_BUCKET(INTERVAL '7 days', day) AS time, COUNT(*) AS value FROM orders WHERE day BETWEEN DATE '2024-01-01' AND DATE '2024-03-31' GROUP BY time ORDER BY time;
SELECT DATE_TRUNC('day', placed) AS "time", region AS metric, COUNT(*) AS value FROM orders WHERE placed >= TIMESTAMP '2024-01-01' AND placed < TIMESTAMP '2024-01-08' GROUP BY 1, 2 ORDER BY 1, 2; -- keys
SELECT EPOCH(DATE_TRUNC('month', placed)) AS time, AVG(price) AS value FROM orders GROUP BY 1 ORDER BY 1;
SELECT time, value - LAG(value) OVER (ORDER BY time) AS delta FROM (SELECT DATE_TRUNC('month', day) AS time, SUM(qty) AS value FROM orders GROUP BY 1) AS s ORDER BY time;
SELECT time, AVG(value) OVER (ORDER BY time ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS smooth FROM (SELECT DATE_TRUNC('month', day) AS time, COUNT(*) AS value FROM orders GROUP BY 1) AS s ORDER BY 1;
SELECT DATE_TRUNC('month', day) AS time, COUNT(*) FILTER (WHERE channel = 'web') AS web, COUNT(*) FILTER (WHERE channel = 'shop') AS shop FROM orders GROUP BY 1 ORDER BY 1;
SELECT HOUR(placed) AS hour, COUNT(*) AS value FROM orders GROUP BY hour ORDER BY hour;
SELECT region AS metric, QUANTILE_CONT(qty, 0.5) AS value FROM orders GROUP BY metric ORDER BY metric;
SELECT 'total' AS metric, COUNT(*) AS value FROM orders UNION ALL SELECT 'web' AS metric, COUNT(*) AS value FROM orders WHERE channel = 'web';
SELECT time, value, value > 1.2 * AVG(value) OVER () AS alert FROM (SELECT DATE_TRUNC('month', day) AS time, COUNT(*) AS value FROM orders GROUP BY 1) t ORDER BY time;
SELECT DATE_TRUNC('month', day) AS time, region AS metric, 1.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY DATE_TRUNC('month', day)) AS value FROM orders GROUP BY 1, 2 ORDER BY 1, 2;
SELECT COUNT(*) / 24.0 AS "per month" FROM orders;
SELECT DATE_TRUNC('month', day) AS time, STDDEV(qty) AS value FROM orders WHERE day < DATE '2023-07-01' GROUP BY 1 ORDER BY 1;
SELECT TIME_BUCKET(INTERVAL '1 week', placed) AS time, COUNT(*) AS n FROM orders WHERE placed BETWEEN '2024-01-01' AND '2024-03-01' GROUP BY time ORDER BY time;
SELECT EXTRACT(EPOCH FROM DATE_TRUNC('day', placed)) AS time, COUNT(*) AS n FROM orders WHERE placed < '2023-01-10' GROUP BY 1 ORDER BY 1;
SELECT time, n - LAG(n) OVER (ORDER BY time) AS delta FROM (SELECT DATE_TRUNC('month', placed) AS time, COUNT(*) AS n FROM orders GROUP BY 1) q ORDER BY time;
SELECT FLOOR(EXTRACT(EPOCH FROM placed) / 3600) * 3600 AS time, SUM(qty) AS n FROM orders WHERE placed >= '2024-01-01' AND placed < '2024-01-02' GROUP BY 1 ORDER BY 1; -- keys

-- == Tableau
SELECT "orders"."region" AS "region", SUM("orders"."price") AS "sum:price:ok" FROM "orders" GROUP BY 1;
SELECT "orders"."channel" AS "channel", SUM(1) AS "sum:Number of Records:ok" FROM "orders" GROUP BY 1;
SELECT SUM(CAST(1 AS BIGINT)) AS "cnt:orders:ok" FROM "orders";
SELECT EXTRACT(YEAR FROM "orders"."day") AS "yr:day:ok", EXTRACT(QUARTER FROM "orders"."day") AS "qr:day:ok", SUM("orders"."qty") AS "sum:qty:ok" FROM "orders" GROUP BY 1, 2 ORDER BY 1, 2;
SELECT "orders"."region" AS "region", COUNT(DISTINCT "orders"."customer") AS "ctd:customer:ok" FROM "orders" GROUP BY 1 HAVING COUNT(DISTINCT "orders"."customer") > 10;
SELECT "t0"."region" AS "region", "t0"."x" / "t1"."x" AS "TEMP(ratio)" FROM (SELECT "orders"."region" AS "region", SUM("orders"."price") AS "x" FROM "orders" GROUP BY 1) "t0" CROSS JOIN (SELECT SUM("orders"."price") AS "x" FROM "orders") "t1";
SELECT "orders"."region" AS "region", "t0"."n" AS "n" FROM "orders" INNER JOIN (SELECT "orders"."region" AS "region", COUNT(1) AS "n" FROM "orders" GROUP BY 1) "t0" ON "orders"."region" = "t0"."region" GROUP BY 1, 2;
SELECT CASE WHEN "orders"."price" < 25 THEN 'low' WHEN "orders"."price" < 75 THEN 'middle' ELSE 'high' END AS "band", AVG("orders"."qty") AS "avg:qty:ok" FROM "orders" GROUP BY 1 ORDER BY 1;
SELECT "orders"."member" AS "member", AVG(CAST("orders"."qty" AS DOUBLE)) AS "avg:qty:ok" FROM "orders" GROUP BY 1;
SELECT "region", "n", RANK() OVER (ORDER BY "n" DESC) AS "rank" FROM (SELECT "orders"."region" AS "region", COUNT(1) AS "n" FROM "orders" GROUP BY 1) "t" ORDER BY "rank";
SELECT "orders"."region" AS "region", SUM("orders"."price") AS "sum:price:ok", SUM(SUM("orders"."price")) OVER (ORDER BY SUM("orders"."price") DESC) AS "running" FROM "orders" GROUP BY 1 ORDER BY 2 DESC;
SELECT ((EXTRACT(YEAR FROM "orders"."day") * 100) + EXTRACT(MONTH FROM "orders"."day")) AS "my:day:ok", COUNT(1) AS "n" FROM "orders" GROUP BY 1 ORDER BY 1;
SELECT "orders"."region" AS "region", MIN("orders"."day") AS "first" FROM "orders" GROUP BY 1; -- refused: one row
SELECT SUM("orders"."price") AS "sum", AVG("orders"."price") AS "avg", COUNT("orders"."rating") AS "cnt" FROM "orders" HAVING COUNT(1) > 0;
SELECT SUM(1) AS "Number of Records", "orders"."region" AS "region" FROM "orders" WHERE (NOT ("orders"."channel" IS NULL)) GROUP BY 2;
SELECT "orders"."region" AS "region", SUM(CAST("orders"."qty" AS DOUBLE)) AS "sum:qty:ok", AVG(CAST("orders"."price" AS DOUBLE)) AS "avg:price:ok" FROM "orders" GROUP BY 1;
SELECT CAST(DATE_TRUNC('QUARTER', CAST("orders"."day" AS DATE)) AS DATE) AS "tqr:day:ok", COUNT(DISTINCT "orders"."customer") AS "ctd:customer:ok" FROM "orders" GROUP BY 1;
SELECT (CASE WHEN ("orders"."qty" > 5) THEN 'Large' ELSE 'Small' END) AS "size", COUNT("orders"."qty") AS "cnt" FROM "orders" GROUP BY 1 HAVING (COUNT(1) > 0);
SELECT "orders"."store_id" AS "store_id", SUM("orders"."price") AS "s" FROM "orders" WHERE ("orders"."store_id" IN (1, 2, 3)) GROUP BY 1 ORDER BY 2 DESC;
SELECT YEAR("orders"."day") AS "yr", MONTH("orders"."day") AS "mn", SUM("orders"."price") AS "s" FROM "orders" GROUP BY 1, 2 ORDER BY 1, 2;

-- == Looker
SELECT orders.region AS "orders.region", COUNT(*) AS "orders.count" FROM orders AS orders GROUP BY 1 ORDER BY 2 DESC LIMIT 500;
SELECT DATE_TRUNC('month', orders.placed) AS "orders.placed_month", COALESCE(SUM(orders.price), 0) AS "orders.total" FROM orders AS orders GROUP BY 1 ORDER BY 1 DESC LIMIT 500;
SELECT DATE_FORMAT(orders.day, '%Y-%m') AS "orders.month", COUNT(*) AS "orders.count" FROM orders GROUP BY 1 ORDER BY 1; -- refused: DATE_FORMAT
SELECT orders.channel AS "orders.channel", COUNT(DISTINCT CASE WHEN orders.returned THEN orders.customer ELSE NULL END) AS "orders.returners" FROM orders AS orders GROUP BY 1 ORDER BY 1 LIMIT 500;
SELECT * FROM (SELECT *, DENSE_RANK() OVER (ORDER BY z___min_rank) AS z___pivot_row_rank FROM (SELECT *, MIN(z___rank) OVER (PARTITION BY "orders.region") AS z___min_rank FROM (SELECT *, RANK() OVER (ORDER BY "orders.count" DESC) AS z___rank FROM (SELECT orders.region AS "orders.region", orders.member AS "orders.member", COUNT(*) AS "orders.count" FROM orders GROUP BY 1, 2) ww) aa) xx) zz WHERE z___pivot_row_rank <= 500 ORDER BY z___pivot_row_rank, "orders.member";
WITH monthly AS (SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS orders_count FROM orders GROUP BY 1) SELECT monthly.month AS "monthly.month", AVG(monthly.orders_count) AS "monthly.average" FROM monthly GROUP BY 1 ORDER BY 1;
WITH region_facts AS (SELECT region, SUM(price) AS revenue FROM orders GROUP BY 1) SELECT CASE WHEN region_facts.revenue > 40000 THEN 'large' ELSE 'small' END AS tier, COUNT(*) AS "count", SUM(region_facts.revenue) AS "total" FROM region_facts GROUP BY 1 ORDER BY 1;
SELECT CASE WHEN orders.member THEN 'Yes' ELSE 'No' END AS "orders.is_member", AVG(orders.price) AS "orders.average_price" FROM orders GROUP BY 1 ORDER BY 1;
SELECT stores.country AS "stores.country", COUNT(*) AS "orders.count" FROM orders LEFT JOIN stores ON orders.store_id = stores.store_id GROUP BY 1 ORDER BY 1; -- keys
SELECT 1.0 * COUNT(CASE WHEN returned THEN 1 END) / NULLIF(COUNT(*), 0) AS "orders.return_rate" FROM orders LIMIT 500;
SELECT orders.region AS "orders.region", COALESCE(COALESCE(CAST((SUM(DISTINCT orders.qty)) AS DOUBLE), 0), 0) AS "orders.distinct_qty" FROM orders GROUP BY 1 ORDER BY 1;
SELECT DAYNAME(orders.day) AS "orders.day_of_week", COUNT(*) AS "orders.count" FROM orders GROUP BY 1 ORDER BY 2 DESC, 1;
SELECT orders.region AS "orders.region", COUNT(*) AS "orders.count" FROM orders WHERE (orders.day >= DATE '2024-01-01' AND orders.day < (DATE '2024-01-01' + INTERVAL '6 months')) GROUP BY 1 HAVING COUNT(*) > 5 ORDER BY 1;
SELECT COUNT(*) AS "orders.count", COUNT(DISTINCT orders.region) AS "orders.regions" FROM orders;
SELECT orders.region AS "orders.region", COALESCE(SUM(orders.price), 0) AS "orders.total", COUNT(DISTINCT orders.customer) AS "orders.people" FROM orders GROUP BY 1 ORDER BY 2 DESC LIMIT 500;
SELECT STRFTIME(orders.day, '%Y-%m') AS "orders.month", SUM(orders.price) AS s FROM orders WHERE ((orders.day >= DATE '2024-01-01' AND orders.day < DATE '2024-04-01')) GROUP BY 1 ORDER BY 1 DESC;
SELECT CASE WHEN orders.member THEN 'Yes' ELSE 'No' END AS "orders.member", COUNT(*) AS "orders.count" FROM orders GROUP BY 1 ORDER BY 2 DESC;
SELECT stores.city AS "stores.city", AVG(orders.price) AS "a" FROM orders LEFT JOIN stores ON orders.store_id = stores.store_id WHERE (stores.country = 'NL') GROUP BY 1 ORDER BY 1;

-- == Power BI
SELECT TOP (1000001) [t0].[region], COUNT_BIG(*) AS [a0] FROM [orders] AS [t0] GROUP BY [t0].[region];
SELECT TOP 3 [region], COUNT(*) AS [n] FROM [orders] GROUP BY [region] ORDER BY [n] DESC;
SELECT TOP (1000001) * FROM (SELECT [t0].[region] AS [c0], SUM([t0].[price]) AS [a0] FROM [orders] AS [t0] GROUP BY [t0].[region]) AS [MainTable] WHERE NOT ([a0] IS NULL);
SELECT TOP (501) [c0], [a0] FROM (SELECT [channel] AS [c0], AVG([price]) AS [a0] FROM [orders] GROUP BY [channel]) AS [t] ORDER BY [a0] DESC;
SELECT [t0].[region] AS [r], SUM(CASE WHEN [t0].[member] = 1 THEN 1 ELSE 0 END) AS [members] FROM [orders] AS [t0] GROUP BY [t0].[region] ORDER BY [r];
SELECT [t1].[city] AS [c4], SUM([t0].[price]) AS [a0] FROM ([orders] AS [t0] LEFT JOIN [stores] AS [t1] ON ([t0].[store_id] = [t1].[store_id])) GROUP BY [t1].[city]; -- keys
SELECT TOP 2 [region], SUM([price]) AS [total], RANK() OVER (ORDER BY SUM([price]) DESC) AS [place] FROM [orders] GROUP BY [region] ORDER BY [place];
SELECT [region], [n], [n] * 1.0 / SUM([n]) OVER () AS [part] FROM (SELECT [region], COUNT(*) AS [n] FROM [orders] GROUP BY [region]) AS [t] ORDER BY [region];
SELECT YEAR([day]) AS [y], MONTH([day]) AS [m], SUM([qty]) AS [total] FROM [orders] GROUP BY YEAR([day]), MONTH([day]) ORDER BY [y], [m];
SELECT [basetable0].[c0] AS [c0], MAX([basetable0].[a0]) AS [m] FROM (SELECT [member] AS [c0], [region] AS [c1], COUNT(*) AS [a0] FROM [orders] GROUP BY [member], [region]) AS [basetable0] GROUP BY [basetable0].[c0];
SELECT ISNULL([channel], 'none') AS [c], COUNT(*) AS [n] FROM [orders] GROUP BY ISNULL([channel], 'none');
SELECT COUNT(DISTINCT [customer]) AS [a0] FROM [orders] WHERE [region] IN ('north', 'south');
SELECT TOP 3 [region], COUNT_BIG(*) AS [a0] FROM [orders] GROUP BY [region] ORDER BY [a0] DESC, [region];
SELECT SUM([price]) AS [a0], COUNT(DISTINCT [customer]) AS [a1] FROM [orders] WHERE [region] = N'north';
SELECT [region], SUM(CAST([qty] AS BIGINT)) AS [a0] FROM [orders] WHERE [member] = 1 GROUP BY [region];
SELECT YEAR([day]) AS [y], SUM([price]) AS [a0] FROM [orders] GROUP BY YEAR([day]);

-- == dbt metrics
SELECT region, SUM(price) AS revenue FROM orders GROUP BY region;
WITH source AS (SELECT * FROM orders), filtered AS (SELECT * FROM source WHERE NOT returned), final AS (SELECT region, SUM(price) AS net FROM filtered GROUP BY region) SELECT * FROM final ORDER BY region;
WITH by_month AS (SELECT DATE_TRUNC('month', day) AS month, SUM(price) AS revenue FROM orders GROUP BY 1), with_lag AS (SELECT month, revenue, LAG(revenue) OVER (ORDER BY month) AS before FROM by_month) SELECT month, revenue, (revenue - before) / before AS growth FROM with_lag ORDER BY month;
WITH a AS (SELECT DATE_TRUNC('month', day) AS date_month, COUNT(*) AS orders FROM orders GROUP BY 1), b AS (SELECT DATE_TRUNC('month', day) AS date_month, COUNT(DISTINCT customer) AS customers FROM orders GROUP BY 1) SELECT a.date_month, a.orders, b.customers, a.orders * 1.0 / b.customers AS frequency FROM a LEFT JOIN b USING (date_month) ORDER BY a.date_month;
WITH daily AS (SELECT day AS date_day, COUNT(*) AS n FROM orders WHERE day BETWEEN DATE '2024-02-01' AND DATE '2024-02-29' GROUP BY day) SELECT date_day, n, SUM(n) OVER (ORDER BY date_day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS n_7d FROM daily ORDER BY date_day;
WITH cumulative AS (SELECT DATE_TRUNC('month', day) AS month, SUM(SUM(price)) OVER (PARTITION BY YEAR(DATE_TRUNC('month', day)) ORDER BY DATE_TRUNC('month', day)) AS ytd FROM orders GROUP BY 1) SELECT month, ytd FROM cumulative ORDER BY month;
SELECT metric_time, region, revenue, revenue / NULLIF(orders, 0) AS average_order_value FROM (SELECT DATE_TRUNC('quarter', day) AS metric_time, region, SUM(price) AS revenue, COUNT(*) AS orders FROM orders GROUP BY 1, 2) AS subq ORDER BY metric_time, region;
SELECT COALESCE(subq_a.region, subq_b.region) AS region, subq_a.n AS n, subq_b.members AS members FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) subq_a FULL OUTER JOIN (SELECT region, COUNT(*) AS members FROM orders WHERE member GROUP BY region) subq_b ON subq_a.region = subq_b.region ORDER BY region;
WITH base AS (SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel) SELECT channel, n, ROUND(100.0 * n / SUM(n) OVER (), 2) AS pct FROM base ORDER BY pct DESC;
WITH cur AS (SELECT MONTH(day) AS m, COUNT(*) AS n FROM orders WHERE YEAR(day) = 2024 GROUP BY 1), prev AS (SELECT MONTH(day) AS m, COUNT(*) AS n FROM orders WHERE YEAR(day) = 2023 GROUP BY 1) SELECT cur.m, cur.n, prev.n AS n_last_year, cur.n - prev.n AS change FROM cur JOIN prev ON cur.m = prev.m ORDER BY cur.m;
WITH orders_by_store AS (SELECT store_id, COUNT(*) AS n FROM orders GROUP BY store_id) SELECT s.city, o.n FROM orders_by_store o JOIN stores s ON s.store_id = o.store_id ORDER BY s.city;
WITH final AS (SELECT region, AVG(rating) AS average_rating, COUNT(rating) AS ratings FROM orders GROUP BY region) SELECT region, average_rating FROM final WHERE ratings > 100 ORDER BY average_rating DESC, region;
SELECT DATE_TRUNC('month', day) AS metric_time__month, COUNT(DISTINCT customer) AS active FROM orders WHERE channel = 'web' GROUP BY metric_time__month ORDER BY metric_time__month;
WITH x AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY ALL) SELECT MAX(n) - MIN(n) AS gap FROM x;
WITH renamed AS (SELECT region AS territory, qty AS units FROM orders), grouped AS (SELECT territory, SUM(units) AS units FROM renamed GROUP BY territory) SELECT territory, units FROM grouped ORDER BY units DESC;
WITH base AS (SELECT * FROM orders WHERE NOT returned), agg AS (SELECT DATE_TRUNC('month', day) AS month, SUM(price) AS revenue, COUNT(DISTINCT customer) AS buyers FROM base GROUP BY 1) SELECT month, revenue, buyers, revenue / NULLIF(buyers, 0) AS arpu, SUM(revenue) OVER (ORDER BY month ROWS UNBOUNDED PRECEDING) AS ytd FROM agg ORDER BY month;
WITH m AS (SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM orders GROUP BY 1) SELECT month, n, AVG(n) OVER (ORDER BY month ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS ma FROM m ORDER BY month;
WITH cur AS (SELECT region, COUNT(*) AS n FROM orders WHERE YEAR(day) = 2024 GROUP BY region), prev AS (SELECT region, COUNT(*) AS n FROM orders WHERE YEAR(day) = 2023 GROUP BY region) SELECT cur.region, cur.n, prev.n AS before, (cur.n - prev.n) * 1.0 / prev.n AS growth FROM cur LEFT JOIN prev USING (region) ORDER BY 1;
SELECT region, CASE WHEN COUNT(*) >= 600 THEN 'big' ELSE 'small' END AS size FROM orders GROUP BY region ORDER BY region;

-- == Names without AS
SELECT COUNT(*) FROM orders;
SELECT SUM(qty) FROM orders;
SELECT COUNT(*), SUM(qty), AVG(price) FROM orders;
SELECT region, COUNT(*) FROM orders GROUP BY region;
SELECT COUNT(*), region FROM orders GROUP BY region;
SELECT SUM(price), AVG(qty), region FROM orders GROUP BY region ORDER BY region;
SELECT COUNT(DISTINCT customer) FROM orders;
SELECT COUNT(rating), COUNT(*) FROM orders;
SELECT AVG(qty) + 1 FROM orders;
SELECT SUM(price) / COUNT(*) FROM orders;
SELECT ROUND(AVG(price), 1) FROM orders;
SELECT COUNT(*) FILTER (WHERE member) FROM orders;
SELECT SUM(CASE WHEN member THEN qty ELSE 0 END) FROM orders;
SELECT count(*) FROM orders WHERE qty > 5;
SELECT Count(*), Sum(Qty) FROM Orders;
SELECT UPPER(region), COUNT(*) FROM orders GROUP BY region;
SELECT YEAR(day), COUNT(*) FROM orders GROUP BY YEAR(day) ORDER BY 1;
SELECT DATE_TRUNC('year', day), SUM(qty) FROM orders GROUP BY 1 ORDER BY 1;
SELECT qty % 2, COUNT(*) FROM orders GROUP BY qty % 2 ORDER BY 1;
SELECT STDDEV(qty), VAR_POP(qty) FROM orders;
SELECT region, RANK() OVER (ORDER BY COUNT(*) DESC) FROM orders GROUP BY region;
SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY region) t;
SELECT CASE WHEN COUNT(*) > 10 THEN 'a' ELSE 'b' END FROM orders;
SELECT (SELECT COUNT(*) FROM orders WHERE member), (SELECT COUNT(*) FROM orders WHERE NOT member);
SELECT CAST(COUNT(*) AS DOUBLE) FROM orders;
SELECT -COUNT(*) FROM orders;
SELECT COUNT(*) * 100.0 / 7 FROM orders;
SELECT "region", "member", COUNT(*) FROM "orders" GROUP BY 1, 2 ORDER BY 1, 2;
SELECT CORR(qty, price) FROM orders;
SELECT CASE WHEN qty > 5 THEN 'big' ELSE 'small' END, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1;

-- == Spellings and aliases
SELECT region AS k, COUNT(*) AS n FROM orders GROUP BY REGION;
SELECT Region AS k, COUNT(*) AS n FROM orders GROUP BY region ORDER BY K;
SELECT region AS REGION, COUNT(*) AS N FROM orders GROUP BY region;
SELECT REGION, COUNT(*) FROM orders GROUP BY region;
SELECT orders.region AS k, COUNT(*) AS n FROM orders GROUP BY region ORDER BY k;
SELECT region AS k, COUNT(*) AS n FROM orders AS o GROUP BY o.region ORDER BY k DESC;
SELECT o.region, COUNT(*) AS n FROM orders o GROUP BY o.region ORDER BY o.region;
SELECT COUNT(*) FROM orders GROUP BY region ORDER BY region;
SELECT COUNT(*) AS n FROM orders GROUP BY region;
SELECT SUM(qty) AS s, AVG(qty) AS a FROM orders GROUP BY region, member ORDER BY region, member;
SELECT member, COUNT(*) AS n FROM orders GROUP BY region, member ORDER BY region, member;
SELECT s FROM (SELECT region, SUM(qty) AS s FROM orders GROUP BY region) t ORDER BY s;
SELECT n, region FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ORDER BY region DESC;
SELECT COUNT(*) AS "Number of orders", region AS "Where" FROM orders GROUP BY "Where" ORDER BY "Number of orders" DESC;
SELECT region AS region, channel AS Channel, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY ALL;
SELECT UPPER(region) AS region, COUNT(*) AS n FROM orders GROUP BY orders.region ORDER BY region;
SELECT YEAR(day) AS day, COUNT(*) AS n FROM orders GROUP BY YEAR(day) ORDER BY YEAR(day);
SELECT qty AS q, qty * 2 AS doubled, COUNT(*) AS n FROM orders GROUP BY qty ORDER BY qty;
SELECT region, region AS again, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region;
SELECT COUNT(*) AS n, COUNT(*) AS m FROM orders;
SELECT region r, COUNT(*) n FROM orders GROUP BY r HAVING n > 10 ORDER BY n DESC, r;
SELECT t.r AS place, t.n FROM (SELECT region AS r, COUNT(*) AS n FROM orders GROUP BY R) AS t ORDER BY t.r;

-- == Order of rows
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY 2;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY COUNT(*) DESC LIMIT 2;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n LIMIT 1 OFFSET 1;
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY channel NULLS FIRST;
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY channel NULLS LAST;
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY channel DESC NULLS FIRST;
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel ORDER BY channel DESC;
SELECT channel, AVG(price) AS a FROM orders GROUP BY channel ORDER BY a NULLS FIRST;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY LENGTH(region), region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY CASE WHEN region = 'west' THEN 0 ELSE 1 END, region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY AVG(price) DESC;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n / 2 DESC FETCH FIRST 2 ROWS ONLY;
SELECT qty, COUNT(*) AS n FROM orders GROUP BY qty ORDER BY qty DESC LIMIT 3;
SELECT region, member, COUNT(*) AS n FROM orders GROUP BY region, member ORDER BY member DESC, region ASC;
SELECT day, COUNT(*) AS n FROM orders WHERE day BETWEEN DATE '2024-03-01' AND DATE '2024-03-10' GROUP BY day ORDER BY day DESC;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY -n;
SELECT LOWER(region) AS r, SUM(price) AS s FROM orders GROUP BY region ORDER BY s DESC LIMIT 3;
SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC LIMIT 2) t ORDER BY region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region COLLATE NOCASE;
SELECT TOP 2 region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n;

-- == Windows
SELECT region, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM orders GROUP BY region ORDER BY region;
SELECT region, channel, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY region) AS pct FROM orders GROUP BY region, channel ORDER BY region, channel;
SELECT MONTH(day) AS m, SUM(SUM(qty)) OVER (ORDER BY MONTH(day)) AS running FROM orders GROUP BY MONTH(day) ORDER BY m;
SELECT MONTH(day) AS m, SUM(qty) AS s, LAG(SUM(qty)) OVER (ORDER BY MONTH(day)) AS before, LEAD(SUM(qty)) OVER (ORDER BY MONTH(day)) AS after FROM orders GROUP BY 1 ORDER BY 1;
SELECT region, DENSE_RANK() OVER (ORDER BY SUM(price) DESC) AS d, PERCENT_RANK() OVER (ORDER BY SUM(price)) AS p, CUME_DIST() OVER (ORDER BY SUM(price)) AS c FROM orders GROUP BY region ORDER BY region;
SELECT region, NTILE(2) OVER (ORDER BY AVG(price)) AS half FROM orders GROUP BY region ORDER BY region;
SELECT region, channel, ROW_NUMBER() OVER (PARTITION BY region ORDER BY COUNT(*) DESC) AS rn FROM orders GROUP BY region, channel ORDER BY region, rn;
SELECT region, COUNT(*) - AVG(COUNT(*)) OVER () AS apart FROM orders GROUP BY region ORDER BY apart;
SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n, FIRST_VALUE(COUNT(*)) OVER (ORDER BY DATE_TRUNC('month', day)) AS first, 100.0 * COUNT(*) / FIRST_VALUE(COUNT(*)) OVER (ORDER BY DATE_TRUNC('month', day)) AS indexed FROM orders GROUP BY 1 ORDER BY 1;
SELECT region, COUNT(*) AS n, MAX(COUNT(*)) OVER () - COUNT(*) AS behind FROM orders GROUP BY region ORDER BY region;
SELECT store_id, SUM(price) AS s, SUM(SUM(price)) OVER w AS running FROM orders GROUP BY store_id WINDOW w AS (ORDER BY store_id) ORDER BY store_id;
SELECT region, member, COUNT(*) AS n, SUM(COUNT(*)) OVER (PARTITION BY member) AS of_member FROM orders GROUP BY region, member ORDER BY region, member;
SELECT m, n, AVG(n) OVER (ORDER BY m RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM (SELECT MONTH(day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t ORDER BY m;
SELECT qty, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY qty DESC) AS at_least FROM orders GROUP BY qty ORDER BY qty;
SELECT qty, SUM(COUNT(*)) OVER (ORDER BY qty) * 1.0 / SUM(COUNT(*)) OVER () AS cdf FROM orders GROUP BY qty ORDER BY qty;
SELECT region, COUNT(*) AS n, RATIO FROM (SELECT region, COUNT(*) AS n, 1 AS ratio FROM orders GROUP BY region) t GROUP BY region, ratio;
SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*), 12) OVER (ORDER BY YEAR(day), MONTH(day)) AS yoy FROM orders GROUP BY 1, 2 ORDER BY 1, 2;
SELECT region, LAST_VALUE(n) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS most FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ORDER BY region;
SELECT region, NTH_VALUE(n, 2) OVER (ORDER BY n DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS second FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ORDER BY region;
SELECT region, qty - AVG(qty) OVER (PARTITION BY region) AS apart FROM orders; -- refused: OVER is of rows of single persons
SELECT customer, ROW_NUMBER() OVER (ORDER BY price) AS r FROM orders; -- refused: OVER is of rows of single persons

-- == Second aggregates
SELECT AVG(n) AS mean, MIN(n) AS least, MAX(n) AS most FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS t;
SELECT MEDIAN(n) AS middle FROM (SELECT store_id, COUNT(*) AS n FROM orders GROUP BY store_id) t;
SELECT COUNT(*) AS big FROM (SELECT store_id, SUM(price) AS s FROM orders GROUP BY store_id HAVING SUM(price) > 10000) t;
SELECT SUM(s) AS total FROM (SELECT region, SUM(qty) AS s FROM orders GROUP BY region) t WHERE region <> 'west';
SELECT STDDEV_SAMP(n) AS sd, VAR_POP(n) AS v FROM (SELECT qty, COUNT(*) AS n FROM orders GROUP BY qty) t;
SELECT y, AVG(n) AS monthly FROM (SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(*) AS n FROM orders GROUP BY 1, 2) t GROUP BY y ORDER BY y;
SELECT region, MAX(n) AS best FROM (SELECT region, channel, COUNT(*) AS n FROM orders GROUP BY region, channel) t GROUP BY region ORDER BY region;
SELECT QUANTILE_CONT(n, 0.75) AS q FROM (SELECT MONTH(day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t;
SELECT ARG_MAX(region, n) AS top FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t;
SELECT region, SUM(n) FILTER (WHERE member) AS members, SUM(n) AS everyone FROM (SELECT region, member, COUNT(*) AS n FROM orders GROUP BY region, member) t GROUP BY region ORDER BY region;
SELECT SUM(n * qty) * 1.0 / SUM(n) AS weighted FROM (SELECT qty, COUNT(*) AS n FROM orders GROUP BY qty) t;
SELECT COUNT(DISTINCT size) AS sizes FROM (SELECT region, CASE WHEN COUNT(*) > 900 THEN 'l' ELSE 's' END AS size FROM orders GROUP BY region) t;
SELECT AVG(r) AS mean_rate FROM (SELECT region, SUM(CASE WHEN returned THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS r FROM orders GROUP BY region) t;
SELECT STRING_AGG(region, ', ' ORDER BY n DESC) AS ranking FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t;
SELECT COUNT(*) AS months_above FROM (SELECT MONTH(day) AS m, COUNT(*) AS n, AVG(COUNT(*)) OVER () AS a FROM orders GROUP BY 1) t WHERE n > a;
SELECT CORR(n, m) AS trend FROM (SELECT MONTH(day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t;
SELECT REGR_SLOPE(n, m) AS slope FROM (SELECT MONTH(day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t;
SELECT BOOL_AND(n > 10) AS each_is_big FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t;
SELECT SUM(p * LN(p)) * -1 AS entropy FROM (SELECT region, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS p FROM orders GROUP BY region) t;
SELECT SUM(p * p) AS herfindahl FROM (SELECT store_id, SUM(price) / SUM(SUM(price)) OVER () AS p FROM orders GROUP BY store_id) t;

-- == WITH chains and joins of answers
WITH n AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region), s AS (SELECT region, SUM(price) AS s FROM orders GROUP BY region) SELECT n.region, n.n, s.s FROM n JOIN s ON n.region = s.region ORDER BY n.region;
WITH n AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region), t AS (SELECT SUM(n) AS total FROM n) SELECT region, n * 100.0 / total AS pct FROM n, t ORDER BY region;
WITH a AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region), b AS (SELECT region, n, RANK() OVER (ORDER BY n DESC) AS r FROM a) SELECT region FROM b WHERE r = 1;
WITH web AS (SELECT * FROM orders WHERE channel = 'web') SELECT region, COUNT(*) AS n FROM web GROUP BY region ORDER BY region;
WITH a AS (SELECT region, AVG(price) AS p FROM orders WHERE member GROUP BY region), b AS (SELECT region, AVG(price) AS p FROM orders WHERE NOT member GROUP BY region) SELECT a.region, a.p - b.p AS premium FROM a JOIN b USING (region) ORDER BY premium DESC;
WITH t AS (SELECT YEAR(day) AS y, COUNT(*) AS n FROM orders GROUP BY 1) SELECT now.y, now.n - past.n AS more FROM t now JOIN t past ON now.y = past.y + 1;
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT a.region AS one, b.region AS two, a.n - b.n AS gap FROM t a JOIN t b ON a.region < b.region ORDER BY 1, 2;
WITH o AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region), l AS (SELECT device, COUNT(*) AS n FROM logins GROUP BY device) SELECT * FROM o;
WITH r(region, n) AS (SELECT region, COUNT(*) FROM orders GROUP BY region) SELECT r.region, r.n FROM r ORDER BY r.n DESC LIMIT 1;
WITH m AS (SELECT DATE_TRUNC('month', day) AS month, region, SUM(price) AS s FROM orders GROUP BY 1, 2), best AS (SELECT month, MAX(s) AS s FROM m GROUP BY month) SELECT m.month, m.region FROM m JOIN best ON m.month = best.month AND m.s = best.s ORDER BY m.month;
WITH t AS (SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel) SELECT COALESCE(channel, 'unknown') AS channel, n FROM t ORDER BY n DESC;
WITH t AS (SELECT region, member, COUNT(*) AS n FROM orders GROUP BY region, member) SELECT a.region, a.n AS yes, b.n AS no FROM t a JOIN t b ON a.region = b.region WHERE a.member AND NOT b.member ORDER BY a.region;
WITH q AS (SELECT QUARTER(day) AS q, SUM(price) AS s FROM orders WHERE YEAR(day) = 2024 GROUP BY 1) SELECT q, s, s / FIRST_VALUE(s) OVER (ORDER BY q) - 1 AS since_first FROM q ORDER BY q;
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT * FROM t WHERE n = (SELECT MAX(n) FROM t);
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT region, n, n > (SELECT AVG(n) FROM t) AS above FROM t ORDER BY region;
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT region FROM t WHERE region IN (SELECT region FROM t WHERE n > 500) ORDER BY region;
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT t.region, t.n, v.label FROM t JOIN (VALUES ('north', 'N'), ('south', 'S')) AS v(region, label) ON t.region = v.region ORDER BY t.region;
WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT g.region, g.goal, t.n, t.n * 1.0 / g.goal AS reached FROM goals g LEFT JOIN t ON g.region = t.region ORDER BY g.region;

-- == UNION
SELECT region AS label, COUNT(*) AS n FROM orders GROUP BY region UNION ALL SELECT 'all', COUNT(*) FROM orders;
SELECT 'orders' AS what, COUNT(*) AS n FROM orders UNION ALL SELECT 'units', SUM(qty) FROM orders UNION ALL SELECT 'people', COUNT(DISTINCT customer) FROM orders;
(SELECT region AS label, COUNT(*) AS n FROM orders GROUP BY region) UNION ALL (SELECT channel, COUNT(*) FROM orders WHERE channel IS NOT NULL GROUP BY channel) ORDER BY label;
SELECT COUNT(*) AS n FROM orders WHERE member UNION SELECT COUNT(*) FROM orders WHERE NOT member ORDER BY n;
SELECT region FROM orders GROUP BY region HAVING COUNT(*) > 100 INTERSECT SELECT region FROM orders WHERE returned GROUP BY region HAVING COUNT(*) > 10;
SELECT region FROM orders GROUP BY region EXCEPT SELECT region FROM orders GROUP BY region HAVING COUNT(*) < 1000;
SELECT * FROM (SELECT 'web' AS c, COUNT(*) AS n FROM orders WHERE channel = 'web' UNION ALL SELECT 'shop', COUNT(*) FROM orders WHERE channel = 'shop') u ORDER BY n DESC;
SELECT 'orders' AS t, COUNT(*) AS n FROM orders UNION ALL SELECT 'logins', COUNT(*) FROM logins;
SELECT 1 AS step, 'all' AS name, COUNT(*) AS n FROM orders UNION ALL SELECT 2, 'member', COUNT(*) FROM orders WHERE member UNION ALL SELECT 3, 'returned', COUNT(*) FROM orders WHERE member AND returned ORDER BY step;
SELECT region, NULL AS channel, COUNT(*) AS n FROM orders GROUP BY region UNION ALL SELECT NULL, channel, COUNT(*) FROM orders GROUP BY channel;

-- == Scalar sub-queries
SELECT (SELECT COUNT(*) FROM orders WHERE returned) * 1.0 / (SELECT COUNT(*) FROM orders) AS rate;
SELECT region, AVG(price) - (SELECT AVG(price) FROM orders) AS apart FROM orders GROUP BY region ORDER BY region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > (SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY region) t) ORDER BY region;
SELECT COUNT(*) AS n FROM orders WHERE price > (SELECT AVG(price) FROM orders);
SELECT region, SUM(price) / (SELECT SUM(price) FROM orders) AS share FROM orders GROUP BY region ORDER BY share DESC;
SELECT (SELECT AVG(price) FROM orders WHERE member) - (SELECT AVG(price) FROM orders WHERE NOT member) AS difference;
SELECT (SELECT COUNT(*) FROM orders) AS n, (SELECT SUM(qty) FROM orders) AS s, (SELECT COUNT(DISTINCT customer) FROM orders) AS c;
SELECT COUNT(*) AS n, COUNT(*) - (SELECT COUNT(*) FROM orders WHERE member) AS rest FROM orders;
SELECT CASE WHEN (SELECT AVG(price) FROM orders WHERE member) > (SELECT AVG(price) FROM orders) THEN 'members pay more' ELSE 'members pay less' END AS verdict;
SELECT COUNT(*) AS n FROM orders WHERE region = (SELECT MODE(region) FROM orders);

-- == CASE, text and numbers of answers
SELECT region, CASE WHEN COUNT(*) >= 1000 THEN 'large' WHEN COUNT(*) >= 500 THEN 'middle' ELSE 'small' END AS size FROM orders GROUP BY region ORDER BY region;
SELECT region || ': ' || COUNT(*) AS label FROM orders GROUP BY region ORDER BY region;
SELECT CONCAT(region, ' (', COUNT(*), ')') AS label FROM orders GROUP BY region ORDER BY label;
SELECT UPPER(LEFT(region, 1)) || SUBSTR(region, 2) AS r, COUNT(*) AS n FROM orders GROUP BY region ORDER BY r;
SELECT REPLACE(region, 'th', '') AS r, COUNT(*) AS n FROM orders GROUP BY region ORDER BY r;
SELECT LENGTH(region) AS l, COUNT(*) AS n FROM orders GROUP BY LENGTH(region) ORDER BY l;
SELECT LEFT(region, 1) AS initial, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT region, ROUND(AVG(price), 2) AS a, FLOOR(AVG(price)) AS f, CEIL(AVG(price)) AS c FROM orders GROUP BY region ORDER BY region;
SELECT region, GREATEST(COUNT(*), 1000) AS g, LEAST(COUNT(*), 1000) AS l FROM orders GROUP BY region ORDER BY region;
SELECT region, COALESCE(SUM(CASE WHEN returned THEN price END), 0) AS back FROM orders GROUP BY region ORDER BY region;
SELECT region, NULLIF(COUNT(*), 0) AS n FROM orders GROUP BY region ORDER BY region;
SELECT SQRT(COUNT(*)) AS s, LN(COUNT(*)) AS l, POWER(COUNT(*), 2) AS p, LOG10(COUNT(*)) AS t FROM orders;
SELECT region, FORMAT('{:.1f}%', 100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()) AS pct FROM orders GROUP BY region ORDER BY region;
SELECT region, COUNT(*) % 2 = 0 AS even FROM orders GROUP BY region ORDER BY region;
SELECT AVG(price) BETWEEN 10 AND 90 AS plausible FROM orders;
SELECT region, CASE region WHEN 'north' THEN 1 WHEN 'south' THEN 2 ELSE 3 END AS code, COUNT(*) AS n FROM orders GROUP BY region ORDER BY code, region;
SELECT IF(COUNT(*) > 100, 'yes', 'no') AS enough FROM orders;
SELECT region, CAST(AVG(price) AS INTEGER) AS whole FROM orders GROUP BY region ORDER BY region;
SELECT region, AVG(price)::DECIMAL(8, 1) AS a FROM orders GROUP BY region ORDER BY region;
SELECT region, CAST(COUNT(*) AS VARCHAR) AS n FROM orders GROUP BY region ORDER BY region;
SELECT region LIKE '%th' AS pole, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT CASE WHEN region IN ('north', 'south') THEN 'pole' ELSE 'side' END AS kind, COUNT(*) AS n, AVG(price) AS p FROM orders GROUP BY kind ORDER BY kind;
SELECT SIGN(COUNT(*) - 1000) AS s, ABS(COUNT(*) - 100000) AS a FROM orders;
SELECT MOD(COUNT(*), 10) AS digit FROM orders;
SELECT LPAD(region, 8, '.') AS r, COUNT(*) AS n FROM orders GROUP BY region; -- refused: PAD
SELECT REPEAT(region, 2) AS r, COUNT(*) AS n FROM orders GROUP BY region; -- refused: REPEAT

-- == DISTINCT
SELECT DISTINCT region FROM orders ORDER BY region;
SELECT DISTINCT region, member FROM orders ORDER BY region, member;
SELECT DISTINCT YEAR(day) AS y FROM orders ORDER BY y;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT region FROM orders) t;
SELECT DISTINCT size FROM (SELECT region, CASE WHEN COUNT(*) > 0 THEN 'some' ELSE 'none' END AS size FROM orders GROUP BY region) t;
SELECT DISTINCT COUNT(*) > 0 AS some FROM orders GROUP BY region;
SELECT DISTINCT ON (region) region, channel, n FROM (SELECT region, channel, COUNT(*) AS n FROM orders GROUP BY region, channel) t ORDER BY region, n DESC;
SELECT COUNT(DISTINCT channel) AS c, COUNT(DISTINCT store_id) AS s FROM orders;
SELECT region, COUNT(DISTINCT store_id) AS stores FROM orders GROUP BY region ORDER BY region;
SELECT STRING_AGG(DISTINCT region, ',' ORDER BY region) AS regions FROM orders;
SELECT ANY_VALUE(region) AS r FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC LIMIT 1) t;
SELECT region, ANY_VALUE(region) AS same, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region;
SELECT MAX(region) AS last, COUNT(*) AS n FROM orders GROUP BY region ORDER BY last;
SELECT region, MIN(member) AS m, COUNT(*) AS n FROM orders GROUP BY region, member ORDER BY region, m;

-- == QUALIFY
SELECT region, COUNT(*) AS n FROM orders GROUP BY region QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) = 1;
SELECT region, channel, COUNT(*) AS n FROM orders GROUP BY region, channel QUALIFY ROW_NUMBER() OVER (PARTITION BY region ORDER BY COUNT(*) DESC) = 1 ORDER BY region;
SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t QUALIFY n > AVG(n) OVER () ORDER BY region;
SELECT MONTH(day) AS m, SUM(price) AS s, RANK() OVER (ORDER BY SUM(price) DESC) AS r FROM orders GROUP BY 1 QUALIFY r <= 3 ORDER BY r;
WITH t AS (SELECT store_id, COUNT(*) AS n FROM orders GROUP BY store_id) SELECT * FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY n) <= 2 ORDER BY n, store_id;

-- == ROLLUP, CUBE and GROUPING SETS
SELECT region, COUNT(*) AS n FROM orders GROUP BY ROLLUP(region) ORDER BY region;
SELECT region, member, COUNT(*) AS n FROM orders GROUP BY ROLLUP(region, member) ORDER BY region, member;
SELECT region, member, SUM(qty) AS s FROM orders GROUP BY CUBE(region, member) ORDER BY region NULLS FIRST, member NULLS FIRST;
SELECT region, store_id, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((region), (store_id), ()) ORDER BY region, store_id;
SELECT COALESCE(region, 'all') AS region, COUNT(*) AS n FROM orders GROUP BY ROLLUP(region) ORDER BY n DESC;
SELECT region, GROUPING(region) AS whole, COUNT(*) AS n FROM orders GROUP BY ROLLUP(region) ORDER BY whole, region;
SELECT region, member, GROUPING_ID(region, member) AS g, COUNT(*) AS n FROM orders GROUP BY CUBE(region, member) ORDER BY g, region, member;
SELECT CASE WHEN GROUPING(region) = 1 THEN 'total' ELSE region END AS label, SUM(price) AS s FROM orders GROUP BY ROLLUP(region) ORDER BY label;
SELECT YEAR(day) AS y, QUARTER(day) AS q, SUM(qty) AS s FROM orders GROUP BY ROLLUP(YEAR(day), QUARTER(day)) ORDER BY y, q;
SELECT region, member, AVG(price) AS a FROM orders GROUP BY region, ROLLUP(member) ORDER BY region, member;
SELECT region, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS (region, ()) HAVING COUNT(*) > 10 ORDER BY n;

-- == PIVOT
SELECT region, SUM(CASE WHEN channel = 'web' THEN 1 ELSE 0 END) AS web, SUM(CASE WHEN channel = 'shop' THEN 1 ELSE 0 END) AS shop FROM orders GROUP BY region ORDER BY region;
PIVOT (SELECT region, channel, COUNT(*) AS n FROM orders GROUP BY region, channel) ON channel IN ('web', 'shop') USING SUM(n) ORDER BY region;
SELECT * FROM (SELECT region, member, COUNT(*) AS n FROM orders GROUP BY region, member) t PIVOT (SUM(n) FOR member IN (TRUE, FALSE)) ORDER BY region;
SELECT * FROM (SELECT region, channel, COUNT(*) AS n FROM orders GROUP BY region, channel) t PIVOT (SUM(n) FOR channel IN ('web', 'shop', 'phone')) AS p ORDER BY region;
WITH t AS (SELECT store_id, YEAR(day) AS y, SUM(price) AS s FROM orders GROUP BY 1, 2) SELECT * FROM t PIVOT (SUM(s) FOR y IN (2023, 2024)) ORDER BY store_id;
PIVOT orders ON channel IN ('web', 'shop') USING COUNT(*) GROUP BY region ORDER BY region;
SELECT region, name, value FROM (SELECT region, COUNT(*) AS n, SUM(qty) AS s FROM orders GROUP BY region) t UNPIVOT (value FOR name IN (n, s)) ORDER BY region, name;
PIVOT orders ON channel USING COUNT(*); -- refused: PIVOT

-- == Time series
SELECT YEAR(day) AS year, COUNT(*) AS n FROM orders GROUP BY year ORDER BY year;
SELECT DATE_TRUNC('quarter', day) AS q, SUM(price) AS revenue, COUNT(DISTINCT customer) AS customers FROM orders GROUP BY q ORDER BY q;
SELECT DATE_TRUNC('month', placed) AS m, COUNT(*) AS n FROM orders WHERE region = 'north' GROUP BY m ORDER BY m;
SELECT ISODOW(day) AS d, COUNT(*) AS n FROM orders GROUP BY d ORDER BY d;
SELECT DAYOFWEEK(day) AS d, HOUR(placed) // 6 AS part, COUNT(*) AS n FROM orders GROUP BY 1, 2 ORDER BY 1, 2;
SELECT MONTHNAME(day) AS name, MONTH(day) AS m, COUNT(*) AS n FROM orders GROUP BY 1, 2 ORDER BY m;
SELECT DATE_PART('year', day) AS y, DATE_PART('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY ALL;
SELECT STRFTIME(DATE_TRUNC('month', day), '%b %Y') AS label, COUNT(*) AS n FROM orders GROUP BY DATE_TRUNC('month', day) ORDER BY DATE_TRUNC('month', day);
SELECT m, m + INTERVAL '1 month' AS until, n FROM (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t ORDER BY m;
SELECT day - INTERVAL '1 day' AS eve, COUNT(*) AS n FROM orders WHERE day BETWEEN DATE '2024-06-01' AND DATE '2024-06-07' GROUP BY day ORDER BY day;
SELECT DATE_DIFF('month', DATE '2023-01-01', m) AS since, n FROM (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t ORDER BY since;
SELECT COUNT(*) FILTER (WHERE YEAR(day) = 2023) AS y2023, COUNT(*) FILTER (WHERE YEAR(day) = 2024) AS y2024 FROM orders;
SELECT MONTH(day) AS m, 100.0 * (COUNT(*) FILTER (WHERE YEAR(day) = 2024) - COUNT(*) FILTER (WHERE YEAR(day) = 2023)) / COUNT(*) FILTER (WHERE YEAR(day) = 2023) AS growth FROM orders GROUP BY m ORDER BY m;
SELECT CASE WHEN MONTH(day) IN (12, 1, 2) THEN 'winter' WHEN MONTH(day) <= 5 THEN 'spring' WHEN MONTH(day) <= 8 THEN 'summer' ELSE 'autumn' END AS season, SUM(price) AS s FROM orders GROUP BY season ORDER BY s DESC;
SELECT DATE_TRUNC('month', day)::DATE AS m, COUNT(*) AS n FROM orders GROUP BY DATE_TRUNC('month', day)::DATE ORDER BY m;
SELECT LAST_DAY(day) AS month_end, SUM(qty) AS s FROM orders GROUP BY LAST_DAY(day) ORDER BY month_end;
SELECT YEAR(day) * 100 + MONTH(day) AS period, COUNT(*) AS n FROM orders GROUP BY period ORDER BY period DESC LIMIT 6;
SELECT EXTRACT(week FROM day) AS w, COUNT(*) AS n FROM orders WHERE YEAR(day) = 2024 AND day < DATE '2024-12-25' GROUP BY w ORDER BY w;

-- == Cohorts and people
SELECT n, COUNT(*) AS people FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t GROUP BY n ORDER BY n; -- keys
SELECT AVG(n) AS mean FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t;
SELECT AVG(LEAST(n, 12)) AS mean FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t;
SELECT DATE_TRUNC('month', first) AS cohort, COUNT(*) AS people FROM (SELECT customer, MIN(day) AS first FROM orders GROUP BY customer) t GROUP BY 1 ORDER BY 1;
SELECT COUNT(DISTINCT customer) FILTER (WHERE YEAR(day) = 2023) AS old, COUNT(DISTINCT customer) FILTER (WHERE YEAR(day) = 2024) AS new FROM orders;
SELECT COUNT(*) AS both_years FROM (SELECT customer FROM orders GROUP BY customer HAVING COUNT(DISTINCT YEAR(day)) = 2) t;
SELECT SUM(CASE WHEN spent > 200 THEN 1 ELSE 0 END) AS heavy FROM (SELECT customer, SUM(LEAST(price, 100)) AS spent FROM orders GROUP BY customer) t;
SELECT member, AVG(LEAST(n, 12)) AS mean FROM (SELECT customer, ANY_VALUE(member) AS member, COUNT(*) AS n FROM orders GROUP BY customer) t GROUP BY member;
SELECT COUNT(DISTINCT customer) * 1.0 / COUNT(*) AS people_per_order FROM orders;
SELECT region, COUNT(DISTINCT customer) AS people, COUNT(*) * 1.0 / COUNT(DISTINCT customer) AS each FROM orders GROUP BY region ORDER BY region;
SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT customer FROM logins WHERE device = 'phone');
SELECT region, COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM logins l WHERE l.customer = o.customer AND l.minutes > 30) GROUP BY region ORDER BY region;
SELECT COUNT(*) AS n FROM orders WHERE customer NOT IN (SELECT customer FROM logins);
WITH m AS (SELECT MONTH(day) AS m, COUNT(DISTINCT customer) AS people FROM orders WHERE YEAR(day) = 2024 GROUP BY 1) SELECT m, people, people * 1.0 / FIRST_VALUE(people) OVER (ORDER BY m) AS kept FROM m ORDER BY m;
WITH f AS (SELECT customer, MIN(day) AS first FROM orders GROUP BY customer) SELECT DATE_DIFF('month', f.first, o.day) AS age, COUNT(*) AS n FROM orders o JOIN f ON o.customer = f.customer GROUP BY 1 ORDER BY 1; -- keys
SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer ORDER BY n DESC LIMIT 10; -- refused: customer names the privacy unit

-- == HAVING and FILTER
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > 900 ORDER BY region;
SELECT region FROM orders GROUP BY region HAVING AVG(price) > 10 ORDER BY region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING n BETWEEN 100 AND 100000 AND region <> 'east' ORDER BY region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING region LIKE '%th' ORDER BY region;
SELECT YEAR(day) AS y, COUNT(*) AS n FROM orders GROUP BY y HAVING YEAR(day) = 2024;
SELECT region, SUM(qty) AS s FROM orders GROUP BY region HAVING SUM(qty) > 2 * COUNT(*) ORDER BY region;
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel HAVING channel IS NOT NULL ORDER BY channel;
SELECT channel, COUNT(*) AS n FROM orders GROUP BY channel HAVING COALESCE(channel, 'x') <> 'web' ORDER BY n;
SELECT member, COUNT(*) AS n FROM orders GROUP BY member HAVING member;
SELECT region, AVG(price) FILTER (WHERE member) AS a, AVG(price) FILTER (WHERE NOT member) AS b FROM orders GROUP BY region ORDER BY region;
SELECT region, SUM(qty) FILTER (WHERE returned) * 1.0 / SUM(qty) AS share FROM orders GROUP BY region ORDER BY share;
SELECT COUNT(*) FILTER (WHERE qty >= 5) AS big, COUNT(*) FILTER (WHERE qty < 5) AS small FROM orders;
SELECT COUNT(*) AS n FROM orders HAVING COUNT(*) > 1;
SELECT region, COUNT_IF(returned) AS back FROM orders GROUP BY region ORDER BY region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING qty > 3; -- refused: qty

-- == Conditions
SELECT COUNT(*) AS n FROM orders WHERE region = 'north' AND (member OR returned);
SELECT COUNT(*) AS n FROM orders WHERE channel IS NULL;
SELECT COUNT(*) AS n FROM orders WHERE channel <> 'web';
SELECT COUNT(*) AS n FROM orders WHERE channel NOT IN ('web', 'shop');
SELECT COUNT(*) AS n FROM orders WHERE NOT (qty > 3 AND price < 50);
SELECT COUNT(*) AS n FROM orders WHERE price BETWEEN 10 AND 20.5;
SELECT SUM(qty) AS s FROM orders WHERE rating >= 4;
SELECT COUNT(*) AS n FROM orders WHERE rating IS NULL;
SELECT COUNT(*) AS n FROM orders WHERE region LIKE '%st' OR region ILIKE 'NORTH';
SELECT COUNT(*) AS n FROM orders WHERE qty * price > 200;
SELECT AVG(qty * price) AS basket FROM orders;
SELECT SUM(qty * price) AS revenue FROM orders WHERE day >= DATE '2024-07-01';
SELECT COUNT(*) AS n FROM orders WHERE day - DATE '2023-01-01' < 100;
SELECT COUNT(*) AS n FROM orders WHERE placed::DATE = DATE '2024-02-29';
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN member THEN price > 50 ELSE price > 80 END;
SELECT COUNT(*) AS n FROM orders WHERE region > 'north';
SELECT COUNT(*) AS n FROM orders WHERE member = returned;
SELECT COUNT(*) AS n FROM orders WHERE (region, channel) = ('north', 'web');
SELECT COUNT(*) AS n FROM orders WHERE STARTS_WITH(region, 'n');
SELECT COUNT(*) AS n FROM orders WHERE COALESCE(channel, 'none') = 'none';
SELECT COUNT(*) AS n FROM orders WHERE store_id IN (SELECT store_id FROM stores WHERE country = 'NL');
SELECT COUNT(*) AS n FROM orders WHERE EXTRACT(HOUR FROM placed) BETWEEN 9 AND 16 AND ISODOW(day) < 6;
SELECT COUNT(*) AS n FROM orders WHERE TRUE;
SELECT COUNT(*) AS n FROM orders WHERE price > 50 IS TRUE;

-- == Joins
SELECT s.city, COUNT(*) AS n FROM orders o JOIN stores s ON o.store_id = s.store_id GROUP BY s.city ORDER BY s.city;
SELECT s.country, s.city, SUM(o.price) AS revenue FROM orders o JOIN stores s USING (store_id) GROUP BY s.country, s.city ORDER BY revenue DESC;
SELECT s.country, SUM(o.price) AS revenue, 100.0 * SUM(o.price) / SUM(SUM(o.price)) OVER () AS pct FROM orders o JOIN stores s ON o.store_id = s.store_id GROUP BY s.country ORDER BY pct DESC;
SELECT g.goal, COUNT(*) AS n FROM orders o JOIN goals g ON o.region = g.region GROUP BY g.goal ORDER BY g.goal;
SELECT s.city, AVG(l.minutes) AS m FROM orders o JOIN logins l ON o.customer = l.customer JOIN stores s ON o.store_id = s.store_id GROUP BY s.city ORDER BY s.city;
SELECT o.region, COUNT(*) AS n FROM orders o JOIN logins l ON o.customer = l.customer GROUP BY o.region ORDER BY o.region;
SELECT SUM(s.area) AS area FROM orders o JOIN stores s ON o.store_id = s.store_id;
SELECT o.region, n, s FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) o JOIN (SELECT region, SUM(price) AS s FROM orders GROUP BY region) p ON o.region = p.region ORDER BY o.region;
SELECT s.city, o.n FROM stores s LEFT JOIN (SELECT store_id, COUNT(*) AS n FROM orders GROUP BY store_id) o ON o.store_id = s.store_id ORDER BY s.city;
SELECT city FROM stores WHERE country = 'NL' ORDER BY city;
SELECT s.city, COUNT(*) AS n FROM orders o RIGHT JOIN stores s ON o.store_id = s.store_id GROUP BY s.city; -- refused: RIGHT JOIN keeps rows of stores
SELECT city, COUNT(*) AS n FROM orders NATURAL JOIN stores GROUP BY city;

-- == Textbooks
SELECT region, COUNT(*) FROM orders WHERE price > 20 GROUP BY region HAVING COUNT(*) > 10 ORDER BY COUNT(*) DESC;
SELECT member, channel, AVG(price) FROM orders GROUP BY member, channel HAVING channel = 'web' ORDER BY member;
SELECT AVG(price) AS mean, STDDEV_SAMP(price) AS sd, STDDEV_SAMP(price) / AVG(price) AS cv FROM orders;
SELECT AVG(price) - 1.96 * STDDEV(price) / SQRT(COUNT(*)) AS low, AVG(price) + 1.96 * STDDEV(price) / SQRT(COUNT(*)) AS high FROM orders;
SELECT COVAR_POP(qty, price) / VAR_POP(qty) AS slope FROM orders;
SELECT REGR_SLOPE(price, qty) AS b, REGR_INTERCEPT(price, qty) AS a FROM orders;
SELECT a * 1.0 * d / (b * c) AS odds_ratio FROM (SELECT COUNT(*) FILTER (WHERE member AND returned) AS a, COUNT(*) FILTER (WHERE member AND NOT returned) AS b, COUNT(*) FILTER (WHERE NOT member AND returned) AS c, COUNT(*) FILTER (WHERE NOT member AND NOT returned) AS d FROM orders) t;
SELECT store_id, AVG(price) AS a FROM orders GROUP BY store_id HAVING AVG(price) >= ALL (SELECT AVG(price) FROM orders GROUP BY store_id);
SELECT region FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t WHERE n = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY region) u);
SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t WHERE NOT EXISTS (SELECT 1 FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) u WHERE u.n > t.n);
SELECT CASE WHEN rating >= 4 THEN 'promoter' WHEN rating <= 2 THEN 'detractor' ELSE 'passive' END AS kind, COUNT(*) AS n FROM orders WHERE rating IS NOT NULL GROUP BY kind ORDER BY kind;
SELECT 100.0 * (COUNT(*) FILTER (WHERE rating >= 4) - COUNT(*) FILTER (WHERE rating <= 2)) / COUNT(rating) AS nps FROM orders;
SELECT FLOOR(qty / 3) AS bin, COUNT(*) AS n FROM orders GROUP BY bin ORDER BY bin;
SELECT qty, COUNT(*) AS n, BAR(COUNT(*), 0, 1000, 20) AS chart FROM orders GROUP BY qty ORDER BY qty;
SELECT x.region, x.n * 1.0 / y.n AS ratio FROM (SELECT region, COUNT(*) AS n FROM orders WHERE returned GROUP BY region) x, (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) y WHERE x.region = y.region ORDER BY x.region;
SELECT SUM(n) AS n, SUM(s) / SUM(n) AS mean FROM (SELECT region, COUNT(*) AS n, SUM(price) AS s FROM orders GROUP BY region) t WHERE region IN ('north', 'west');
SELECT t.region, t.member, t.n, u.n AS of_region FROM (SELECT region, member, COUNT(*) AS n FROM orders GROUP BY 1, 2) t JOIN (SELECT region, COUNT(*) AS n FROM orders GROUP BY 1) u ON t.region = u.region ORDER BY t.region, t.member;
SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS t ORDER BY n DESC LIMIT 1;
VALUES (1); -- refused: SELECT
SELECT customer FROM orders ORDER BY price DESC LIMIT 1; -- refused: rows
SELECT MODE(region) FROM orders;
SELECT region, MEDIAN(price) AS m FROM orders GROUP BY region; -- wrong: of an even number of rows the median is any value between the two middle ones, as a note says
SELECT region FROM orders GROUP BY region HAVING AVG(price) > (SELECT AVG(price) FROM orders) ORDER BY region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC LIMIT 1 OFFSET 1;
SELECT COUNT(*) AS n FROM orders WHERE qty NOT BETWEEN 3 AND 7 OR rating IS NULL;
SELECT AVG(rating) AS a, COUNT(rating) AS n, COUNT(*) - COUNT(rating) AS missing FROM orders;
SELECT COUNT(DISTINCT region) AS r, COUNT(DISTINCT channel) AS c FROM orders;
SELECT SUM(qty) FILTER (WHERE region = 'north') AS n, SUM(qty) FILTER (WHERE region = 'south') AS s FROM orders;
SELECT MOD(qty, 3) AS r, COUNT(*) AS n FROM orders GROUP BY MOD(qty, 3) ORDER BY r;
SELECT ROUND(price, -1) AS p, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1; -- keys
SELECT COUNT(*) FILTER (WHERE returned) * 1.0 / COUNT(*) AS rate FROM orders;
SELECT o.region, s.country, SUM(o.price) AS total FROM orders AS o INNER JOIN stores AS s ON s.store_id = o.store_id GROUP BY o.region, s.country ORDER BY o.region, s.country;
SELECT s.country, COUNT(DISTINCT o.customer) AS people FROM stores s JOIN orders o USING (store_id) GROUP BY s.country HAVING COUNT(*) > 300 ORDER BY people DESC;
SELECT g.region, g.goal, SUM(o.price) AS total, SUM(o.price) > g.goal AS met FROM orders o JOIN goals g ON o.region = g.region GROUP BY g.region, g.goal ORDER BY g.region;
SELECT t.region, t.total, g.goal, t.total / g.goal AS ratio FROM (SELECT region, SUM(price) AS total FROM orders GROUP BY region) t JOIN goals g ON g.region = t.region ORDER BY ratio DESC;
SELECT AVG(total) AS a FROM (SELECT customer, SUM(price) AS total FROM orders GROUP BY customer) t;
SELECT n, COUNT(*) AS people FROM (SELECT customer, COUNT(DISTINCT region) AS n FROM orders GROUP BY customer) t GROUP BY n ORDER BY n; -- keys
SELECT CASE WHEN n >= 5 THEN 'often' ELSE 'rarely' END AS k, COUNT(*) AS people, AVG(n) AS mean FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) t GROUP BY 1 ORDER BY 1;
SELECT COUNT(DISTINCT o.customer) AS n FROM orders o JOIN logins l ON o.customer = l.customer;
SELECT COUNT(*) AS n FROM orders o WHERE o.customer NOT IN (SELECT l.customer FROM logins l);
SELECT region, SUM(price) AS s, RANK() OVER (ORDER BY SUM(price) DESC) AS r FROM orders GROUP BY region QUALIFY r <= 2 ORDER BY r;
SELECT region, SUM(price) * 100 / SUM(SUM(price)) OVER () AS pct FROM orders GROUP BY region ORDER BY pct DESC;
SELECT COALESCE(channel, 'unknown') AS channel, COUNT(*) AS n FROM orders GROUP BY COALESCE(channel, 'unknown') ORDER BY n DESC;
SELECT COUNT(*) AS n, COUNT(channel) AS c, COUNT(*) FILTER (WHERE channel IS NULL) AS none FROM orders;
SELECT region AS "Region", COUNT(*) AS "Orders", ROUND(AVG(price), 2) AS "Mean" FROM orders GROUP BY "Region" ORDER BY "Orders" DESC;
SELECT DATE_PART('year', day) AS y, DATE_PART('quarter', day) AS q, SUM(qty) AS s FROM orders GROUP BY ALL ORDER BY ALL;
SELECT VARIANCE(qty) AS v, STDDEV_SAMP(price) AS s, COVAR_POP(qty, price) AS c FROM orders;
SELECT QUANTILE_CONT(qty, 0.25) AS q1, QUANTILE_CONT(qty, 0.75) AS q3 FROM orders;
SELECT COUNT(*) AS n FROM orders WHERE day BETWEEN '2024-01-01' AND '2024-12-31' AND EXTRACT(DOW FROM day) IN (0, 6);
SELECT SUM(IF(member, price, 0)) AS m FROM orders;
SELECT SUM(CASE region WHEN 'north' THEN 1 WHEN 'south' THEN 2 ELSE 0 END) AS w FROM orders;
SELECT REGR_SLOPE(price, qty) AS b, REGR_INTERCEPT(price, qty) AS a, REGR_R2(price, qty) AS r FROM orders;
SELECT x.region, x.n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) x WHERE x.n = (SELECT MAX(n) FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) y);
SELECT SUM(n) AS total, AVG(n) AS mean, MAX(n) - MIN(n) AS spread FROM (SELECT store_id, COUNT(*) AS n FROM orders GROUP BY store_id) t;
SELECT a.region, a.n AS mem, b.n AS other FROM (SELECT region, COUNT(*) AS n FROM orders WHERE member GROUP BY region) a, (SELECT region, COUNT(*) AS n FROM orders WHERE NOT member GROUP BY region) b WHERE a.region = b.region ORDER BY 1;
SELECT 'north' AS r, COUNT(*) AS n FROM orders WHERE region = 'north' UNION ALL SELECT 'other', COUNT(*) FROM orders WHERE region <> 'north' ORDER BY n;
SELECT region, LAST_VALUE(n) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS top FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ORDER BY region;
SELECT NTILE(2) OVER (ORDER BY n DESC) AS half, region FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ORDER BY n DESC;
SELECT COUNT(*) AS n FROM orders WHERE region IN ('north', 'south') AND channel IN ('web') AND qty > 2 AND NOT returned;
SELECT LEFT(region, 1) AS initial, COUNT(*) AS n FROM orders GROUP BY initial ORDER BY initial;
SELECT MAX(n) AS busiest FROM (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t;
SELECT m, n FROM (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t ORDER BY n DESC, m LIMIT 3;
SELECT AVG(price) - (SELECT AVG(price) FROM orders WHERE NOT member) AS gap FROM orders WHERE member;
SELECT (SELECT COUNT(*) FROM orders) AS o, (SELECT COUNT(*) FROM stores) AS s;
SELECT SUM(price) AS s FROM orders WHERE store_id IN (SELECT store_id FROM stores WHERE area >= 100);
SELECT GREATEST(COUNT(*), 10) AS n, LEAST(AVG(price), 50) AS p FROM orders;
SELECT region, STRING_AGG(DISTINCT region, ',') AS s, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region;
SELECT UPPER(region) || ' (' || COUNT(*) || ')' AS label FROM orders GROUP BY region ORDER BY region;
SELECT FORMAT('{}: {}', region, COUNT(*)) AS label FROM orders GROUP BY region ORDER BY region;
SELECT COUNT(*) AS n, SUM(qty) AS q FROM orders WHERE TRUE;
SELECT COUNT(*) AS n FROM orders WHERE 1 = 1 AND region = 'north';
SELECT COUNT(*) n, region r FROM orders GROUP BY r ORDER BY n;
SELECT DISTINCT region, member FROM orders ORDER BY 1, 2;
SELECT SUM(DISTINCT qty) AS s, AVG(DISTINCT qty) AS a FROM orders;
SELECT COUNT(DISTINCT (region, channel)) AS pairs FROM orders;
SELECT COUNT(*) FROM (SELECT DISTINCT region, member FROM orders) AS t;
SELECT COUNT(*) AS n FROM (SELECT 1 FROM orders WHERE member) t;
SELECT member, AVG(CASE WHEN returned THEN 1.0 ELSE 0.0 END) AS rate FROM orders GROUP BY member ORDER BY member;
SELECT BOOL_OR(n > 700) AS any_big, BOOL_AND(n > 100) AS all_big FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t;

-- == Inside
SELECT COUNT(*) AS n FROM orders WHERE DATE_TRUNC('month', day) IN (SELECT DATE_TRUNC('month', day) FROM orders GROUP BY 1 HAVING COUNT(*) > 128);
SELECT COUNT(*) AS n FROM orders WHERE qty IN (SELECT qty FROM orders GROUP BY qty HAVING COUNT(*) > 300);
SELECT COUNT(*) AS n FROM orders WHERE MONTH(day) = (SELECT MONTH(day) FROM orders GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 1);
SELECT COUNT(*) AS n FROM orders WHERE price / 10 > (SELECT AVG(price) / 10 FROM orders);
SELECT COUNT(*) AS n FROM orders WHERE FLOOR(price / 10) * 0.1 IN (SELECT FLOOR(price / 10) * 0.1 FROM orders GROUP BY 1 HAVING COUNT(*) > 300);
SELECT COUNT(*) AS n FROM orders WHERE UPPER(channel) IN (SELECT UPPER(channel) FROM orders GROUP BY 1 HAVING COUNT(*) > 800);
SELECT COUNT(*) AS n FROM orders WHERE channel NOT IN (SELECT channel FROM orders GROUP BY channel HAVING COUNT(*) > 800);
SELECT COUNT(*) AS n FROM orders WHERE store_id IN (SELECT store_id FROM stores WHERE area > 100);
SELECT COUNT(*) AS n FROM orders WHERE member = (SELECT member FROM orders GROUP BY member ORDER BY COUNT(*) DESC LIMIT 1);
SELECT COUNT(*) AS n FROM orders WHERE STRFTIME(day, '%Y-%m') IN (SELECT STRFTIME(day, '%Y-%m') FROM orders GROUP BY 1 HAVING COUNT(*) > 128);
SELECT COUNT(*) AS n FROM orders WHERE day IN (SELECT day FROM orders GROUP BY day HAVING COUNT(*) > 4);

-- == two private tables
SELECT 'orders' AS what, COUNT(*) AS n FROM orders UNION ALL SELECT 'logins', COUNT(*) FROM logins ORDER BY what;
SELECT a.n, b.m, a.n * 1.0 / b.m AS r FROM (SELECT COUNT(*) AS n FROM orders) a, (SELECT SUM(minutes) AS m FROM logins) b;
SELECT (SELECT COUNT(*) FROM logins WHERE failed) * 1.0 / (SELECT COUNT(*) FROM logins) AS failing;
SELECT COUNT(*) AS n FROM orders WHERE qty > (SELECT AVG(minutes) / 6 FROM logins);
WITH l AS (SELECT device, COUNT(*) AS n FROM logins GROUP BY device), o AS (SELECT COUNT(*) AS n FROM orders) SELECT device, l.n * 1.0 / o.n AS x FROM l CROSS JOIN o ORDER BY device;
WITH l AS (SELECT *, minutes * 2 AS region FROM logins) SELECT AVG(region) AS a, (SELECT COUNT(*) FROM orders) AS n FROM l;
SELECT device AS region, COUNT(*) AS n, (SELECT COUNT(*) FROM orders) AS o FROM logins GROUP BY region ORDER BY region;
SELECT AVG(c) AS a, (SELECT COUNT(*) FROM orders) AS n FROM (SELECT customer, COUNT(*) AS c FROM logins GROUP BY customer) t;
SELECT MEDIAN(minutes) AS m, (SELECT COUNT(*) FROM orders) AS n FROM logins;

-- == named windows, constants, aliases
SELECT region, COUNT(*) n, RANK() OVER w AS r FROM orders GROUP BY region WINDOW w AS (ORDER BY COUNT(*) DESC) ORDER BY r;
SELECT member, SUM(n) OVER w, AVG(n) OVER (w ROWS UNBOUNDED PRECEDING) FROM (SELECT member, COUNT(*) AS n FROM orders GROUP BY member) t WINDOW w AS (ORDER BY member) ORDER BY member;
SELECT COALESCE(region, 'all') AS region, COUNT(*) AS n FROM orders GROUP BY ROLLUP(region) ORDER BY region;
SELECT COUNT() FROM orders;
SELECT region, SUM(price) FROM orders WHERE day >= (SELECT DATE '2024-01-01') GROUP BY region ORDER BY region;
-- == Comparisons, texts and days
SELECT COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM stores s WHERE s.store_id = o.store_id AND s.country = 'NL');
SELECT COUNT(*) AS n FROM orders o WHERE NOT EXISTS (SELECT 1 FROM stores s WHERE s.store_id = o.store_id AND s.country = 'NL');
SELECT COUNT(*) AS n FROM orders WHERE store_id = ANY (SELECT store_id FROM stores WHERE country = 'NL');
SELECT region || '-' || channel AS rc, COUNT(*) AS n FROM orders WHERE channel IS NOT NULL GROUP BY 1 ORDER BY 1; -- keys
SELECT region || '-' || qty AS rc, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT CONCAT(YEAR(day), '-', MONTH(day)) AS ym, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT CAST(qty AS VARCHAR) AS q, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT CAST(day AS VARCHAR) AS q, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT CASE WHEN member THEN DATE_TRUNC('year', day) ELSE DATE '2020-01-01' END AS d, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT MAKE_DATE(YEAR(day), MONTH(day), 1) AS d, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM orders WHERE STRFTIME(day, '%Y-%m') >= '2024-01';
SELECT COUNT(*) AS n FROM orders WHERE region LIKE 'n_r%' ESCAPE '\';
SELECT COUNT(*) AS n FROM orders WHERE region NOT LIKE '%$_%' ESCAPE '$';
SELECT COUNT(*) AS n FROM orders WHERE region SIMILAR TO '(nor|sou)th';
SELECT COUNT(*) AS n FROM orders WHERE region NOT SIMILAR TO '(nor|sou)th';
SELECT STRPOS(region, 'o') AS p, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM orders WHERE POSITION('th' IN region) > 0;
SELECT COUNT(*) AS n FROM orders WHERE INSTR(region, 'th') > 0;
SELECT COUNT(*) AS n FROM orders WHERE region >= 'north' AND region < 'south';
SELECT COUNT(*) AS n FROM orders WHERE region BETWEEN 'a' AND 'o';
SELECT COUNT(*) AS n FROM orders WHERE channel > 'q';
SELECT COUNT(*) AS n FROM orders WHERE region = channel;
SELECT COUNT(*) AS n FROM orders WHERE region > channel;
SELECT COUNT(*) AS n FROM orders WHERE LEFT(region, 1) = LEFT(channel, 1);
SELECT COUNT(*) AS n FROM orders WHERE member <> returned;
SELECT COUNT(*) AS n FROM orders WHERE member > returned;
SELECT COUNT(*) AS n FROM orders WHERE (qty > 5) = member;
SELECT COUNT(*) AS n FROM orders WHERE (qty > 5) = (price > 20);
SELECT COUNT(*) AS n FROM orders WHERE (qty, rating) > (5, 3);
SELECT COUNT(*) AS n FROM orders WHERE (region, channel) <> ('north', 'web');
SELECT COUNT(*) AS n FROM orders WHERE ROW(region, qty) = ROW('north', 3);
SELECT COUNT(*) AS n FROM orders WHERE member = 1;
SELECT COUNT(*) AS n FROM orders WHERE member <> 0;
SELECT COUNT(*) AS n FROM orders WHERE member IS NOT DISTINCT FROM returned;
SELECT COUNT(*) AS n FROM orders WHERE channel IS DISTINCT FROM region;
SELECT AVG(DATE_PART('year', AGE(DATE '2027-06-15', day))) AS y FROM orders;
SELECT EXTRACT(YEAR FROM AGE(DATE '2027-06-15', day)) AS y, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT SUM(qty) AS s FROM orders WHERE day >= STRPTIME('2024-05-01', '%Y-%m-%d');
SELECT LPAD(region, 8, '.') AS r, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT GREATEST(day, DATE '2024-06-01') AS d, COUNT(*) AS n FROM orders WHERE day > DATE '2024-05-20' GROUP BY 1 ORDER BY 1;
SELECT k, COUNT(*) AS people FROM (SELECT customer, 1 AS k FROM orders GROUP BY customer) t GROUP BY k;
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN channel IS NULL THEN 'none' WHEN channel = 'web' THEN 'online' ELSE channel END IN ('online', 'shop');
SELECT COUNT(*) AS n FROM orders WHERE COALESCE(channel, region) LIKE '%o%';
SELECT UPPER(COALESCE(channel, 'none')) AS c, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT LENGTH(COALESCE(channel, 'none')) AS c, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT COALESCE(channel, 'none') || '/' || region AS c, SUM(qty) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT FLOOR(EPOCH(placed) / 86400) * 86400 AS time, COUNT(*) AS value FROM orders WHERE placed < TIMESTAMP '2023-02-01' GROUP BY 1 ORDER BY 1;
SELECT COALESCE(NULLIF(channel, 'web'), 'other') AS c, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT STRFTIME(day, '%Y') || '-Q' || QUARTER(day) AS q, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT CAST(YEAR(day) AS VARCHAR) || '-' || LPAD(CAST(MONTH(day) AS VARCHAR), 2, '0') AS q, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT SPLIT_PART(region || '-' || channel, '-', 2) AS q, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT REVERSE(region) AS q, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT LEAST(day, DATE '2023-01-03') AS d, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT COALESCE(day, DATE '2024-01-01') AS d, COUNT(*) AS n FROM orders WHERE day < DATE '2023-01-05' GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN member THEN day ELSE DATE '2024-01-01' END >= DATE '2023-12-01';
SELECT CASE WHEN qty > 5 THEN NULL ELSE region END AS r, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT IF(member, region, channel) AS r, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT member AND NOT returned AS good, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT CONCAT_WS('-', region, channel) AS r, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT CONCAT(region, '-', channel) AS r, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM orders WHERE region NOT IN ('north') AND NOT (region = 'south' OR channel = 'web');
SELECT COUNT(*) AS n FROM orders WHERE day + INTERVAL 1 MONTH > DATE '2024-12-01';
SELECT COUNT(*) AS n FROM orders WHERE day BETWEEN MAKE_DATE(2024, 2, 1) AND MAKE_DATE(2024, 2, 29);
SELECT COUNT(*) AS n FROM orders WHERE EXTRACT(MONTH FROM day) = EXTRACT(MONTH FROM DATE '2024-05-06');

-- == PIVOT, GROUPING and lists of keys
SELECT region, GROUPING(region) AS g, COUNT(*) AS n FROM orders GROUP BY region;
PIVOT orders ON channel USING COUNT(*) GROUP BY region ORDER BY region;
PIVOT orders ON member USING SUM(qty) AS s, COUNT(*) AS n GROUP BY region ORDER BY region;
PIVOT (SELECT region, channel, COUNT(*) AS n FROM orders GROUP BY region, channel) ON channel USING SUM(n) ORDER BY region;
SELECT ANY_VALUE(region) IS NOT NULL AS some FROM orders;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT channel FROM orders) t;
SELECT COUNT(*) AS n, COUNT(channel) AS m, COUNT(DISTINCT channel) FROM (SELECT channel FROM orders GROUP BY channel) t;
WITH c AS (SELECT DISTINCT channel AS c FROM orders) SELECT COUNT(*) AS n, STRING_AGG(c, '/' ORDER BY c DESC) FROM c;
SELECT STRING_AGG(region, ',' ORDER BY region) AS s FROM (SELECT region FROM orders WHERE qty > 3 GROUP BY region) t;
SELECT STRING_AGG(DISTINCT region, ',' ORDER BY region) AS s, STRING_AGG(DISTINCT channel, ',' ORDER BY channel), COUNT(*) AS n FROM orders;
SELECT ANY_VALUE(region) IS NOT NULL AS some, COUNT(*) AS n, AVG(qty) AS q FROM orders WHERE qty > 3;
SELECT SUM(qty), AVG(qty) AS a, COUNT(*) AS n FROM (SELECT DISTINCT qty FROM orders WHERE region = 'north') t;
SELECT COUNT(region) FROM (SELECT DISTINCT region, channel FROM orders) t; -- refused: without repetition
SELECT o.store_id, ANY_VALUE(s.city) AS city, COUNT(*) AS n FROM orders o JOIN stores s ON o.store_id = s.store_id GROUP BY o.store_id ORDER BY 1;
SELECT store_id, MAX(s.area) AS area, AVG(price) AS p FROM orders JOIN stores s USING (store_id) GROUP BY store_id ORDER BY store_id;
SELECT region, MAX(UPPER(region)) AS u, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region;
SELECT DATE_TRUNC('month', day) AS m, MIN(YEAR(DATE_TRUNC('month', day))) AS y, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT LISTAGG(DISTINCT channel, '/' ORDER BY channel) AS c FROM orders WHERE channel IS NOT NULL;

-- == Joins and persons
SELECT s.city, COUNT(o.customer) AS n, AVG(o.price) AS p FROM orders o RIGHT JOIN stores s ON o.store_id = s.store_id GROUP BY s.city;
SELECT o.region, t.n, SUM(o.price) / t.n AS per FROM orders o JOIN (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ON o.region = t.region GROUP BY o.region, t.n ORDER BY o.region;
SELECT region, COUNT(*) AS n, (SELECT MODE(channel) FROM orders) AS m FROM orders GROUP BY region;
SELECT AVG(n) AS a FROM (SELECT customer, channel, COUNT(*) AS n FROM orders GROUP BY customer, channel) t;
SELECT channel, AVG(n) AS a, SUM(n) AS s, COUNT(*) AS c FROM (SELECT customer, channel, COUNT(*) AS n FROM orders GROUP BY customer, channel) t GROUP BY channel ORDER BY channel;
WITH t AS (SELECT customer, region, SUM(qty) AS q, COUNT(*) AS n FROM orders WHERE member GROUP BY 1, 2) SELECT region, SUM(q) AS q, AVG(n) AS a FROM t WHERE region <> 'west' GROUP BY region ORDER BY region;

-- == Weights
SELECT (SELECT /*+ WEIGHT(3) */ COUNT(*) FROM orders WHERE member) * 1.0 / (SELECT COUNT(*) FROM orders) AS share;
WITH a AS (SELECT /*+ weight(2.5) */ region, COUNT(*) AS n FROM orders GROUP BY region) SELECT region, n, RANK() OVER (ORDER BY n) AS r FROM a ORDER BY n;

-- == Refusals
SELECT region, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM orders WHERE region = 'nrth' GROUP BY region; -- refused: did you mean 'north'
SELECT region, RANK() OVER (ORDER BY COUNT(*)) AS r FROM orders WHERE pric > 3 GROUP BY region; -- refused: did you mean 'price'
SELECT region, RANK() OVER (ORDER BY MAX(price)) AS r FROM orders GROUP BY region; -- refused: MAX is not supported, because one row decides it
SELECT region, MAX(price) AS m FROM orders GROUP BY region; -- refused: QUANTILE_CONT(price, 0.99)
SELECT COUNT(*) AS n FROM orders JOIN shops ON orders.store_id = shops.store_id; -- refused: known: 'stores', 'goals'
SELECT COUNT(*) AS n FROM orders CROSS JOIN stores; -- refused: CROSS JOIN is not supported without a condition in WHERE
SELECT COUNT(*) AS n FROM orders o FULL OUTER JOIN stores s ON o.store_id = s.store_id; -- refused: FULL OUTER JOIN is not supported
SELECT SUM(area) AS a FROM (SELECT o.store_id, s.area FROM orders o JOIN stores s ON o.qty = s.area) t; -- refused: joined by its declared key 'store_id'
SELECT x.n FROM orders o, LATERAL (SELECT COUNT(*) AS n FROM orders p WHERE p.region = o.region) x; -- refused: LATERAL is not supported around private questions
WITH RECURSIVE t AS (SELECT COUNT(*) AS n FROM orders UNION ALL SELECT n - 1 FROM t WHERE n > 0) SELECT * FROM t; -- refused: WITH RECURSIVE is not supported
SELECT region, COUNT(*) AS n, RANDOM() AS r FROM orders GROUP BY region; -- refused: RANDOM is not supported
SELECT SOUNDEX(region) AS s, COUNT(*) AS n FROM orders GROUP BY 1; -- refused: SOUNDEX is not supported of the rows
SELECT region, ARRAY_AGG(price) AS p FROM orders GROUP BY region; -- refused: ARRAY_AGG is not supported
SELECT STRING_AGG(region, ',') AS r FROM orders; -- refused: STRING_AGG is not supported here
SELECT STRING_AGG(DISTINCT qty, ',') AS r FROM orders; -- refused: STRING_AGG is not supported here
SELECT region, qty, COUNT(*) AS n FROM orders GROUP BY region; -- refused: SELECT qty is refused
SELECT region, LAG(price) OVER (ORDER BY day) AS p FROM orders; -- refused: OVER is of rows of single persons
SELECT * FROM orders WHERE price > 10 ORDER BY price LIMIT 5; -- refused: rows are never released
SELECT DISTINCT ON (region) region, price FROM orders; -- refused: DISTINCT
SELECT region, DENSE_RANK() OVER (ORDER BY region) AS r FROM (SELECT DISTINCT ON (region) region, price FROM orders) t; -- refused: DISTINCT ON shows a row of each group
SELECT COUNT(*) AS n FROM orders WHERE price > '5 euros'; -- refused: a number is needed, not '5 euros'
SELECT COUNT(*) AS n FROM orders WHERE region > 5; -- refused: of which one is text and the other is not
SELECT COUNT(*) AS n FROM orders WHERE customer > 'c100'; -- refused: customer is an identifier
SELECT COUNT(*) AS n FROM orders WHERE member = 2; -- refused: is true or false
SELECT region, GROUPING(channel) AS g, COUNT(*) AS n FROM orders GROUP BY ROLLUP(region); -- refused: GROUPING takes keys of GROUP BY
PIVOT orders ON qty USING COUNT(*) GROUP BY region; -- refused: a column of each value of qty, which must be public
SELECT AGE(DATE '2024-01-01', day) AS a, COUNT(*) AS n FROM orders GROUP BY 1; -- refused: EXTRACT(YEAR FROM AGE(a, b))
SELECT COUNT(*) AS n FROM orders WHERE day = TO_DATE('31.12.2024', 'YYYY-MM-DD'); -- refused: is no day by the format
SELECT MODE(region), COUNT(*) FROM orders;
SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t JOIN orders o ON o.region = t.region; -- refused: rows of single persons
SELECT COUNT(*) AS n FROM orders WHERE price IN (SELECT price FROM orders WHERE member); -- refused: asks about the same people
SELECT COUNT(*) AS a, COUNT(*) AS A FROM orders; -- refused: two columns of the answer are named
SELECT COUNT(*) FROM read_csv('x.csv'); -- refused: FROM takes the name of a declared table
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING day > DATE '2024-01-01'; -- refused: filter rows with WHERE
SELECT MAX(n) AS a FROM (SELECT customer, channel, COUNT(*) AS n FROM orders GROUP BY customer, channel) t; -- refused: each group is rows of one person
SELECT n, COUNT(*) AS c FROM (SELECT customer, channel, COUNT(*) AS n FROM orders GROUP BY customer, channel) t GROUP BY n; -- refused: a number of one person's rows
SELECT COUNT(*) AS n FROM orders TABLESAMPLE RESERVOIR (10); -- refused: TABLESAMPLE BERNOULLI (10 PERCENT)
SELECT /*+ MAX_ROWS(2) */ region, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM orders GROUP BY region; -- refused: WEIGHT(3) is, above 0
-- == sequences within a person
SELECT COUNT(*) AS n FROM (SELECT customer, day, LAG(day) OVER (PARTITION BY customer ORDER BY day) AS prev FROM orders) t WHERE day - prev <= 30;
SELECT COUNT(*) AS n FROM (SELECT customer, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS rn FROM orders) t WHERE rn = 1;
SELECT region, COUNT(*) AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day DESC) AS rn FROM orders) t WHERE rn = 1 GROUP BY region ORDER BY region;
WITH s AS (SELECT region, LAG(region) OVER (PARTITION BY customer ORDER BY day) AS prev FROM orders) SELECT prev, region, COUNT(*) AS n FROM s GROUP BY prev, region ORDER BY prev, region;
SELECT COUNT(*) FILTER (WHERE prev IS NULL) AS firsts, COUNT(*) AS n FROM (SELECT day, LAG(day) OVER (PARTITION BY customer ORDER BY day) AS prev FROM orders) t;
SELECT rn, AVG(price) AS p, COUNT(*) AS n FROM (SELECT price, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS rn FROM orders) t WHERE rn <= 5 GROUP BY rn ORDER BY rn;
SELECT DATE_TRUNC('quarter', first) AS q, COUNT(*) AS n FROM (SELECT customer, MIN(day) OVER (PARTITION BY customer) AS first, day FROM orders) t GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM (SELECT region, FIRST_VALUE(region) OVER (PARTITION BY customer ORDER BY day) AS f FROM orders) t WHERE f = 'north';
SELECT COUNT(*) AS n FROM (SELECT region FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) = 1) t WHERE region = 'north';
SELECT COUNT(*) AS n FROM (SELECT region, ROW_NUMBER() OVER (ORDER BY day) AS r FROM orders) t WHERE r = 1; -- refused: PARTITION BY names the privacy unit's column
SELECT COUNT(*) AS n FROM (SELECT region, ROW_NUMBER() OVER (PARTITION BY region ORDER BY day) AS r FROM orders) t WHERE r = 1; -- refused: PARTITION BY names the privacy unit's column 'customer'
SELECT SUM(run) AS n FROM (SELECT SUM(price) OVER (PARTITION BY customer ORDER BY day) AS run FROM orders) t;
SELECT COUNT(*) AS n FROM (SELECT SUM(qty) OVER (PARTITION BY customer ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS run FROM orders) t WHERE run > 10;
SELECT COUNT(*) AS n FROM (SELECT RANK() OVER w AS r, DENSE_RANK() OVER w AS d FROM orders WINDOW w AS (PARTITION BY customer ORDER BY store_id)) t WHERE r > d;
SELECT AVG(m) AS a FROM (SELECT customer, MAX(gap) AS m FROM (SELECT customer, day - LAG(day) OVER (PARTITION BY customer ORDER BY day) AS gap FROM orders) x GROUP BY customer) y;
SELECT COUNT(*) AS n FROM (SELECT LAG(qty, 2, 0) OVER (PARTITION BY customer ORDER BY day) AS q FROM orders) t WHERE q = 0;
SELECT COUNT(*) AS n FROM (SELECT LEAD(qty, 2, 99) OVER (PARTITION BY customer ORDER BY day) AS q FROM orders) t WHERE q = 99;
SELECT COUNT(*) AS n FROM (SELECT LEAD(channel) OVER (PARTITION BY customer, region ORDER BY placed) AS c FROM orders WHERE member) t WHERE c = 'web';
SELECT region, n, n * 1.0 / SUM(n) OVER () AS share FROM (SELECT region, COUNT(*) AS n FROM (SELECT region, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS rn FROM orders) t WHERE rn = 2 GROUP BY region) u ORDER BY region;
SELECT COUNT(*) AS n FROM (SELECT day - LAG(day) OVER (PARTITION BY customer ORDER BY day) AS gap FROM orders WHERE price > (SELECT AVG(price) FROM orders)) t WHERE gap > 30;
SELECT city, COUNT(*) AS n FROM (SELECT store_id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS rn FROM orders) t JOIN stores USING (store_id) WHERE rn = 1 GROUP BY city ORDER BY city;
SELECT prev, COUNT(*) AS n FROM (SELECT LAG(city) OVER (PARTITION BY customer ORDER BY day) AS prev FROM orders JOIN stores USING (store_id)) t GROUP BY prev ORDER BY prev;
SELECT COUNT(*) AS n FROM (SELECT customer, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS rn FROM orders) t WHERE rn = 1 AND customer IN (SELECT customer FROM logins WHERE failed);
SELECT device, COUNT(*) AS n FROM (SELECT customer, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS rn FROM orders) t JOIN logins ON t.customer = logins.customer WHERE rn = 1 GROUP BY device ORDER BY device;
SELECT COUNT(DISTINCT customer) AS n FROM (SELECT customer, day - LAG(day) OVER (PARTITION BY customer ORDER BY day) AS gap FROM orders) t WHERE gap <= 30;
SELECT CASE WHEN gap <= 30 THEN 'month' WHEN gap <= 90 THEN 'quarter' ELSE 'longer' END AS after, COUNT(*) AS n FROM (SELECT day - LAG(day) OVER (PARTITION BY customer ORDER BY day) AS gap FROM orders) t WHERE gap IS NOT NULL GROUP BY 1 ORDER BY 1; -- keys
SELECT 100.0 * COUNT(*) FILTER (WHERE gap <= 30) / COUNT(*) AS pct FROM (SELECT day - LAG(day) OVER (PARTITION BY customer ORDER BY day) AS gap FROM orders) t;
SELECT AVG(gap) AS g, MEDIAN(gap) AS m FROM (SELECT DATE_DIFF('day', LAG(day) OVER (PARTITION BY customer ORDER BY day), day) AS gap FROM orders) t;
SELECT COUNT(*) AS sessions FROM (SELECT customer, EXTRACT(EPOCH FROM placed - LAG(placed) OVER (PARTITION BY customer ORDER BY placed)) AS s FROM orders) t WHERE s IS NULL OR s > 1800;
SELECT COUNT(*) AS n FROM (SELECT DATE_DIFF('minute', LAG(placed) OVER (PARTITION BY customer ORDER BY placed), placed) AS s FROM orders) t WHERE s > 1800;
SELECT rn, region, COUNT(*) AS n FROM (SELECT region, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day) AS rn FROM orders) t WHERE rn IN (1, 2) GROUP BY rn, region ORDER BY rn, region;
SELECT DATE_DIFF('month', first, day) AS age, COUNT(*) AS n FROM (SELECT day, MIN(day) OVER (PARTITION BY customer) AS first FROM orders) t GROUP BY 1 ORDER BY 1; -- keys
SELECT DATE_TRUNC('month', first) AS cohort, DATE_DIFF('month', first, day) AS age, COUNT(DISTINCT customer) AS n FROM (SELECT customer, day, MIN(day) OVER (PARTITION BY customer) AS first FROM orders) t GROUP BY 1, 2 ORDER BY 1, 2; -- keys
SELECT COUNT(*) AS n FROM (SELECT customer, SUM(price) OVER (PARTITION BY customer) AS total FROM orders) t WHERE total > 300;
SELECT total_orders, COUNT(*) AS n FROM (SELECT COUNT(*) OVER (PARTITION BY customer) AS total_orders FROM orders) t GROUP BY 1 ORDER BY 1; -- keys
WITH numbered AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed) AS nth FROM orders), first_orders AS (SELECT * FROM numbered WHERE nth = 1) SELECT region, COUNT(*) AS new_customers, AVG(price) AS first_price FROM first_orders GROUP BY region ORDER BY region;
WITH numbered AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed) AS nth FROM orders) SELECT CASE WHEN nth = 1 THEN 'new' ELSE 'returning' END AS kind, SUM(price) AS revenue FROM numbered GROUP BY 1 ORDER BY 1;
SELECT [prev], COUNT(*) AS [n] FROM (SELECT LAG([region]) OVER (PARTITION BY [customer] ORDER BY [day]) AS [prev] FROM [orders]) AS [t] WHERE [prev] IS NOT NULL GROUP BY [prev] ORDER BY [prev];
SELECT COUNT(*) AS n FROM (SELECT customer, channel, LAG(channel) OVER (PARTITION BY customer ORDER BY placed) AS before FROM orders) t WHERE channel = 'web' AND before = 'shop';
SELECT COUNT(*) AS n FROM (SELECT customer, channel, LAG(channel) OVER (PARTITION BY customer ORDER BY placed) AS before FROM orders) t WHERE channel <> before;
SELECT COUNT(*) AS n FROM (SELECT price, LAG(price) OVER (PARTITION BY customer ORDER BY placed) AS before FROM orders) t WHERE price > before;
SELECT AVG(price - before) AS d FROM (SELECT price, LAG(price) OVER (PARTITION BY customer ORDER BY placed) AS before FROM orders) t;
SELECT DATE_DIFF('month', prev, day) AS age, COUNT(*) AS n FROM (SELECT day, LAG(day) OVER (PARTITION BY customer ORDER BY day) AS prev FROM orders) t WHERE prev IS NOT NULL GROUP BY 1 ORDER BY 1; -- keys
SELECT DATE_DIFF('month', f.first, o.day) AS age, COUNT(*) AS n FROM orders o JOIN (SELECT customer, MIN(day) AS first FROM orders GROUP BY customer) f USING (customer) WHERE DATE_DIFF('month', f.first, o.day) <= 1 GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM orders o JOIN (SELECT customer, COUNT(*) AS k FROM orders WHERE returned GROUP BY customer) f ON f.customer = o.customer WHERE f.k >= 2;
SELECT COUNT(*) AS n FROM orders o LEFT JOIN (SELECT customer, COUNT(*) AS k FROM orders WHERE returned GROUP BY customer) f ON f.customer = o.customer WHERE f.k IS NULL;
SELECT COUNT(*) AS n FROM orders o LEFT JOIN (SELECT customer, COUNT(*) AS k FROM orders WHERE returned GROUP BY customer) f ON f.customer = o.customer WHERE f.customer IS NULL;
SELECT f.region AS first_region, COUNT(*) AS n, SUM(price) AS s FROM orders o JOIN (SELECT customer, ARG_MIN(region, day) AS region FROM orders GROUP BY customer) f USING (customer) GROUP BY f.region ORDER BY 1;
SELECT k, SUM(price) AS s FROM orders JOIN (SELECT customer, COUNT(*) AS k FROM logins GROUP BY customer) l USING (customer) GROUP BY k ORDER BY k;
SELECT COUNT(*) AS n FROM orders o JOIN (SELECT customer, AVG(price) AS usual FROM orders GROUP BY customer) f USING (customer) WHERE o.price > f.usual;
SELECT COUNT(*) AS n FROM orders o JOIN (SELECT customer, MAX(gap) AS g FROM (SELECT customer, day - LAG(day) OVER (PARTITION BY customer ORDER BY day) AS gap FROM orders) x GROUP BY customer HAVING COUNT(*) >= 4) f USING (customer) WHERE f.g > 1;
SELECT COUNT(*) AS n, AVG(a.total) AS t FROM (SELECT customer, LEAST(SUM(price), 1000) AS total FROM orders GROUP BY customer) a JOIN (SELECT customer, COUNT(*) AS k FROM logins GROUP BY customer) b ON a.customer = b.customer WHERE b.k > 1;
SELECT COUNT(*) AS n FROM (SELECT customer, MIN(day) AS first FROM orders GROUP BY customer) a JOIN (SELECT customer, COUNT(*) AS k FROM orders GROUP BY customer) b ON a.customer = b.customer WHERE b.k > 3 AND MONTH(a.first) = 1;
SELECT COUNT(*) AS n FROM orders o JOIN (SELECT region, COUNT(*) AS k FROM orders GROUP BY region) f USING (region);
SELECT age, n, 1.0 * n / SUM(n) OVER () AS share FROM (SELECT DATE_DIFF('month', f.first, o.day) AS age, COUNT(*) AS n FROM orders o JOIN (SELECT customer, MIN(day) AS first FROM orders GROUP BY customer) f USING (customer) WHERE DATE_DIFF('month', f.first, o.day) <= 1 GROUP BY 1) t ORDER BY age;
WITH f AS (SELECT customer, MIN(day) AS first FROM orders GROUP BY customer), m AS (SELECT DATE_DIFF('month', f.first, o.day) AS age, COUNT(*) AS n FROM orders o JOIN f ON o.customer = f.customer WHERE DATE_DIFF('month', f.first, o.day) <= 1 GROUP BY 1) SELECT age, n, SUM(n) OVER (ORDER BY age) AS running FROM m ORDER BY age;
WITH f AS (SELECT customer, COUNT(*) AS k FROM orders GROUP BY customer) SELECT k, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS pct FROM f WHERE k >= 2 GROUP BY k ORDER BY k;
SELECT COUNT(*) AS n FROM orders a JOIN orders b ON a.customer = b.customer AND b.day > a.day AND b.day <= a.day + 3;
SELECT a.region, b.region AS next, COUNT(*) AS n FROM orders a JOIN orders b ON a.customer = b.customer AND a.day < b.day GROUP BY a.region, b.region ORDER BY 1, 2;
SELECT COUNT(DISTINCT a.customer) AS n FROM orders a, orders b WHERE a.customer = b.customer AND a.channel = 'web' AND b.channel = 'shop';
SELECT COUNT(*) AS n FROM orders a JOIN (SELECT customer, day FROM orders WHERE returned) b ON a.customer = b.customer AND a.day > b.day;
SELECT COUNT(*) AS n FROM orders o JOIN logins l ON o.customer = l.customer AND l.failed AND o.price > 10;
SELECT s.city, COUNT(*) AS n FROM orders o JOIN stores s ON o.store_id = s.store_id AND s.area > 100 GROUP BY s.city ORDER BY 1;
SELECT COUNT(*) AS n FROM orders a JOIN orders b ON a.region = b.region; -- refused: only by their privacy unit
SELECT COUNT(*) AS n FROM orders a LEFT JOIN orders b ON a.customer = b.customer;
SELECT COUNT(*) AS n FROM orders a LEFT JOIN orders b ON a.customer = b.customer AND b.day > a.day; -- refused: JOIN only compares columns
SELECT COUNT(*) AS n FROM orders JOIN orders ON a.customer = b.customer; -- refused: joined twice

-- == Joins by what is computed
SELECT s.band, COUNT(*) AS n FROM orders o JOIN standard s ON s.band = CASE WHEN o.price < 40 THEN 'cheap' ELSE 'dear' END GROUP BY s.band ORDER BY 1;
SELECT SUM(s.weight * o.qty) AS w FROM orders o JOIN standard s ON (CASE WHEN o.price < 40 THEN 'cheap' ELSE 'dear' END) = s.band WHERE o.member;
SELECT y.year, SUM(qty) AS n FROM orders t JOIN years y ON y.year = YEAR(t.day) GROUP BY y.year ORDER BY 1;
SELECT y.target, COUNT(*) AS n FROM orders t JOIN years y ON EXTRACT(YEAR FROM t.placed) = y.year GROUP BY y.target ORDER BY 1;
SELECT y.year, SUM(qty) * 100.0 / MAX(y.target) AS pct FROM orders t JOIN years y ON y.year = YEAR(t.day) GROUP BY y.year ORDER BY 1;
SELECT z.size, COUNT(*) AS n FROM orders t JOIN sizes z ON z.lo <= t.qty AND t.qty < z.hi GROUP BY z.size ORDER BY 1;
SELECT z.size, AVG(t.price) AS p FROM orders t JOIN sizes z ON t.qty BETWEEN z.lo AND z.hi - 1 GROUP BY z.size ORDER BY 1;
SELECT z.size, COUNT(*) AS n FROM orders t LEFT JOIN sizes z ON t.qty >= z.lo AND t.qty < z.hi AND t.member GROUP BY z.size ORDER BY 1 NULLS LAST;
SELECT h.head, COUNT(*) AS n FROM orders t JOIN heads h ON h.title = UPPER(t.region) GROUP BY h.head ORDER BY 1;
SELECT h.head, COUNT(*) AS n FROM orders t JOIN heads h ON LOWER(h.title) = t.region GROUP BY h.head ORDER BY 1;
SELECT SUM(s.area) AS a FROM orders o JOIN stores s ON s.store_id = o.qty - 3;
SELECT z.size, SUM(s.weight) AS w FROM orders o JOIN sizes z ON o.qty >= z.lo AND o.qty < z.hi JOIN standard s ON s.band = CASE WHEN o.price < 40 THEN 'cheap' ELSE 'dear' END GROUP BY z.size ORDER BY 1;
SELECT SUM(n * weight) / SUM(weight) AS standardised FROM (SELECT s.band, s.weight, AVG(o.rating) AS n FROM orders o JOIN standard s ON s.band = CASE WHEN o.price < 40 THEN 'cheap' ELSE 'dear' END GROUP BY s.band, s.weight) t;
SELECT COUNT(*) AS n FROM orders o JOIN sizes z ON o.qty >= z.lo AND o.qty <= z.hi; -- refused: two rows of sizes
SELECT COUNT(*) AS n FROM orders o JOIN sizes z ON o.qty > z.lo; -- refused: two rows of sizes
-- == LEFT JOIN with conditions
SELECT s.city, COUNT(*) AS n FROM orders o LEFT JOIN stores s ON o.store_id = s.store_id AND o.member GROUP BY s.city ORDER BY 1 NULLS LAST;
SELECT s.city, COUNT(*) AS n FROM orders o LEFT JOIN stores s ON o.store_id = s.store_id AND s.area > 90 GROUP BY s.city ORDER BY 1 NULLS LAST;
SELECT COUNT(s.city) AS n, COUNT(*) AS m, SUM(s.area) AS a FROM orders o LEFT JOIN stores s ON o.store_id = s.store_id AND s.area > o.price;
SELECT COUNT(s.city) AS n, COUNT(*) AS m FROM orders o LEFT JOIN (SELECT * FROM stores WHERE area > 90) s ON o.store_id = s.store_id;
SELECT COUNT(*) AS n FROM orders o LEFT JOIN stores s ON o.store_id = s.store_id AND s.country = 'NL' WHERE s.store_id IS NULL;
-- == Conditions on several private tables
SELECT COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM logins l JOIN orders p ON l.customer = p.customer WHERE l.customer = o.customer AND p.qty > 8);
SELECT COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM logins l WHERE l.customer = o.customer AND EXISTS (SELECT 1 FROM orders p WHERE p.customer = l.customer AND p.returned));
SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT customer FROM logins WHERE customer IN (SELECT customer FROM orders WHERE returned));
SELECT region, COUNT(*) AS n FROM orders WHERE customer IN (SELECT customer FROM logins GROUP BY customer HAVING COUNT(*) > 2) GROUP BY region ORDER BY 1;
SELECT COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT l.customer FROM logins l WHERE l.customer = o.customer GROUP BY l.customer HAVING SUM(minutes) > 60);
SELECT (SELECT COUNT(*) FROM logins WHERE customer IN (SELECT customer FROM orders WHERE member)) * 1.0 / COUNT(*) AS r FROM orders WHERE customer IN (SELECT customer FROM logins);
SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT l.customer FROM logins l JOIN orders p ON l.customer = p.customer WHERE p.qty > 8 AND l.failed);
SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT customer FROM logins WHERE failed UNION SELECT customer FROM orders WHERE returned);
SELECT COUNT(DISTINCT customer) AS n FROM orders WHERE customer IN (SELECT customer FROM logins WHERE failed EXCEPT SELECT customer FROM orders WHERE returned);
SELECT COUNT(*) AS n FROM logins WHERE customer IN (SELECT customer FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed) > 5);
SELECT AVG(m) AS a FROM (SELECT customer, SUM(qty) AS m FROM orders WHERE customer IN (SELECT customer FROM logins GROUP BY 1 HAVING COUNT(*) >= 3) GROUP BY customer) t;
SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT customer FROM orders o JOIN stores s ON s.store_id = o.store_id AND s.country = 'NL');
SELECT COUNT(*) AS n FROM logins l WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = l.customer AND o.customer IN (SELECT customer FROM logins WHERE failed));
SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT device FROM logins); -- refused: asks about the same people
SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT customer FROM logins GROUP BY customer, device); -- refused: names the privacy unit
-- == Different values, and values of a person
SELECT VARIANCE(DISTINCT qty) AS v, STDDEV(DISTINCT qty) AS s FROM orders;
SELECT region, VAR_POP(DISTINCT rating) AS v FROM orders GROUP BY region ORDER BY 1;
SELECT region, STDDEV_POP(DISTINCT qty) FILTER (WHERE member) AS v, AVG(DISTINCT qty) AS a FROM orders GROUP BY region ORDER BY 1;
SELECT STDDEV_SAMP(DISTINCT store_id - 3) AS v FROM orders WHERE returned;
SELECT region, v / SUM(v) OVER () AS s FROM (SELECT region, VAR_SAMP(DISTINCT qty) AS v FROM orders GROUP BY region) t ORDER BY 1;
SELECT AVG(m) AS a FROM (SELECT customer, MEDIAN(qty) AS m FROM orders GROUP BY customer) t;
SELECT AVG(m) AS a FROM (SELECT customer, MEDIAN(price) AS m FROM orders GROUP BY customer) t;
SELECT m, COUNT(*) AS a FROM (SELECT customer, MODE(member) AS m FROM orders GROUP BY customer) t GROUP BY m ORDER BY m;
SELECT m, COUNT(*) AS a FROM (SELECT customer, MODE(region) AS m FROM orders GROUP BY customer) t GROUP BY m ORDER BY m; -- wrong: of several values that are the most frequent it is the least, not the one stored first
SELECT AVG(m) AS a FROM (SELECT customer, STDDEV(qty) AS m FROM orders GROUP BY customer) t;
SELECT AVG(m) AS a, COUNT(m) AS n FROM (SELECT customer, VARIANCE(price) AS m FROM orders GROUP BY customer) t;
SELECT COUNT(*) AS a FROM (SELECT customer, STDDEV_POP(price) AS m FROM orders GROUP BY customer) t WHERE m > 20;
SELECT COUNT(*) AS a FROM (SELECT customer, MEDIAN(price) AS m FROM orders GROUP BY customer HAVING STDDEV(qty) > 2) t WHERE m > 20;
SELECT SUM(CASE WHEN o.price > m.m THEN 1 ELSE 0 END) AS a FROM orders o JOIN (SELECT customer, MEDIAN(price) AS m FROM orders GROUP BY customer) m USING (customer);
SELECT MEDIAN(DISTINCT qty) AS v FROM orders; -- refused: STDDEV of DISTINCT values are
-- == Windows within a person: means, parts, frames by value
SELECT AVG(m) AS a FROM (SELECT AVG(qty) OVER (PARTITION BY customer) AS m FROM orders) t;
SELECT AVG(m) AS a FROM (SELECT AVG(price) OVER (PARTITION BY customer ORDER BY placed) AS m FROM orders) t;
SELECT COUNT(*) AS n FROM (SELECT qty, AVG(qty) OVER (PARTITION BY customer) AS m FROM orders) t WHERE qty > m;
SELECT SUM(m) AS a, COUNT(m) AS c FROM (SELECT AVG(price) OVER (PARTITION BY customer ORDER BY placed ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS m FROM orders) t;
SELECT q, COUNT(*) AS n FROM (SELECT NTILE(4) OVER (PARTITION BY customer ORDER BY placed) AS q FROM orders) t GROUP BY q ORDER BY 1;
SELECT AVG(m) AS a FROM (SELECT COUNT(*) OVER (PARTITION BY customer ORDER BY day RANGE BETWEEN INTERVAL 30 DAYS PRECEDING AND CURRENT ROW) AS m FROM orders) t;
SELECT AVG(m) AS a FROM (SELECT SUM(qty) OVER (PARTITION BY customer ORDER BY store_id RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS m FROM orders) t;
SELECT AVG(m) AS a FROM (SELECT SUM(qty) OVER (PARTITION BY customer ORDER BY placed RANGE BETWEEN INTERVAL '36 hours' PRECEDING AND CURRENT ROW) AS m FROM orders) t;
SELECT SUM(m) AS a FROM (SELECT MAX(qty) OVER (PARTITION BY customer ORDER BY day DESC RANGE BETWEEN INTERVAL 10 DAY PRECEDING AND INTERVAL 10 DAY FOLLOWING) AS m FROM orders) t;
SELECT SUM(m) AS a FROM (SELECT COUNT(*) OVER (PARTITION BY customer ORDER BY price RANGE BETWEEN 5.5 PRECEDING AND UNBOUNDED FOLLOWING) AS m FROM orders) t;
SELECT COUNT(*) AS n FROM (SELECT channel, LAG(channel) OVER (PARTITION BY customer ORDER BY placed) AS p FROM orders) t WHERE channel <> p;
SELECT COUNT(*) AS n FROM (SELECT region, channel, LAG(channel) OVER (PARTITION BY customer ORDER BY placed) AS p FROM orders) t WHERE region = p;
SELECT COUNT(*) AS n FROM (SELECT customer, LAG(customer) OVER (PARTITION BY customer ORDER BY placed) AS p FROM orders) t WHERE customer = p;
SELECT AVG(gap) AS a FROM (SELECT DATE_DIFF('day', LAG(day) OVER (PARTITION BY customer ORDER BY day), day) AS gap FROM orders) t;
SELECT AVG(gap) AS a FROM (SELECT LEAD(day) OVER (PARTITION BY customer ORDER BY day) - day AS gap FROM orders) t;
SELECT SUM(m) AS a FROM (SELECT COUNT(*) OVER (PARTITION BY customer ORDER BY day RANGE BETWEEN 3 PRECEDING AND CURRENT ROW) AS m FROM orders) t; -- refused: reaches a length of time
SELECT AVG(m) AS a FROM (SELECT PERCENT_RANK() OVER (PARTITION BY customer ORDER BY placed) AS m FROM orders) t;

-- == Joins by computed conditions, columns that public ones determine, modes, lists and places
SELECT COUNT(*) AS n FROM orders o CROSS JOIN stores s WHERE o.store_id = s.store_id;
SELECT s.city, COUNT(*) AS n FROM orders o CROSS JOIN stores s WHERE o.store_id = s.store_id GROUP BY s.city;
SELECT h.head, COUNT(*) AS n FROM orders o CROSS JOIN heads h WHERE UPPER(o.region) = h.title GROUP BY h.head ORDER BY 1;
SELECT h.head, COUNT(*) AS n FROM orders o, heads h WHERE UPPER(o.region) = h.title GROUP BY h.head ORDER BY 1;
SELECT h.head, COUNT(*) AS n FROM orders o, heads h WHERE h.title = UPPER(o.region) AND o.qty > 3 GROUP BY h.head ORDER BY 1;
SELECT z.size, COUNT(*) AS n FROM orders o, sizes z WHERE o.qty >= z.lo AND o.qty < z.hi GROUP BY z.size ORDER BY 1;
SELECT z.size, COUNT(*) AS n FROM orders o CROSS JOIN sizes z WHERE o.qty >= z.lo AND o.qty < z.hi AND o.member GROUP BY z.size ORDER BY 1;
SELECT y.target, COUNT(*) AS n FROM orders o, years y WHERE YEAR(o.day) = y.year GROUP BY 1 ORDER BY 1;
SELECT st.weight, AVG(o.qty) AS n FROM orders o, standard st WHERE st.band = CASE WHEN o.price < 50 THEN 'cheap' ELSE 'dear' END GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM orders o, sizes z WHERE o.qty BETWEEN z.lo AND z.hi - 1 AND z.size = 'some';
SELECT v, COUNT(*) AS a FROM (SELECT NTH_VALUE(region, 2) OVER (PARTITION BY customer ORDER BY placed ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS v FROM orders) t GROUP BY v ORDER BY v; -- keys
SELECT COUNT(*) FROM (SELECT DISTINCT rating FROM orders) t;
SELECT COUNT(*) FROM (SELECT DISTINCT rating FROM orders WHERE member) t;
SELECT COUNT(rating) AS n FROM (SELECT DISTINCT rating FROM orders) t;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT qty FROM orders) t;
SELECT COUNT(*) AS n FROM (SELECT rating FROM orders GROUP BY rating) t;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT rating * 2 AS d FROM orders) t;
WITH d AS (SELECT DISTINCT rating FROM orders) SELECT COUNT(*) AS n FROM d;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT rating, channel FROM orders) t;
SELECT s.city, h.head, COUNT(*) AS n FROM orders o, stores s, heads h WHERE UPPER(o.region) = h.title AND o.store_id = s.store_id GROUP BY 1, 2 ORDER BY 1, 2;
SELECT h.head, SUM(t.n) AS n FROM (SELECT UPPER(region) AS r, COUNT(*) AS n FROM orders GROUP BY 1) t, heads h WHERE t.r = h.title GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM orders o, sizes z; -- refused: JOIN without a condition
SELECT COUNT(*) AS n FROM orders o, sizes z WHERE z.size = 'one'; -- refused: JOIN without a condition
SELECT COUNT(*) AS n FROM orders o, sizes z WHERE o.qty > z.lo; -- refused: two rows of sizes
SELECT COUNT(*) AS n FROM (SELECT DISTINCT country FROM stores) t;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT day FROM orders) t;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT customer FROM orders) t;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT MONTH(day) AS m FROM orders) t;
SELECT s.city, MAX(s.country) AS c, COUNT(*) AS n FROM orders o JOIN stores s ON o.store_id = s.store_id GROUP BY s.city ORDER BY s.city;
SELECT s.store_id, MAX(s.country) AS c, COUNT(*) AS n FROM orders o JOIN stores s ON o.store_id = s.store_id GROUP BY s.store_id ORDER BY 1;
SELECT s.city, ANY_VALUE(s.area) AS c, COUNT(*) AS n FROM orders o JOIN stores s ON o.store_id = s.store_id GROUP BY s.city ORDER BY s.city;
SELECT z.size, MIN(z.lo) AS lo, MAX(z.hi) AS hi, COUNT(*) AS n FROM orders o JOIN sizes z ON o.qty >= z.lo AND o.qty < z.hi GROUP BY z.size ORDER BY 1;
SELECT g.goal, MAX(g.region) AS r, COUNT(*) AS n FROM orders o JOIN goals g USING (region) GROUP BY g.goal ORDER BY 1;
SELECT s.city, MIN(s.area) AS a, COUNT(*) AS n FROM stores s JOIN orders o ON o.store_id = s.store_id GROUP BY s.city ORDER BY s.city;
SELECT h.title, COUNT(*) AS n, MAX(h.head) AS head FROM orders o JOIN heads h ON UPPER(o.region) = h.title GROUP BY 1 ORDER BY 1;
SELECT STRING_AGG(region || '-' || channel, ', ' ORDER BY region, channel) AS t FROM (SELECT DISTINCT region, channel FROM orders WHERE channel IS NOT NULL) q;
SELECT STRING_AGG(region, ', ' ORDER BY region) AS t FROM (SELECT DISTINCT region, channel FROM orders) q;
SELECT region, STRING_AGG(channel, ', ' ORDER BY channel) AS t FROM (SELECT DISTINCT region, channel FROM orders) q GROUP BY region ORDER BY region;
SELECT region, STRING_AGG(DISTINCT channel, ',' ORDER BY channel) AS t FROM orders GROUP BY region ORDER BY region;
SELECT region, MODE(channel) AS m FROM orders GROUP BY region ORDER BY region;
SELECT region, MODE(store_id) AS m, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region;
SELECT MODE() WITHIN GROUP (ORDER BY region) AS m FROM orders;
SELECT MODE(channel) AS m, MODE(region) AS r FROM orders;
SELECT MODE(channel) AS m, COUNT(*) AS n, AVG(qty) AS q FROM orders WHERE member;
SELECT member, MODE(region) FILTER (WHERE returned) AS m, MODE() WITHIN GROUP (ORDER BY channel) AS c FROM orders GROUP BY member ORDER BY member;
SELECT s.country, MODE(o.channel) AS m FROM orders o JOIN stores s ON o.store_id = s.store_id GROUP BY 1 ORDER BY 1;
SELECT YEAR(day) AS y, MODE(store_id) AS m FROM orders GROUP BY 1 HAVING COUNT(*) > 10 ORDER BY 2, 1;
SELECT UPPER(region) AS r, channel FROM (SELECT DISTINCT region, channel FROM orders) t WHERE channel IS NOT NULL ORDER BY r, channel;
SELECT region, ROW_NUMBER() OVER (ORDER BY region) AS r FROM (SELECT DISTINCT region FROM orders) t;
WITH d AS (SELECT DISTINCT region, channel FROM orders) SELECT d.region, d.channel, COALESCE(t.n, 0) AS n FROM d LEFT JOIN (SELECT region, channel, COUNT(*) AS n FROM orders WHERE returned GROUP BY 1, 2) t ON d.region = t.region AND d.channel = t.channel ORDER BY 1, 2;
SELECT region, MODE(channel) AS m FROM orders GROUP BY ROLLUP(region);
SELECT MODE(LENGTH(region)) AS m, MODE(MONTH(day)) AS d FROM orders;
SELECT AVG(p) AS a FROM (SELECT PERCENT_RANK() OVER (PARTITION BY customer ORDER BY price) AS p FROM orders) t;
SELECT AVG(p) AS a FROM (SELECT CUME_DIST() OVER (PARTITION BY customer ORDER BY placed) AS p FROM orders) t;
SELECT COUNT(*) AS a FROM (SELECT CUME_DIST() OVER (PARTITION BY customer ORDER BY placed) AS p FROM orders) t WHERE p <= 0.5;
SELECT SUM(v) AS a FROM (SELECT customer, NTH_VALUE(qty, 2) OVER (PARTITION BY customer ORDER BY placed) AS v FROM orders) t;
SELECT COUNT(*) AS a FROM (SELECT PERCENT_RANK() OVER (PARTITION BY customer ORDER BY placed DESC) AS p FROM orders) t WHERE p = 0;
SELECT region, AVG(p) AS a FROM (SELECT region, CUME_DIST() OVER (PARTITION BY customer ORDER BY qty) AS p FROM orders) t GROUP BY region ORDER BY region;
SELECT SUM(v) AS a FROM (SELECT NTH_VALUE(qty, 3) OVER (PARTITION BY customer ORDER BY placed ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS v FROM orders) t;
SELECT SUM(v) AS a FROM (SELECT NTH_VALUE(qty, 2) OVER (PARTITION BY customer ORDER BY qty) AS v FROM orders) t;
SELECT AVG(v) AS a FROM (SELECT NTH_VALUE(qty, 0) OVER (PARTITION BY customer ORDER BY placed) AS v FROM orders) t; -- refused: from 1 to 1,000
SELECT AVG(v) AS a FROM (SELECT NTH_VALUE(qty, 2) OVER (PARTITION BY region ORDER BY placed) AS v FROM orders) t; -- refused: PARTITION BY names
SELECT s.country, MAX(s.city) AS c, COUNT(*) AS n FROM orders o JOIN stores s ON o.store_id = s.store_id GROUP BY s.country ORDER BY 1; -- refused: one row

-- == Metabase, dashboards with filters and joins
SELECT CASE WHEN "source"."sum" >= 30000 THEN 'big' WHEN "source"."sum" >= 20000 THEN 'middle' ELSE 'small' END AS "Size", COUNT(*) AS "count", AVG("source"."sum") AS "avg" FROM (SELECT "orders"."store_id" AS "store_id", SUM("orders"."price") AS "sum" FROM "orders" GROUP BY "orders"."store_id") AS "source" GROUP BY 1 ORDER BY 1;
SELECT DATE_TRUNC('quarter', CAST("orders"."placed" AS DATE)) AS "placed", "Stores"."country" AS "Stores__country", SUM("orders"."price") AS "sum" FROM "orders" LEFT JOIN "stores" AS "Stores" ON "orders"."store_id" = "Stores"."store_id" WHERE "Stores"."country" IN ('NL', 'BE') GROUP BY 1, "Stores"."country" ORDER BY 1, 2;
SELECT ("orders"."price" >= 50) AS "dear", FLOOR(("orders"."price" - 0.0) / 20.0) * 20.0 AS "price", COUNT(*) AS "count" FROM "orders" GROUP BY 1, 2 HAVING COUNT(*) > 0 ORDER BY 1, 2;
SELECT SUM(CASE WHEN "orders"."channel" = 'web' THEN "orders"."price" ELSE 0.0 END) / NULLIF(SUM("orders"."price"), 0) AS "Share of web" FROM "orders" WHERE "orders"."day" >= DATE '2024-01-01' AND "orders"."day" < DATE '2025-01-01';
SELECT "orders"."region" AS "region", COUNT(DISTINCT CASE WHEN "orders"."price" > 80 THEN "orders"."customer" END) AS "dear buyers", CAST(COUNT(DISTINCT CASE WHEN "orders"."price" > 80 THEN "orders"."customer" END) AS DOUBLE) / COUNT(DISTINCT "orders"."customer") AS "share" FROM "orders" GROUP BY "orders"."region" ORDER BY "share" DESC;

-- == Superset, virtual datasets
SELECT region AS region, sum(revenue) / sum(buyers) AS "revenue per buyer" FROM (SELECT region, DATE_TRUNC('month', day) AS month, SUM(price) AS revenue, COUNT(DISTINCT customer) AS buyers FROM orders GROUP BY 1, 2) AS virtual_table WHERE month >= DATE '2024-01-01' GROUP BY region ORDER BY "revenue per buyer" DESC LIMIT 50;
SELECT DATE_TRUNC('week', CAST(placed AS DATE)) AS __timestamp, channel AS channel, COUNT(*) AS cnt FROM orders JOIN (SELECT channel AS channel__, COUNT(*) AS mme_inner__ FROM orders WHERE placed >= TIMESTAMP '2024-10-01' GROUP BY channel ORDER BY mme_inner__ DESC LIMIT 2) AS series_limit ON channel = channel__ WHERE placed >= TIMESTAMP '2024-10-01' AND placed < TIMESTAMP '2024-11-04' GROUP BY 1, 2 ORDER BY 1, 2; -- keys
SELECT COALESCE(channel, '<NULL>') AS channel, COUNT(DISTINCT customer) AS "COUNT_DISTINCT(customer)" FROM orders GROUP BY COALESCE(channel, '<NULL>') ORDER BY "COUNT_DISTINCT(customer)" DESC LIMIT 100;
SELECT time_bucket(INTERVAL '3 months', day) AS __timestamp, sum(CASE WHEN returned THEN price ELSE 0 END) / sum(price) AS refund_rate FROM orders GROUP BY 1 ORDER BY 1;
SELECT DATE_TRUNC('month', day) AS m, sum(qty) AS q, sum(sum(qty)) OVER (PARTITION BY YEAR(DATE_TRUNC('month', day)) ORDER BY DATE_TRUNC('month', day)) AS ytd FROM orders GROUP BY m ORDER BY m;

-- == Grafana, alerts and moving averages
SELECT t AS time, v AS value, AVG(v) OVER w AS mean, STDDEV_POP(v) OVER w AS sd FROM (SELECT DATE_TRUNC('month', placed) AS t, COUNT(*) AS v FROM orders GROUP BY 1) AS s WINDOW w AS (ORDER BY t ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) ORDER BY t;
SELECT t AS time, CASE WHEN v > 1.05 * LAG(v) OVER (ORDER BY t) THEN 'up' WHEN v < 0.95 * LAG(v) OVER (ORDER BY t) THEN 'down' ELSE 'flat' END AS state FROM (SELECT DATE_TRUNC('quarter', day) AS t, SUM(price) AS v FROM orders GROUP BY 1) AS s ORDER BY t;
SELECT HOUR(placed) AS hour, DAYOFWEEK(placed) AS dow, COUNT(*) AS value FROM orders WHERE HOUR(placed) BETWEEN 9 AND 11 GROUP BY 1, 2 ORDER BY 2, 1;
SELECT DATE_TRUNC('month', placed) AS time, APPROX_QUANTILE(qty, 0.5) AS p50 FROM orders WHERE placed < TIMESTAMP '2023-04-01' GROUP BY 1 ORDER BY 1;
SELECT 'returned' AS metric, DATE_TRUNC('year', day) AS time, COUNT(*) FILTER (returned) AS value FROM orders GROUP BY 2 UNION ALL SELECT 'kept', DATE_TRUNC('year', day), COUNT(*) FILTER (NOT returned) FROM orders GROUP BY 2 ORDER BY 1, 2;

-- == Tableau, level of detail
SELECT "t0"."region" AS "region", "t0"."month" AS "month", "t0"."s" AS "s", "t0"."s" / "t1"."total" AS "share" FROM (SELECT "orders"."region" AS "region", MONTH("orders"."day") AS "month", SUM("orders"."price") AS "s" FROM "orders" GROUP BY 1, 2) "t0" INNER JOIN (SELECT "orders"."region" AS "region", SUM("orders"."price") AS "total" FROM "orders" GROUP BY 1) "t1" ON ("t0"."region" IS NOT DISTINCT FROM "t1"."region") WHERE "t0"."month" <= 3 ORDER BY 1, 2;
SELECT AVG("t"."n") AS "avg:n:ok", MAX("t"."n") AS "max:n:ok", MIN("t"."n") AS "min:n:ok" FROM (SELECT "orders"."region" AS "region", "orders"."member" AS "member", COUNT(1) AS "n" FROM "orders" GROUP BY 1, 2) "t";
SELECT "orders"."region" AS "region", CAST(SUM("orders"."qty") AS DOUBLE) / CAST(COUNT(DISTINCT "orders"."customer") AS DOUBLE) AS "usr:Calculation_1:qk" FROM "orders" WHERE (("orders"."channel" IN ('phone', 'web')) AND (NOT "orders"."returned")) GROUP BY 1;
SELECT "x"."first" AS "cohort", COUNT(DISTINCT "orders"."customer") AS "ctd" FROM "orders" INNER JOIN (SELECT "orders"."customer" AS "customer", DATE_TRUNC('QUARTER', MIN("orders"."day")) AS "first" FROM "orders" GROUP BY 1) "x" ON "orders"."customer" = "x"."customer" GROUP BY 1 ORDER BY 1;
SELECT (CASE WHEN "orders"."member" THEN 'Member' WHEN NOT "orders"."member" THEN 'Guest' ELSE NULL END) AS "kind", DATE_PART('year', "orders"."day") AS "yr", SUM("orders"."price") AS "sum" FROM "orders" GROUP BY 1, 2 ORDER BY 2, 1; -- keys

-- == Looker, derived tables
WITH user_facts AS (SELECT customer, COUNT(*) AS lifetime_orders, SUM(price) AS lifetime_revenue FROM orders GROUP BY 1) SELECT CASE WHEN user_facts.lifetime_orders >= 8 THEN 'frequent' WHEN user_facts.lifetime_orders >= 4 THEN 'regular' ELSE 'rare' END AS "user_facts.tier", COUNT(*) AS "user_facts.count", COALESCE(SUM(user_facts.lifetime_revenue), 0) AS "user_facts.revenue" FROM user_facts GROUP BY 1 ORDER BY 2 DESC LIMIT 500;
SELECT (DATE_PART('week', orders.day)) AS "orders.week", COUNT(*) AS "orders.count" FROM orders WHERE YEAR(orders.day) = 2024 AND (DATE_PART('week', orders.day)) <= 4 GROUP BY 1 ORDER BY 1;
SELECT stores.city AS "stores.city", COUNT(DISTINCT orders.customer) AS "orders.customers", COALESCE(SUM(orders.price), 0) / NULLIF(MAX(stores.area), 0) AS "orders.revenue_per_m2" FROM orders JOIN stores ON orders.store_id = stores.store_id GROUP BY stores.city, stores.store_id ORDER BY 1;
SELECT CASE WHEN orders.price < 20 THEN 'T1' WHEN orders.price < 60 THEN 'T2' WHEN orders.price >= 60 THEN 'T3' ELSE 'Undefined' END AS "orders.price_tier", AVG(orders.rating) AS "orders.avg_rating", COUNT(orders.rating) AS "orders.rated" FROM orders GROUP BY 1 HAVING COUNT(orders.rating) > 100 ORDER BY 1;

-- == Power BI, measures
SELECT [t].[region], [t].[a0] AS [sales], [t].[a1] AS [returns], CASE WHEN [t].[a0] = 0 THEN NULL ELSE [t].[a1] * 1.0 / [t].[a0] END AS [rate] FROM (SELECT [region], SUM([price]) AS [a0], SUM(CASE WHEN [returned] = 1 THEN [price] ELSE 0 END) AS [a1] FROM [orders] GROUP BY [region]) AS [t] ORDER BY [rate] DESC;
SELECT TOP 2 [city], [sales] FROM (SELECT [s].[city] AS [city], SUM([o].[price]) AS [sales] FROM [orders] AS [o] INNER JOIN [stores] AS [s] ON [o].[store_id] = [s].[store_id] GROUP BY [s].[city]) AS [x] ORDER BY [sales] DESC;
SELECT YEAR([day]) AS [y], DATEPART(quarter, [day]) AS [q], SUM([price]) AS [s], SUM(SUM([price])) OVER (PARTITION BY YEAR([day]) ORDER BY DATEPART(quarter, [day])) AS [ytd] FROM [orders] GROUP BY YEAR([day]), DATEPART(quarter, [day]) ORDER BY [y], [q];
SELECT IIF([price] > 50, 'dear', 'cheap') AS [band], COUNT_BIG(*) AS [n] FROM [orders] GROUP BY IIF([price] > 50, 'dear', 'cheap') ORDER BY [band];
SELECT [member], COALESCE(AVG(CAST([rating] AS FLOAT)), 0) AS [mean rating], COUNT(*) - COUNT([rating]) AS [unrated] FROM [orders] GROUP BY [member] ORDER BY [member];

-- == dbt metrics, derived and cumulative
WITH orders_by_month AS (SELECT DATE_TRUNC('month', day) AS date_month, region, SUM(price) AS revenue FROM orders GROUP BY 1, 2), spine AS (SELECT DISTINCT date_month FROM orders_by_month), totals AS (SELECT date_month, SUM(revenue) AS total FROM orders_by_month GROUP BY 1) SELECT s.date_month, o.region, o.revenue, ROUND(100 * o.revenue / t.total, 1) AS pct FROM spine s JOIN orders_by_month o USING (date_month) JOIN totals t USING (date_month) WHERE s.date_month >= DATE '2024-11-01' ORDER BY 1, 2;
WITH base AS (SELECT day AS metric_time, price FROM orders WHERE channel IS NOT NULL), agg AS (SELECT DATE_TRUNC('quarter', metric_time) AS metric_time, SUM(price) AS revenue FROM base GROUP BY 1) SELECT metric_time, revenue, LAG(revenue, 4) OVER (ORDER BY metric_time) AS revenue_last_year, revenue / LAG(revenue, 4) OVER (ORDER BY metric_time) - 1 AS yoy FROM agg ORDER BY metric_time;
WITH first_orders AS (SELECT customer, MIN(day) AS first_day FROM orders GROUP BY customer) SELECT DATE_TRUNC('month', first_day) AS cohort_month, COUNT(*) AS new_customers FROM first_orders WHERE first_day < DATE '2023-05-01' GROUP BY 1 ORDER BY 1;
WITH active AS (SELECT customer, DATE_TRUNC('month', day) AS m FROM orders GROUP BY 1, 2) SELECT m, COUNT(*) AS active_customers FROM active WHERE m >= DATE '2024-07-01' GROUP BY m ORDER BY m;
WITH r AS (SELECT SUM(price) FILTER (WHERE NOT returned) AS net, SUM(price) AS gross, COUNT(*) AS n FROM orders) SELECT net, gross, gross - net AS refunded, ROUND(net / n, 2) AS net_per_order, net / NULLIF(gross, 0) AS kept FROM r;

-- == textbooks, sub-queries and set operations
SELECT region FROM orders GROUP BY region HAVING SUM(price) > (SELECT AVG(t) FROM (SELECT SUM(price) AS t FROM orders GROUP BY region) AS x) ORDER BY region;
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) >= ALL (SELECT COUNT(*) FROM orders GROUP BY region);
SELECT store_id FROM orders WHERE member GROUP BY store_id HAVING COUNT(*) > 300 INTERSECT SELECT store_id FROM orders WHERE NOT member GROUP BY store_id HAVING COUNT(*) > 200 ORDER BY store_id;
SELECT region, 'high' AS kind FROM orders GROUP BY region HAVING AVG(price) > 35 EXCEPT SELECT region, 'high' FROM orders GROUP BY region HAVING COUNT(*) < 500 ORDER BY 1;
SELECT o.region, o.n, (SELECT COUNT(*) FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS p WHERE p.n > o.n) + 1 AS place FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS o ORDER BY place;
SELECT s.city FROM stores s WHERE s.store_id IN (SELECT store_id FROM orders GROUP BY store_id HAVING COUNT(*) > 450) ORDER BY s.city;
SELECT s.city, s.area FROM stores s WHERE EXISTS (SELECT 1 FROM (SELECT store_id, COUNT(*) AS n FROM orders GROUP BY store_id) t WHERE t.store_id = s.store_id AND t.n > s.area * 5) ORDER BY s.area;
SELECT COUNT(*) AS n FROM orders WHERE price BETWEEN (SELECT AVG(price) FROM orders) - 10 AND (SELECT AVG(price) FROM orders) + 10;
SELECT s.city, COALESCE(t.n, 0) AS n FROM stores s LEFT JOIN (SELECT store_id, COUNT(*) AS n FROM orders WHERE returned GROUP BY store_id) t ON s.store_id = t.store_id ORDER BY s.city;
SELECT g.region, g.goal, t.s, t.s >= g.goal AS reached FROM goals g JOIN (SELECT region, SUM(qty) AS s FROM orders WHERE YEAR(day) = 2024 GROUP BY region) t ON t.region = g.region ORDER BY g.region;
SELECT channel, member, COUNT(*) AS n FROM orders WHERE (channel, member) IN (('web', TRUE), ('shop', FALSE)) GROUP BY channel, member ORDER BY 1, 2;
SELECT COUNT(*) AS n FROM orders WHERE NOT (region = 'north' OR channel LIKE 'p%') AND COALESCE(rating, 0) >= 4;
SELECT region, SUM(qty) AS s FROM orders GROUP BY region ORDER BY CASE region WHEN 'west' THEN 0 WHEN 'north' THEN 1 ELSE 2 END, region;

-- == healthcare
SELECT CASE WHEN n = 1 THEN '1' WHEN n <= 3 THEN '2-3' WHEN n <= 6 THEN '4-6' ELSE '7+' END AS visits, COUNT(*) AS patients FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) v GROUP BY 1 ORDER BY 1; -- keys
SELECT AVG(CASE WHEN gap <= 30 THEN 1.0 ELSE 0.0 END) AS readmitted FROM (SELECT DATE_DIFF('day', day, LEAD(day) OVER (PARTITION BY customer ORDER BY placed)) AS gap FROM orders) t WHERE gap IS NOT NULL;
SELECT region, 1000.0 * COUNT(*) FILTER (WHERE returned) / COUNT(*) AS per_1000, SQRT(COUNT(*) FILTER (WHERE returned)) / COUNT(*) * 1000 AS se FROM orders GROUP BY region ORDER BY region;
SELECT SUM(w.weight * t.rate) / SUM(w.weight) AS standardised FROM (SELECT CASE WHEN price < 50 THEN 'cheap' ELSE 'dear' END AS band, 1.0 * COUNT(*) FILTER (WHERE returned) / COUNT(*) AS rate FROM orders GROUP BY 1) t JOIN standard w ON w.band = t.band;
SELECT member, COUNT(DISTINCT customer) AS patients, COUNT(*) AS visits, ROUND(COUNT(*) * 1.0 / COUNT(DISTINCT customer), 2) AS each FROM orders WHERE EXISTS (SELECT 1 FROM logins l WHERE l.customer = orders.customer AND l.failed) GROUP BY member ORDER BY member;
SELECT CASE WHEN rating IS NULL THEN 'not asked' WHEN rating <= 2 THEN 'poor' WHEN rating = 3 THEN 'fair' ELSE 'good' END AS outcome, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS percent FROM orders GROUP BY 1 ORDER BY n DESC;
SELECT QUANTILE_CONT(d, 0.5) AS median_days FROM (SELECT customer, DATE_DIFF('day', MIN(day), MAX(day)) AS d FROM orders GROUP BY customer) t;
SELECT COUNT(*) AS lost FROM (SELECT customer, MAX(day) AS last_seen FROM orders GROUP BY customer) t WHERE last_seen < DATE '2024-06-01';

-- == education
SELECT grade, COUNT(*) AS pupils FROM (SELECT customer, CASE WHEN AVG(rating) >= 4 THEN 'A' WHEN AVG(rating) >= 3 THEN 'B' ELSE 'C' END AS grade FROM orders GROUP BY customer) t GROUP BY grade ORDER BY grade;
SELECT region, AVG(rating) AS mean, AVG(rating) - (SELECT AVG(rating) FROM orders) AS apart, (AVG(rating) - (SELECT AVG(rating) FROM orders)) / (SELECT STDDEV(rating) FROM orders) AS z FROM orders GROUP BY region ORDER BY region;
SELECT NTILE(2) OVER (ORDER BY s DESC) AS half, region, s FROM (SELECT region, SUM(qty) AS s FROM orders GROUP BY region) t ORDER BY half, region;
SELECT COUNT(*) AS improved FROM (SELECT customer, ARG_MIN(rating, placed) AS r0, ARG_MAX(rating, placed) AS r1 FROM orders WHERE rating IS NOT NULL GROUP BY customer) t WHERE r1 > r0;
SELECT CORR(qty, rating) AS r, REGR_SLOPE(rating, qty) AS slope FROM orders;
SELECT REPEAT('*', 3) AS stars, COUNT(*) AS n FROM orders WHERE rating = 3; -- refused: REPEAT
SELECT region, COUNT(*) FILTER (WHERE rating >= 3) AS passed, COUNT(rating) AS sat, PRINTF('%.1f%%', 100.0 * COUNT(*) FILTER (WHERE rating >= 3) / COUNT(rating)) AS rate FROM orders GROUP BY region ORDER BY region;

-- == finance
SELECT m, s, SUM(s) OVER (ORDER BY m) AS cumulative, s - FIRST_VALUE(s) OVER (ORDER BY m) AS since_start, ROUND(100.0 * s / FIRST_VALUE(s) OVER (ORDER BY m), 1) AS index_100 FROM (SELECT DATE_TRUNC('quarter', day) AS m, SUM(price * qty) AS s FROM orders GROUP BY 1) t ORDER BY m;
SELECT store_id, s, cum / total AS cum_share, CASE WHEN cum / total <= 0.8 THEN 'A' ELSE 'B' END AS class FROM (SELECT store_id, s, SUM(s) OVER (ORDER BY s DESC) AS cum, SUM(s) OVER () AS total FROM (SELECT store_id, SUM(price) AS s FROM orders GROUP BY store_id) x) y ORDER BY s DESC;
SELECT SUM(POWER(share, 2)) AS hhi FROM (SELECT store_id, SUM(price) / SUM(SUM(price)) OVER () AS share FROM orders GROUP BY store_id) t;
SELECT YEAR(day) AS y, SUM(price * qty) AS turnover, SUM(price * qty) * 0.21 AS vat, ROUND(SUM(price * qty) / 12, 0) AS per_month FROM orders GROUP BY 1 ORDER BY 1;
SELECT a.m AS m, a.s AS s24, b.s AS s23, (a.s - b.s) / b.s * 100 AS growth FROM (SELECT MONTH(day) AS m, SUM(price) AS s FROM orders WHERE YEAR(day) = 2024 GROUP BY 1) a JOIN (SELECT MONTH(day) AS m, SUM(price) AS s FROM orders WHERE YEAR(day) = 2023 GROUP BY 1) b ON a.m = b.m ORDER BY a.m;
SELECT CASE WHEN price < 10 THEN '0-10' WHEN price < 30 THEN '10-30' ELSE '30+' END AS bucket, SUM(price) AS exposure, SUM(CASE WHEN returned THEN price END) AS loss, COALESCE(SUM(CASE WHEN returned THEN price END), 0) / SUM(price) AS lgd FROM orders GROUP BY bucket ORDER BY bucket;
SELECT region, s, s - LEAD(s) OVER (ORDER BY s DESC) AS lead_over_next, MAX(s) OVER () - s AS behind FROM (SELECT region, SUM(price) AS s FROM orders GROUP BY region) t ORDER BY s DESC;

-- == product analytics: funnels, retention, sessions, RFM
SELECT COUNT(*) AS started, COUNT(*) FILTER (WHERE shop) AS second_step, COUNT(*) FILTER (WHERE shop AND phone) AS third_step FROM (SELECT customer, BOOL_OR(channel = 'web') AS web, BOOL_OR(channel = 'shop') AS shop, BOOL_OR(channel = 'phone') AS phone FROM orders GROUP BY customer) t WHERE web;
SELECT COUNT(*) AS users, COUNT(*) FILTER (WHERE d BETWEEN 1 AND 30) AS month_one, 1.0 * COUNT(*) FILTER (WHERE d BETWEEN 1 AND 30) / COUNT(*) AS kept FROM (SELECT customer, DATE_DIFF('day', MIN(day), MAX(day)) AS d FROM orders GROUP BY customer) t;
SELECT CASE WHEN f >= 7 THEN 'F3' WHEN f >= 4 THEN 'F2' ELSE 'F1' END AS f, CASE WHEN m >= 250 THEN 'M2' ELSE 'M1' END AS m, COUNT(*) AS people FROM (SELECT customer, COUNT(*) AS f, SUM(price) AS m FROM orders GROUP BY customer) t GROUP BY 1, 2 ORDER BY 1, 2; -- keys
SELECT SUM(is_new) AS sessions FROM (SELECT CASE WHEN DATE_DIFF('day', LAG(day) OVER (PARTITION BY customer ORDER BY placed), day) > 7 OR LAG(day) OVER (PARTITION BY customer ORDER BY placed) IS NULL THEN 1 ELSE 0 END AS is_new FROM orders) t;
SELECT channel AS first_channel, COUNT(*) AS people FROM (SELECT customer, channel, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed) AS rn FROM orders) t WHERE rn = 1 GROUP BY channel ORDER BY people DESC;
SELECT a.channel AS from_channel, COUNT(*) AS n FROM (SELECT channel, LEAD(channel) OVER (PARTITION BY customer ORDER BY placed) AS next FROM orders) a WHERE a.next = 'web' GROUP BY 1 ORDER BY n DESC;
SELECT months, COUNT(*) AS customers FROM (SELECT customer, COUNT(DISTINCT DATE_TRUNC('month', day)) AS months FROM orders GROUP BY customer) t WHERE months <= 4 GROUP BY months ORDER BY months; -- keys
SELECT COUNT(DISTINCT o.customer) AS n FROM orders o WHERE o.customer NOT IN (SELECT customer FROM logins WHERE device = 'phone');
SELECT l.device, COUNT(DISTINCT l.customer) AS people, SUM(l.minutes) AS minutes FROM logins l WHERE l.customer IN (SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) > 5) GROUP BY l.device ORDER BY l.device;
SELECT m, n, n - LAG(n) OVER (ORDER BY m) AS net_new, SUM(n) OVER (ORDER BY m ROWS UNBOUNDED PRECEDING) AS total FROM (SELECT DATE_TRUNC('month', f) AS m, COUNT(*) AS n FROM (SELECT customer, MIN(day) AS f FROM orders GROUP BY customer) x WHERE f < DATE '2023-07-01' GROUP BY 1) t ORDER BY m;
SELECT AVG(days) AS days_to_second FROM (SELECT DATE_DIFF('day', LAG(day) OVER (PARTITION BY customer ORDER BY placed), day) AS days, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed) AS rn FROM orders) t WHERE rn = 2;
SELECT CASE WHEN last_day >= DATE '2024-10-01' THEN 'active' WHEN last_day >= DATE '2024-04-01' THEN 'dormant' ELSE 'gone' END AS state, COUNT(*) AS n, AVG(total) AS mean_spend FROM (SELECT customer, MAX(day) AS last_day, SUM(price) AS total FROM orders GROUP BY customer) t GROUP BY 1 ORDER BY 1;

-- == gaps, islands, pivots and ranks of released rows
SELECT MIN(m) AS start, MAX(m) AS stop, COUNT(*) AS months FROM (SELECT m, n, SUM(CASE WHEN n > 125 THEN 0 ELSE 1 END) OVER (ORDER BY m) AS island FROM (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) a) b WHERE n > 125 GROUP BY island ORDER BY 1;
SELECT region, MAX(CASE WHEN channel = 'web' THEN n END) AS web, MAX(CASE WHEN channel = 'shop' THEN n END) AS shop, MAX(CASE WHEN channel = 'phone' THEN n END) AS phone FROM (SELECT region, channel, COUNT(*) AS n FROM orders GROUP BY region, channel) t GROUP BY region ORDER BY region;
SELECT region, store_id, s FROM (SELECT region, store_id, SUM(price) AS s, ROW_NUMBER() OVER (PARTITION BY region ORDER BY SUM(price) DESC) AS r FROM orders GROUP BY region, store_id) t WHERE r <= 2 ORDER BY region, s DESC;
SELECT region, channel, n, ROUND(100.0 * n / SUM(n) OVER (PARTITION BY region), 2) AS in_region, ROUND(100.0 * n / SUM(n) OVER (), 2) AS in_all FROM (SELECT region, channel, COUNT(*) AS n FROM orders WHERE channel IS NOT NULL GROUP BY 1, 2) t ORDER BY region, n DESC;
SELECT m, n, n > COALESCE(LAG(n) OVER (ORDER BY m), 0) AS rose, AVG(n) OVER (ORDER BY m ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS centred FROM (SELECT MONTH(day) AS m, COUNT(*) AS n FROM orders WHERE YEAR(day) = 2023 GROUP BY 1) t ORDER BY m;
SELECT FIRST_VALUE(region) OVER (PARTITION BY channel ORDER BY n DESC) AS best, channel, MAX(n) OVER (PARTITION BY channel) AS top FROM (SELECT channel, region, COUNT(*) AS n FROM orders WHERE channel IS NOT NULL GROUP BY 1, 2) t QUALIFY ROW_NUMBER() OVER (PARTITION BY channel ORDER BY n DESC) = 1 ORDER BY channel;
SELECT region, ARG_MAX(m, n) AS best_month, MAX(n) AS n FROM (SELECT region, MONTH(day) AS m, SUM(price) AS n FROM orders GROUP BY 1, 2) t GROUP BY region ORDER BY region;
SELECT STRING_AGG(region, ' > ' ORDER BY n DESC) AS ranking FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t;
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY n) AS median_month FROM (SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t;

-- == dates and texts
SELECT STRFTIME(day, '%B') AS month, MONTH(day) AS nr, COUNT(*) AS n FROM orders GROUP BY 1, 2 ORDER BY nr;
SELECT CONCAT('Q', QUARTER(day), ' ', YEAR(day)) AS quarter, SUM(price) AS s FROM orders GROUP BY 1 ORDER BY 1;
SELECT CASE WHEN DAYOFWEEK(day) IN (0, 6) THEN 'weekend' ELSE 'weekday' END AS kind, COUNT(*) AS n, COUNT(*) / COUNT(DISTINCT day) AS a_day FROM orders GROUP BY 1 ORDER BY 1;
SELECT UPPER(SUBSTR(region, 1, 1)) || LOWER(SUBSTR(region, 2)) AS name, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT LENGTH(region) AS letters, COUNT(*) AS n FROM orders WHERE region ILIKE '%t%' GROUP BY 1 ORDER BY 1;
SELECT REPLACE(region, 'th', 'TH') AS r, LEFT(region, 2) AS two, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY n DESC;
SELECT LAST_DAY(day) AS end_of_month, COUNT(*) AS n FROM orders WHERE day BETWEEN '2024-01-15' AND '2024-04-15' GROUP BY 1 ORDER BY 1;
SELECT DATE_DIFF('month', DATE '2023-01-01', day) AS month_nr, SUM(qty) AS s FROM orders GROUP BY 1 ORDER BY 1 DESC LIMIT 6;
SELECT day + INTERVAL 1 YEAR AS a_year_on, COUNT(*) AS n FROM orders WHERE day < DATE '2023-01-08' GROUP BY 1 ORDER BY 1;
SELECT NULLIF(channel, 'phone') AS c, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1 NULLS LAST;
SELECT COUNT(*) AS n FROM orders WHERE COALESCE(NULLIF(channel, 'web'), 'none') = 'none' AND EXTRACT(DOW FROM placed) = 1;

-- == Sub-queries about a row's own person, persons in several sets, parts of days
SELECT COUNT(*) AS n FROM orders t WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = t.customer AND o.price > t.price);
SELECT COUNT(*) AS n FROM orders t WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = t.customer AND o.placed > t.placed);
SELECT region, COUNT(*) AS n FROM orders t WHERE EXISTS (SELECT 1 FROM logins l WHERE l.customer = t.customer AND l.minutes > t.qty) GROUP BY region ORDER BY 1;
SELECT COUNT(*) AS n FROM orders t WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = t.customer AND o.region <> t.region);
SELECT COUNT(*) AS n FROM orders t WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = t.customer AND o.day > t.day AND o.day <= t.day + INTERVAL 30 DAY);
SELECT COUNT(DISTINCT customer) AS n FROM orders t WHERE channel = 'web' AND EXISTS (SELECT 1 FROM orders o WHERE o.customer = t.customer AND o.channel = 'shop' AND o.placed > t.placed);
SELECT region, COUNT(*) AS n FROM orders t WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE t.customer = o.customer AND t.rating < o.rating AND o.member) AND qty > 2 GROUP BY region ORDER BY region;
SELECT COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM logins l WHERE l.customer = t.customer AND l.minutes + 1 <= t.qty * 5)) AS n FROM orders t;
SELECT SUM(CASE WHEN NOT EXISTS (SELECT * FROM orders o WHERE o.customer = t.customer AND o.day < t.day) THEN 1 ELSE 0 END) AS firsts FROM orders t;
SELECT COUNT(*) AS n FROM orders t WHERE EXISTS (SELECT 1 FROM orders o WHERE o.region = t.region AND o.price > t.price); -- refused: privacy unit
SELECT COUNT(*) AS n FROM orders t WHERE EXISTS (SELECT 1 FROM logins l WHERE l.customer = t.customer AND l.minutes > 50);
SELECT region, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM orders t WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = t.customer AND o.placed < t.placed AND o.channel = 'web') GROUP BY region ORDER BY region;
SELECT channel, COUNT(*) AS n FROM orders t WHERE placed = (SELECT MIN(placed) FROM orders o WHERE o.customer = t.customer) GROUP BY channel ORDER BY 1;
SELECT COUNT(*) AS n FROM orders t WHERE price > (SELECT AVG(o.price) FROM orders o WHERE o.customer = t.customer);
SELECT COUNT(*) AS n FROM orders t WHERE (SELECT COUNT(*) FROM logins l WHERE l.customer = t.customer) > 1;
SELECT COUNT(*) AS n FROM orders t WHERE qty > (SELECT MAX(l.minutes) / 10 FROM logins l WHERE l.customer = t.customer AND l.failed);
SELECT t.city, MAX(t.country) AS c, COUNT(*) AS n FROM (SELECT o.qty, s.city, s.country FROM orders o JOIN stores s ON o.store_id = s.store_id) t GROUP BY t.city ORDER BY 1;
SELECT region, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM orders t WHERE day = (SELECT MIN(day) FROM orders o WHERE o.customer = t.customer) GROUP BY region ORDER BY region;
SELECT AVG(t.price - (SELECT AVG(o.price) FROM orders o WHERE o.customer = t.customer)) AS apart FROM orders t WHERE channel = 'web';
SELECT DATE_DIFF('month', (SELECT MIN(o.day) FROM orders o WHERE o.customer = t.customer), t.day) AS age, COUNT(*) AS n FROM orders t GROUP BY 1 HAVING COUNT(*) > 100 ORDER BY 1;
SELECT COUNT(*) AS n FROM orders t WHERE price > (SELECT AVG(o.price) FROM orders o WHERE o.region = t.region);
SELECT (SELECT COUNT(*) FROM logins l WHERE l.customer = t.customer) AS logins, COUNT(*) AS n FROM orders t GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS n FROM (SELECT customer FROM orders WHERE YEAR(day) = 2023 INTERSECT SELECT customer FROM orders WHERE YEAR(day) = 2024) t;
SELECT COUNT(*) AS n FROM (SELECT customer FROM orders EXCEPT SELECT customer FROM logins) t;
SELECT COUNT(DISTINCT customer) AS n FROM (SELECT customer FROM orders INTERSECT SELECT customer FROM logins WHERE failed EXCEPT SELECT customer FROM orders WHERE returned) t;
SELECT COUNT(*) AS n FROM (SELECT customer FROM orders WHERE member AND qty > 8 UNION SELECT customer FROM orders WHERE price > 80) t;
SELECT COUNT(*) AS n FROM (SELECT rating FROM orders WHERE member UNION SELECT rating FROM orders WHERE qty > 3) t;
SELECT COUNT(*) * 1.0 / (SELECT COUNT(DISTINCT customer) FROM orders) AS share FROM (SELECT customer FROM orders WHERE day < '2024-01-01' INTERSECT SELECT customer FROM orders WHERE day >= '2024-01-01') t;
SELECT STRFTIME(DATE_TRUNC('hour', placed), '%H:%M') AS at, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
SELECT STRFTIME(placed, '%a %H:00') AS at, COUNT(*) AS n FROM orders WHERE HOUR(placed) < 3 GROUP BY 1 ORDER BY 1;
SELECT STRFTIME(day, '%m-%d') AS at, COUNT(*) AS n FROM orders WHERE MONTH(day) < 3 GROUP BY 1 ORDER BY 1;
SELECT STRFTIME(day, '%d %B') AS at, COUNT(*) AS n FROM orders WHERE day BETWEEN '2024-02-20' AND '2024-03-10' GROUP BY 1 ORDER BY 1;
SELECT has_login, AVG(spend) AS spend FROM (SELECT customer, SUM(price) AS spend, customer IN (SELECT customer FROM logins) AS has_login FROM orders GROUP BY customer) t GROUP BY has_login ORDER BY 1;
SELECT COUNT(*) AS n, SUM(spend) AS s FROM (SELECT customer, SUM(price) AS spend, CASE WHEN customer IN (SELECT customer FROM logins WHERE failed) THEN 1 ELSE 0 END AS f FROM orders GROUP BY customer) t WHERE f = 1;
SELECT s.city, COUNT(o.qty) AS n FROM stores s LEFT JOIN orders o ON o.store_id = s.store_id AND o.returned GROUP BY s.city ORDER BY s.city;
SELECT s.city, COUNT(o.customer) AS n, SUM(o.price) AS p FROM stores s LEFT JOIN orders o ON o.store_id = s.store_id WHERE s.area > 100 GROUP BY s.city ORDER BY s.city;
SELECT s.city, COUNT(*) AS n FROM stores s LEFT JOIN orders o ON o.store_id = s.store_id GROUP BY s.city ORDER BY s.city; -- refused: keeps rows of stores
SELECT s.city, MAX(s.country) AS c, COUNT(*) AS n FROM (SELECT * FROM orders WHERE member) o JOIN stores s ON o.store_id = s.store_id GROUP BY s.city ORDER BY s.city;
SELECT region, channel, MODE(member) AS m, COUNT(*) AS n FROM orders WHERE channel IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2;
WITH t AS (SELECT region, MODE(channel) AS c FROM orders GROUP BY region) SELECT c, COUNT(*) AS regions FROM t GROUP BY c ORDER BY c;
SELECT COUNT(DISTINCT region) AS r, COUNT(DISTINCT (region, channel)) AS p FROM orders;
SELECT COUNT(*) AS n FROM (SELECT DISTINCT price FROM orders WHERE qty = 10) t;
SELECT COUNT(DISTINCT rating) AS a, (SELECT COUNT(*) FROM (SELECT DISTINCT rating FROM orders) t) AS b FROM orders;

-- == Reports of several styles
SELECT o.region, o.total, o.total - a.mean AS apart FROM (SELECT region, SUM(price) AS total FROM orders GROUP BY region) o CROSS JOIN (SELECT AVG(total) AS mean FROM (SELECT SUM(price) AS total FROM orders GROUP BY region) q) a ORDER BY o.region;
SELECT DATE_TRUNC('month', first_day) AS cohort, DATE_DIFF('month', first_day, day) AS age, COUNT(DISTINCT customer) AS people FROM (SELECT customer, day, MIN(day) OVER (PARTITION BY customer) AS first_day FROM orders) t WHERE first_day < DATE '2023-03-01' AND DATE_DIFF('month', first_day, day) <= 3 GROUP BY 1, 2 ORDER BY 1, 2; -- keys
WITH firsts AS (SELECT customer, MIN(day) AS f FROM orders GROUP BY customer) SELECT COUNT(DISTINCT o.customer) FILTER (WHERE o.day > f.f AND o.day <= f.f + INTERVAL 30 DAY) * 1.0 / COUNT(DISTINCT o.customer) AS back_in_30 FROM orders o JOIN firsts f ON o.customer = f.customer;
SELECT COUNT(DISTINCT a.customer) AS both FROM orders a JOIN orders b ON a.customer = b.customer WHERE a.channel = 'web' AND b.channel = 'shop';
SELECT region, COUNT(*) AS n FROM orders o WHERE o.customer IN (SELECT l.customer FROM logins l WHERE l.device = 'laptop' AND l.minutes > 30) GROUP BY region ORDER BY n DESC;
SELECT COUNT(*) AS n FROM (SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) > 3 AND SUM(price) > 100) t;
SELECT AVG(n) AS mean, STDDEV(n) AS sd, MAX(CASE WHEN n >= 10 THEN 1 ELSE 0 END) AS any_ten FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t;
SELECT region, ROUND(AVG(price), 2) AS p, CASE WHEN AVG(price) > (SELECT AVG(price) FROM orders) THEN 'above' ELSE 'below' END AS side FROM orders GROUP BY region ORDER BY region;
SELECT CASE GROUPING(region) WHEN 1 THEN 'all' ELSE region END AS r, COUNT(*) AS n FROM orders GROUP BY ROLLUP(region) ORDER BY n DESC;
SELECT CAST(day AS VARCHAR) AS d, COUNT(*) AS n FROM orders WHERE day BETWEEN '2024-03-01' AND '2024-03-05' GROUP BY 1 ORDER BY 1;
SELECT CAST(YEAR(day) AS VARCHAR) || '-Q' || CAST(QUARTER(day) AS VARCHAR) AS q, SUM(qty) AS s FROM orders GROUP BY 1 ORDER BY 1;
SELECT EXTRACT(ISODOW FROM day) AS d, COUNT(*) / COUNT(DISTINCT day) AS per_day FROM orders GROUP BY 1 ORDER BY 1;
SELECT region, SUM(price) FILTER (WHERE YEAR(day) = 2024) AS y24, SUM(price) FILTER (WHERE YEAR(day) = 2023) AS y23, (SUM(price) FILTER (WHERE YEAR(day) = 2024) - SUM(price) FILTER (WHERE YEAR(day) = 2023)) / SUM(price) FILTER (WHERE YEAR(day) = 2023) AS growth FROM orders GROUP BY region ORDER BY region;
SELECT s.country, SUM(o.price) AS revenue, SUM(o.price) / SUM(SUM(o.price)) OVER () AS share FROM orders o JOIN stores s USING (store_id) GROUP BY s.country HAVING SUM(o.price) > 1000 ORDER BY revenue DESC;
SELECT region, goal, s, ROUND(100.0 * s / goal, 1) AS pct FROM (SELECT region, SUM(qty) AS s FROM orders WHERE day >= '2024-07-01' GROUP BY region) t JOIN goals USING (region) ORDER BY pct DESC;
SELECT y.year, y.target, COALESCE(SUM(t.n), 0) AS n, COALESCE(SUM(t.n), 0) >= y.target AS met FROM years y LEFT JOIN (SELECT YEAR(day) AS year, COUNT(*) AS n FROM orders GROUP BY 1) t ON t.year = y.year GROUP BY y.year, y.target ORDER BY y.year;
SELECT * FROM (SELECT region, channel, COUNT(*) AS n FROM orders WHERE channel IS NOT NULL GROUP BY region, channel) PIVOT (SUM(n) FOR channel IN ('web', 'shop', 'phone')) ORDER BY region;
SELECT device, AVG(minutes) AS m, QUANTILE_CONT(minutes, 0.9) AS p90, COUNT(*) FILTER (WHERE failed) * 100.0 / COUNT(*) AS failing FROM logins GROUP BY device ORDER BY device;
SELECT COUNT(DISTINCT o.customer) AS buyers, COUNT(DISTINCT l.customer) AS users FROM orders o LEFT JOIN logins l ON o.customer = l.customer;
SELECT AVG(orders_n) AS o, AVG(logins_n) AS l FROM (SELECT customer, COUNT(*) AS orders_n FROM orders GROUP BY customer) a JOIN (SELECT customer, COUNT(*) AS logins_n FROM logins GROUP BY customer) b USING (customer);
SELECT MEDIAN(s) AS m FROM (SELECT customer, SUM(qty) AS s FROM orders GROUP BY customer) t;
SELECT QUARTER(day) AS q, AVG(rating) AS r, AVG(rating) - LAG(AVG(rating)) OVER (ORDER BY QUARTER(day)) AS d FROM orders WHERE YEAR(day) = 2024 GROUP BY 1 ORDER BY 1;
SELECT region, n, RANK() OVER (ORDER BY n DESC) AS r, n * 1.0 / FIRST_VALUE(n) OVER (ORDER BY n DESC) AS of_best FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ORDER BY r;
WITH m AS (SELECT DATE_TRUNC('month', day) AS m, SUM(price) AS s FROM orders GROUP BY 1), b AS (SELECT AVG(s) AS a, STDDEV(s) AS d FROM m) SELECT m.m, m.s, (m.s - b.a) / b.d AS z FROM m, b WHERE ABS(m.s - b.a) > b.d ORDER BY 1;
SELECT LEAST(qty, 5) AS q, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY LEAST(qty, 5) DESC) AS at_least FROM orders GROUP BY 1 ORDER BY 1;
SELECT 'Total' AS label, SUM(price) AS v FROM orders UNION ALL SELECT region, SUM(price) FROM orders GROUP BY region ORDER BY v DESC;
SELECT region, SUM(CASE channel WHEN 'web' THEN 1 WHEN 'shop' THEN 1 ELSE 0 END) AS known, COUNT(*) - COUNT(channel) AS unknown FROM orders GROUP BY region ORDER BY region;
SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE qty BETWEEN 2 AND 4) AS some, AVG(CASE WHEN returned THEN 0.0 ELSE price * qty END) AS net FROM orders WHERE region <> 'west' AND (member OR price > 50);
SELECT TRIM(UPPER(region)) AS r, COUNT(*) AS n FROM orders WHERE STARTS_WITH(region, 's') OR CONTAINS(region, 'st') GROUP BY 1 ORDER BY 1;
SELECT date_part('year', day)::INT AS yr, ROUND(SUM(price)::NUMERIC, 0) AS s FROM orders GROUP BY yr ORDER BY yr;
SELECT d.region, d.n FROM (SELECT region, COUNT(*) AS n, NTILE(4) OVER (ORDER BY COUNT(*)) AS q FROM orders GROUP BY region) d WHERE d.q = 4;
SELECT SUM(CASE WHEN rn = 1 THEN price END) AS first_spend, SUM(CASE WHEN rn > 1 THEN price END) AS later_spend FROM (SELECT price, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed) AS rn FROM orders) t;
SELECT rn, AVG(price) AS p FROM (SELECT price, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed) AS rn FROM orders) t WHERE rn <= 3 GROUP BY rn ORDER BY rn;
SELECT COUNT(*) AS n FROM (SELECT customer, COUNT(DISTINCT channel) AS c, COUNT(DISTINCT region) AS r FROM orders GROUP BY customer) t WHERE c >= 2 AND r >= 2;
SELECT store_id, COUNT(*) AS n FROM orders GROUP BY store_id HAVING COUNT(*) BETWEEN 200 AND 600 ORDER BY COUNT(*) DESC OFFSET 1;
SELECT region, AVG(price) AS a FROM orders GROUP BY region ORDER BY a DESC FETCH FIRST 2 ROWS ONLY;
SELECT COUNT(*) AS n FROM orders o WHERE NOT EXISTS (SELECT * FROM stores s WHERE s.store_id = o.store_id AND s.area > 100);
SELECT ROUND(VAR_SAMP(price), 2) AS v, ROUND(STDDEV_SAMP(price) / AVG(price), 4) AS cv, CORR(price, qty) AS r FROM orders;
SELECT member, region, AVG(qty) AS a FROM orders GROUP BY GROUPING SETS ((member), (region)) ORDER BY 1 NULLS LAST, 2 NULLS FIRST;
SELECT COALESCE(region, 'all') AS region, COALESCE(CAST(member AS VARCHAR), 'both') AS member, COUNT(*) AS n FROM orders GROUP BY CUBE(region, member) ORDER BY 1, 2;
SELECT month, revenue, SUM(revenue) OVER (ORDER BY month ROWS BETWEEN 11 PRECEDING AND CURRENT ROW) AS ttm FROM (SELECT DATE_TRUNC('month', day) AS month, SUM(price) AS revenue FROM orders GROUP BY 1) t QUALIFY COUNT(*) OVER (ORDER BY month ROWS BETWEEN 11 PRECEDING AND CURRENT ROW) = 12 ORDER BY month;
SELECT CASE WHEN k IS NULL THEN 'none' ELSE k END AS last_channel, COUNT(*) AS n FROM (SELECT customer, ARG_MAX(channel, placed) AS k FROM orders GROUP BY customer) t GROUP BY 1 ORDER BY 1;
SELECT COUNT(*) AS switched FROM (SELECT channel, LAG(channel) OVER (PARTITION BY customer ORDER BY placed) AS p FROM orders) t WHERE p IS NOT NULL AND channel IS NOT NULL AND channel <> p;
SELECT WEEK(day) AS w, COUNT(*) AS n FROM orders WHERE day >= '2024-01-01' AND day < '2024-02-01' GROUP BY w ORDER BY w;
SELECT day, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY day RANGE BETWEEN INTERVAL 6 DAYS PRECEDING AND CURRENT ROW) AS week FROM orders WHERE day BETWEEN '2024-05-01' AND '2024-05-20' GROUP BY day ORDER BY day;
SELECT APPROX_COUNT_DISTINCT(customer) AS n FROM orders;
SELECT COUNT_IF(returned) AS r, COUNT_IF(returned) / COUNT(*) AS share FROM orders;
SELECT AVG(price) AS a, MIN(price) AS lo FROM orders; -- refused: one row

-- == Compared with a person's own rows
SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.customer AND p.day > o.day AND p.day <= o.day + 30);
SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.customer AND p.region = o.region AND p.day < o.day);
SELECT EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.customer AND p.channel = o.channel AND p.placed > o.placed) AS again, COUNT(*) AS n FROM orders o GROUP BY 1 ORDER BY 1;
SELECT s.country, COUNT(*) AS n FROM orders o JOIN stores s ON s.store_id = o.store_id WHERE EXISTS (SELECT 1 FROM logins l WHERE l.customer = o.customer AND l.minutes > o.qty AND l.minutes < o.price) GROUP BY s.country ORDER BY s.country;
SELECT region, COUNT(*) FROM orders o WHERE price >= ALL (SELECT p.price FROM orders p WHERE p.customer = o.customer) GROUP BY region ORDER BY region;
SELECT COUNT(*) FROM orders o WHERE NOT rating > ANY (SELECT p.rating FROM orders p WHERE p.customer = o.customer AND p.returned);
SELECT COUNT(*) FROM orders o WHERE o.channel IN (SELECT p.channel FROM orders p WHERE p.customer = o.customer AND p.placed < o.placed);
SELECT COUNT(*) FROM orders o WHERE o.rating NOT IN (SELECT p.rating FROM orders p WHERE p.customer = o.customer AND p.returned);
SELECT rating <> ALL (SELECT p.rating FROM orders p WHERE p.customer = o.customer AND p.returned) AS other, COUNT(*) AS n FROM orders o GROUP BY 1 ORDER BY 1;
SELECT AVG(n) FROM (SELECT customer, COUNT(*) AS n FROM orders o WHERE EXISTS (SELECT 1 FROM (SELECT * FROM orders WHERE returned) p WHERE p.customer = o.customer AND p.region = o.region AND p.store_id = o.store_id) GROUP BY customer) q;
SELECT COUNT(*) FROM orders WHERE price > ALL (SELECT AVG(price) FROM orders GROUP BY region);
SELECT COUNT(*) FROM orders WHERE price < ANY (SELECT AVG(price) FROM orders GROUP BY region);
SELECT COUNT(*) FROM orders o WHERE price >= ALL (SELECT p.price FROM orders p); -- refused: own person
SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.region = o.region AND p.day < o.day); -- refused: privacy unit

-- == UNION ALL of rows
SELECT region, COUNT(*) AS n FROM (SELECT region FROM orders WHERE qty > 3 UNION ALL SELECT region FROM orders WHERE returned) u GROUP BY region ORDER BY region;
SELECT what, COUNT(*) AS n, COUNT(DISTINCT customer) AS people FROM (SELECT 'order' AS what, customer FROM orders UNION ALL SELECT 'login', customer FROM logins) u GROUP BY what ORDER BY what;
WITH events AS (SELECT customer, qty AS v, returned AS bad FROM orders UNION ALL SELECT customer, minutes, failed FROM logins), large AS (SELECT * FROM events WHERE v > 2) SELECT bad, SUM(v) AS s, AVG(v) AS a, COUNT(v) FILTER (WHERE v > 5) AS n FROM large GROUP BY bad ORDER BY bad;
SELECT COUNT(*) FROM (SELECT customer FROM orders WHERE returned UNION SELECT customer FROM logins WHERE failed) u;
SELECT COUNT(DISTINCT customer) FROM (SELECT customer FROM orders WHERE returned UNION ALL SELECT customer FROM logins UNION ALL SELECT customer FROM orders WHERE qty > 9) u;
SELECT region, COUNT(*) AS n FROM (SELECT * FROM orders WHERE returned UNION ALL SELECT * FROM orders WHERE member) u GROUP BY ROLLUP (region) ORDER BY region NULLS LAST;
SELECT s.city, SUM(u.qty) AS n FROM (SELECT store_id, qty FROM orders UNION ALL SELECT store_id, -qty FROM orders WHERE returned) u JOIN stores s USING (store_id) GROUP BY s.city ORDER BY s.city;
SELECT MEDIAN(v) FROM (SELECT qty AS v FROM orders UNION ALL SELECT minutes FROM logins) u; -- refused: UNION ALL of rows
SELECT AVG(n) FROM (SELECT customer, COUNT(*) AS n FROM (SELECT customer FROM orders UNION ALL SELECT customer FROM logins) u GROUP BY customer) q; -- refused: values of one person
SELECT COUNT(*) FROM (SELECT region FROM orders UNION SELECT device FROM logins) u; -- refused: privacy unit alone

-- == Rows that the text writes out
WITH params AS (SELECT DATE '2023-07-01' AS cutoff, 5 AS least) SELECT region, COUNT(*) AS n FROM orders CROSS JOIN params WHERE day >= cutoff AND qty >= params.least GROUP BY region ORDER BY region;
WITH bands AS (SELECT * FROM (VALUES (1, 4, 'few'), (4, 11, 'many')) v(lo, hi, band)) SELECT band, COUNT(*) AS n FROM orders JOIN bands ON qty >= lo AND qty < hi GROUP BY band ORDER BY band;
SELECT m.label, SUM(qty) AS n FROM orders o LEFT JOIN (VALUES ('web', 'online'), ('phone', 'call')) AS m(channel, label) ON o.channel = m.channel GROUP BY m.label ORDER BY m.label;
SELECT COUNT(*) FROM orders JOIN (SELECT 'web' AS k UNION ALL SELECT 'shop') p ON orders.channel = p.k;
SELECT COUNT(*) FROM orders JOIN (VALUES (1, 5), (4, 9)) v(lo, hi) ON qty BETWEEN lo AND hi; -- refused: may meet two rows
WITH spine AS (SELECT CAST(UNNEST(generate_series(DATE '2024-01-01', DATE '2024-06-01', INTERVAL 1 MONTH)) AS DATE) AS month) SELECT spine.month, COALESCE(c.n, 0) AS n FROM spine LEFT JOIN (SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM orders WHERE returned GROUP BY 1) c USING (month) ORDER BY 1;
SELECT h.h, COALESCE(c.n, 0) AS n FROM range(0, 24) AS h(h) LEFT JOIN (SELECT HOUR(placed) AS h, COUNT(*) AS n FROM orders GROUP BY 1) c ON c.h = h.h ORDER BY h.h;
SELECT x, (SELECT COUNT(*) FROM orders) AS n FROM generate_series(1, 20000) t(x); -- refused: at most 10,000 rows
SELECT region, MAX(made) AS made, COUNT(*) AS n FROM (SELECT region, DATE '2024-12-31' AS made FROM orders) q GROUP BY region ORDER BY region;
SELECT MAX(made) AS made FROM (SELECT 7 AS made FROM orders) q;

-- == Groupings, stars and keys of the rows around
SELECT region, MODE(channel) AS m, COUNT(*) AS n FROM orders GROUP BY ROLLUP (region) ORDER BY region NULLS LAST;
SELECT region, STRING_AGG(DISTINCT channel, ',' ORDER BY channel) AS c FROM orders GROUP BY ROLLUP (region) ORDER BY region NULLS LAST;
SELECT * EXCLUDE (total) FROM (SELECT region, COUNT(*) AS n, SUM(qty) AS total FROM orders GROUP BY region) q ORDER BY region;
SELECT * REPLACE (n * 2 AS n) RENAME (region AS place) FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) q ORDER BY 1;
SELECT AVG(qty) AS q, COUNT(*) AS n FROM (SELECT * EXCLUDE (price) REPLACE (qty + 1 AS qty) FROM orders) q WHERE qty > 3;
SELECT s.city, (SELECT COUNT(*) FROM orders o WHERE o.store_id = s.store_id) AS n FROM stores s ORDER BY s.city;
SELECT s.city FROM stores s WHERE (SELECT SUM(o.qty) FROM orders o WHERE o.store_id = s.store_id AND o.returned) > 100 ORDER BY s.city;
SELECT CAST(DATE_TRUNC('month', day) AS VARCHAR) AS m, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
