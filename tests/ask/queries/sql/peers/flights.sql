-- table: flights

SELECT carrier, COUNT(*) AS flights FROM flights GROUP BY carrier ORDER BY flights DESC

SELECT carrier, AVG(arr_delay) AS delay FROM flights WHERE NOT cancelled GROUP BY carrier ORDER BY delay

SELECT origin, AVG(dep_delay) AS dep, AVG(arr_delay) AS arr FROM flights GROUP BY origin

SELECT origin, AVG(arr_delay - dep_delay) AS gained FROM flights GROUP BY origin

SELECT carrier, 100.0 * SUM(CASE WHEN arr_delay > 15 THEN 1 ELSE 0 END) / COUNT(*) AS pct_late FROM flights GROUP BY carrier

SELECT carrier, ROUND(100.0 * COUNT(CASE WHEN arr_delay > 15 THEN 1 END) / COUNT(*), 1) AS pct_late FROM flights GROUP BY carrier ORDER BY pct_late DESC

SELECT carrier, AVG(CASE WHEN cancelled THEN 1 ELSE 0 END) AS rate FROM flights GROUP BY carrier

SELECT carrier, SUM(CAST(cancelled AS INT)) AS n FROM flights GROUP BY carrier

SELECT carrier, AVG(cancelled::INT) AS n FROM flights GROUP BY carrier

SELECT carrier, COUNT(*) FILTER (WHERE cancelled) AS n FROM flights GROUP BY carrier

SELECT cancelled, COUNT(*) AS n FROM flights GROUP BY cancelled

SELECT SUM(distance) AS miles, AVG(distance) AS m, STDDEV(distance) AS s FROM flights

SELECT AVG(CLIP(distance / air_time, 0, 20)) AS speed FROM flights WHERE air_time > 0

SELECT AVG(distance / air_time) AS speed FROM flights WHERE air_time > 0

SELECT SUM(distance) / (SUM(air_time) / 60) AS mph FROM flights WHERE air_time > 0

SELECT FLOOR(distance / 500) * 500 AS band, AVG(arr_delay) AS delay FROM flights GROUP BY band ORDER BY band

SELECT CASE WHEN dep_delay <= 0 THEN 'early' WHEN dep_delay <= 15 THEN 'on time' ELSE 'late' END AS kind, COUNT(*) AS n FROM flights GROUP BY kind

SELECT origin, dest, COUNT(*) AS n FROM flights GROUP BY origin, dest

SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 10

SELECT COUNT(DISTINCT dest) AS dests FROM flights WHERE origin = 'JFK'

SELECT origin, COUNT(DISTINCT carrier) AS carriers FROM flights GROUP BY origin

SELECT EXTRACT(MONTH FROM flight_date) AS month, AVG(dep_delay) AS delay FROM flights GROUP BY month ORDER BY month

SELECT MONTH(flight_date) AS month, carrier, COUNT(*) AS n FROM flights GROUP BY MONTH(flight_date), carrier

SELECT EXTRACT(YEAR FROM flight_date) AS y, EXTRACT(QUARTER FROM flight_date) AS q, COUNT(*) AS n FROM flights GROUP BY y, q ORDER BY y, q

SELECT COUNT(*) FROM flights WHERE EXTRACT(MONTH FROM flight_date) IN (6, 7, 8)

SELECT COUNT(*) FROM flights WHERE carrier = 'AA' AND origin = 'JFK' AND arr_delay > 60

SELECT COUNT(*) FROM flights WHERE dest = 'LAX'

SELECT COUNT(*) FROM flights WHERE dest LIKE 'S%'

SELECT COUNT(*) FROM flights WHERE dest IN ('LAX', 'SFO', 'SEA')

SELECT carrier, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY arr_delay) AS p90 FROM flights GROUP BY carrier

SELECT carrier, MEDIAN(dep_delay) AS med FROM flights WHERE dep_delay > 0 GROUP BY carrier

SELECT CORR(dep_delay, arr_delay) AS r FROM flights

SELECT CORR(distance, air_time) AS r, COVAR_SAMP(distance, air_time) AS c, COUNT(*) AS n FROM flights

SELECT carrier, AVG(GREATEST(arr_delay, 0)) AS late FROM flights GROUP BY carrier

SELECT AVG(LEAST(GREATEST(arr_delay, -30), 120)) AS clipped FROM flights

SELECT SUM(ABS(arr_delay)) AS off FROM flights

SELECT carrier, SUM(arr_delay) AS total FROM flights WHERE arr_delay > 0 GROUP BY carrier HAVING SUM(arr_delay) > 1000

WITH late AS (SELECT *, arr_delay > 15 AS is_late FROM flights) SELECT is_late, COUNT(*) AS n FROM late GROUP BY is_late

WITH late AS (SELECT carrier, CASE WHEN arr_delay > 15 THEN 1 ELSE 0 END AS is_late FROM flights WHERE NOT cancelled)
SELECT carrier, SUM(is_late) AS late, COUNT(*) AS n, AVG(is_late) AS rate FROM late GROUP BY carrier ORDER BY rate DESC

SELECT carrier, late, COUNT(*) AS n FROM (SELECT carrier, CASE WHEN arr_delay > 15 THEN 'late' ELSE 'fine' END AS late FROM flights) AS t GROUP BY carrier, late

SELECT f.carrier, AVG(f.arr_delay) AS d FROM (SELECT * FROM flights WHERE distance > 1000) AS f GROUP BY f.carrier

-- refused: find_bounds
SELECT MAX(arr_delay) AS worst FROM flights

-- refused: QUANTILE
SELECT carrier, MIN(dep_delay), AVG(dep_delay), MAX(dep_delay) FROM flights GROUP BY carrier

SELECT AVG(air_time) AS m FROM flights WHERE air_time IS NOT NULL AND distance IS NOT NULL

SELECT COUNT(*) - COUNT(arr_delay) AS missing FROM flights

SELECT SUM(CASE WHEN arr_delay IS NULL THEN 1 ELSE 0 END) AS missing FROM flights

SELECT carrier, COUNT(arr_delay) * 1.0 / COUNT(*) AS known FROM flights GROUP BY carrier

SELECT origin, SUM(CASE WHEN carrier = 'AA' THEN 1 ELSE 0 END) AS aa, SUM(CASE WHEN carrier = 'UA' THEN 1 ELSE 0 END) AS ua,
SUM(CASE WHEN carrier = 'DL' THEN 1 ELSE 0 END) AS dl FROM flights GROUP BY origin ORDER BY origin
