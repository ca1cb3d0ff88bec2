-- table: trips

SELECT COUNT(*) AS trips FROM nyc.trips

SELECT vendor, COUNT(*) AS trips FROM trips GROUP BY vendor ORDER BY trips DESC

SELECT passenger_count, AVG(total_amount) AS avg_total FROM trips GROUP BY passenger_count

SELECT passenger_count, EXTRACT(YEAR FROM pickup_date) AS pickup_year, COUNT(*) AS n FROM trips GROUP BY passenger_count, pickup_year

SELECT passenger_count, EXTRACT(YEAR FROM pickup_date) AS y, ROUND(trip_distance) AS distance, COUNT(*) AS n
FROM trips GROUP BY passenger_count, y, distance ORDER BY y, n DESC

SELECT payment_type, AVG(tip_amount) AS tip, AVG(tip_amount / NULLIF(fare_amount, 0)) AS rate FROM trips GROUP BY payment_type

SELECT payment_type, AVG(LEAST(tip_amount / NULLIF(fare_amount, 0), 1)) AS rate FROM trips WHERE fare_amount > 1 GROUP BY payment_type

SELECT payment_type, 100 * SUM(tip_amount) / SUM(fare_amount) AS pct FROM trips GROUP BY payment_type

SELECT borough, AVG(trip_distance) AS miles, SUM(fare_amount) AS fares FROM trips WHERE passenger_count > 1 GROUP BY borough

SELECT SUM(fare_amount + tip_amount + tolls_amount) AS revenue FROM trips

SELECT AVG(total_amount - fare_amount - tip_amount - tolls_amount) AS rest FROM trips

SELECT pickup_hour, COUNT(*) AS n, AVG(trip_distance) AS miles FROM trips GROUP BY pickup_hour ORDER BY pickup_hour

SELECT CASE WHEN pickup_hour BETWEEN 7 AND 9 THEN 'morning' WHEN pickup_hour BETWEEN 16 AND 19 THEN 'evening' ELSE 'off' END AS rush,
COUNT(*) AS n, AVG(fare_amount) AS fare FROM trips GROUP BY rush

SELECT MONTH(pickup_date) AS m, COUNT(*) AS n FROM trips WHERE YEAR(pickup_date) = 2020 GROUP BY m ORDER BY m

SELECT COUNT(*) FROM trips WHERE pickup_date >= DATE '2020-01-01' AND pickup_date < DATE '2020-07-01'

SELECT COUNT(*) FROM trips WHERE pickup_date BETWEEN DATE '2020-01-01' AND DATE '2020-01-31'

SELECT COUNT(*) FROM trips WHERE pickup_date >= '2020-01-01'

SELECT COUNT(*) FROM trips WHERE pickup_date < CAST('2020-01-01' AS DATE)

SELECT DAYOFWEEK(pickup_date) AS d, COUNT(*) AS n FROM trips GROUP BY d

SELECT EXTRACT(DOW FROM pickup_date) AS d, COUNT(*) AS n FROM trips GROUP BY d ORDER BY d

SELECT QUARTER(pickup_date) AS q, SUM(total_amount) AS revenue FROM trips GROUP BY q

SELECT pickup_zone, COUNT(*) AS n FROM trips GROUP BY pickup_zone

SELECT pickup_zone, AVG(fare_amount) AS fare FROM trips GROUP BY pickup_zone HAVING COUNT(*) > 5

SELECT COUNT(DISTINCT pickup_zone) AS zones FROM trips

SELECT COUNT(DISTINCT driver_id) AS drivers FROM trips

SELECT vendor, COUNT(DISTINCT driver_id) AS drivers FROM trips GROUP BY vendor

SELECT COUNT(*) / COUNT(DISTINCT driver_id) AS trips_a_driver FROM trips

SELECT store_and_fwd, COUNT(*) AS n FROM trips GROUP BY store_and_fwd

SELECT SUM(CASE WHEN store_and_fwd THEN 1 ELSE 0 END) AS n FROM trips

SELECT COUNT(*) FROM trips WHERE store_and_fwd

SELECT COUNT(*) FROM trips WHERE store_and_fwd = TRUE AND NOT vendor = 'CMT'

SELECT COUNT(*) FROM trips WHERE store_and_fwd IS TRUE

SELECT COUNT(*) FROM trips WHERE store_and_fwd IS NOT TRUE

SELECT AVG(store_and_fwd::INT) AS share FROM trips

SELECT COUNT(*) FROM trips WHERE trip_distance > 5 AND fare_amount / trip_distance > 3

SELECT MEDIAN(trip_distance) AS m FROM trips

SELECT PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY total_amount) AS p95 FROM trips

-- dialect: bigquery
SELECT APPROX_QUANTILES(total_amount, 100)[OFFSET(95)] AS p95 FROM trips

SELECT CORR(trip_distance, fare_amount) AS r FROM trips

SELECT borough, STDDEV(fare_amount) AS s FROM trips GROUP BY borough

SELECT ROUND(SUM(tip_amount) / COUNT(*), 2) AS tip FROM trips WHERE payment_type = 1

SELECT FLOOR(trip_distance) AS miles, COUNT(*) AS n FROM trips WHERE trip_distance < 10 GROUP BY FLOOR(trip_distance)

SELECT FLOOR(fare_amount / 10) * 10 AS fare_band, COUNT(*) AS n FROM trips GROUP BY fare_band ORDER BY fare_band

-- dialect: bigquery
SELECT COUNT(*) AS n FROM `bigquery-public-data.nyc.trips` WHERE passenger_count = 2

-- dialect: bigquery
SELECT EXTRACT(DAYOFWEEK FROM pickup_date) AS d, COUNT(*) AS n FROM trips GROUP BY d

-- dialect: postgres
SELECT date_part('year', pickup_date) AS y, COUNT(*) AS n FROM trips GROUP BY y

-- dialect: tsql
SELECT DATEPART(month, pickup_date) AS m, COUNT(*) AS n FROM trips GROUP BY DATEPART(month, pickup_date)

-- refused: one row decides
SELECT MIN(pickup_date) FROM trips

-- refused: QUANTILE
SELECT MAX(total_amount) FROM trips GROUP BY vendor

SELECT vendor, borough, COUNT(*) FROM trips GROUP BY vendor, borough HAVING COUNT(*) > 10 AND AVG(fare_amount) > 20

-- refused: rows are never released
SELECT * FROM trips ORDER BY total_amount DESC LIMIT 10

-- refused: unit
SELECT driver_id, COUNT(*) AS n FROM trips GROUP BY driver_id
