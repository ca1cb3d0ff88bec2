-- table: lineitem

SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order
FROM lineitem WHERE l_shipdate <= DATE '2021-09-02' GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus

SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem
WHERE l_shipdate >= DATE '2020-01-01' AND l_shipdate < DATE '2021-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24

SELECT SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM tpch.lineitem WHERE l_shipmode IN ('AIR', 'RAIL') AND l_quantity BETWEEN 1 AND 11

SELECT l_shipmode, SUM(CASE WHEN l_returnflag = 'R' OR l_returnflag = 'A' THEN 1 ELSE 0 END) AS high, SUM(CASE WHEN l_returnflag <> 'R' AND l_returnflag <> 'A' THEN 1 ELSE 0 END) AS low
FROM lineitem WHERE l_shipmode IN ('MAIL', 'SHIP') GROUP BY l_shipmode ORDER BY l_shipmode

SELECT 100.00 * SUM(CASE WHEN l_shipmode LIKE 'A%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) / SUM(l_extendedprice * (1 - l_discount)) AS promo_revenue FROM lineitem

SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem WHERE l_quantity < 5

SELECT COUNT(DISTINCT l_orderkey) AS orders FROM lineitem

SELECT l_shipmode, COUNT(DISTINCT l_orderkey) AS orders FROM lineitem GROUP BY l_shipmode

SELECT l_partkey, SUM(l_quantity) AS q FROM lineitem GROUP BY l_partkey

SELECT EXTRACT(YEAR FROM l_shipdate) AS l_year, SUM(l_extendedprice * (1 - l_discount)) AS volume FROM lineitem GROUP BY l_year ORDER BY l_year

SELECT l_year, SUM(volume) AS revenue FROM (SELECT EXTRACT(YEAR FROM l_shipdate) AS l_year, l_extendedprice * (1 - l_discount) AS volume FROM lineitem) AS shipping GROUP BY l_year ORDER BY l_year

SELECT l_shipmode, AVG(l_extendedprice / l_quantity) AS unit_price FROM lineitem GROUP BY l_shipmode

SELECT l_shipmode, AVG(CLIP(l_extendedprice / l_quantity, 0, 5000)) AS unit_price FROM lineitem GROUP BY l_shipmode

SELECT AVG(l_quantity) FILTER (WHERE l_returnflag = 'R') AS returned, AVG(l_quantity) FILTER (WHERE l_returnflag <> 'R') AS others FROM lineitem

-- refused: unit
SELECT l_orderkey, SUM(l_quantity) FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 300

SELECT l_discount, COUNT(*) AS n FROM lineitem GROUP BY l_discount

SELECT ROUND(l_discount, 1) AS d, COUNT(*) AS n FROM lineitem GROUP BY d

SELECT l_quantity, COUNT(*) AS n FROM lineitem WHERE l_quantity <= 10 GROUP BY l_quantity ORDER BY l_quantity

SELECT VAR_POP(l_quantity) AS v, STDDEV_SAMP(l_extendedprice) AS s, CORR(l_quantity, l_extendedprice) AS r FROM lineitem

SELECT PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY l_extendedprice) AS p FROM lineitem

-- table: store_sales
SELECT COUNT(*) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20

-- table: store_sales
SELECT CASE WHEN COUNT(*) > 500 THEN AVG(ss_coupon_amt) ELSE AVG(ss_net_profit) END AS bucket1 FROM store_sales WHERE ss_quantity BETWEEN 1 AND 20

-- table: store_sales
SELECT AVG(ss_quantity) AS a, AVG(ss_list_price) AS b, AVG(ss_coupon_amt) AS c, AVG(ss_sales_price) AS d FROM store_sales

-- table: store_sales
SELECT ss_store, SUM(ss_sales_price * ss_quantity) AS sales FROM store_sales GROUP BY ss_store ORDER BY sales DESC LIMIT 3

-- table: store_sales
SELECT ss_store, SUM(ss_net_profit) AS profit FROM store_sales WHERE ss_sales_price > ss_list_price * 0.5 GROUP BY ss_store

-- table: store_sales
SELECT ss_store, SUM(ss_net_profit) / SUM(ss_sales_price) AS gross_margin FROM store_sales GROUP BY ss_store

-- table: store_sales
SELECT ss_item, SUM(ss_sales_price) AS revenue FROM store_sales GROUP BY ss_item ORDER BY revenue DESC LIMIT 100

-- table: store_sales
SELECT ss_store, SUM(CASE WHEN DAYOFWEEK(ss_sold_date) = 0 THEN ss_sales_price ELSE NULL END) AS sun_sales,
SUM(CASE WHEN DAYOFWEEK(ss_sold_date) = 1 THEN ss_sales_price ELSE NULL END) AS mon_sales FROM store_sales GROUP BY ss_store

-- table: store_sales
SELECT COUNT(*) cnt1 FROM (SELECT ss_quantity q, ss_store s FROM store_sales WHERE ss_list_price > 100) x WHERE x.s IN (1, 2) AND x.q > 50

-- table: store_sales
SELECT COUNT(*), SUM(ss_quantity), AVG(ss_quantity), STDDEV_SAMP(ss_quantity), STDDEV_SAMP(ss_quantity) / AVG(ss_quantity) AS cov FROM store_sales

-- table: store_sales
SELECT ss_store, COUNT(*) AS n FROM store_sales WHERE (ss_list_price BETWEEN 50 AND 60 OR ss_coupon_amt BETWEEN 0 AND 100 OR ss_wholesale_cost BETWEEN 10 AND 30) GROUP BY ss_store

-- table: store_sales
SELECT COUNT(DISTINCT ss_item) AS items, COUNT(ss_list_price) AS n, COUNT(DISTINCT ss_customer) AS c FROM store_sales WHERE ss_quantity BETWEEN 6 AND 10
