-- table: rides

SELECT COUNT(*) FROM rides

SELECT COUNT(*) FROM rides WHERE city = 'Austin' AND status = 'completed'

SELECT city, COUNT(*) AS trips FROM rides GROUP BY city

SELECT city, status, COUNT(*) AS trips FROM rides GROUP BY city, status ORDER BY trips DESC

SELECT city, COUNT(DISTINCT rider_id) AS riders FROM rides WHERE requested_on >= DATE '2020-01-01' GROUP BY city

SELECT city, AVG(fare) AS fare, SUM(fare) AS gross FROM rides WHERE status = 'completed' GROUP BY city

SELECT city, 1.0 * SUM(CASE WHEN status = 'completed' THEN 1 ELSE 0 END) / COUNT(*) AS completion FROM rides GROUP BY city

SELECT city, COUNT(CASE WHEN status = 'rider_canceled' THEN 1 END) / COUNT(*) AS canceled FROM rides GROUP BY city

SELECT product, AVG(miles) AS miles, AVG(minutes) AS minutes, SUM(miles) / SUM(minutes) * 60 AS mph FROM rides GROUP BY product

SELECT AVG(rating) AS rating FROM rides WHERE rating IS NOT NULL

SELECT rating, COUNT(*) AS n FROM rides GROUP BY rating ORDER BY rating

SELECT SUM(rating = 5) AS n FROM rides

SELECT SUM(CASE WHEN rating = 5 THEN 1 END) * 100 / COUNT(rating) AS pct FROM rides

SELECT promo, AVG(fare) AS fare FROM rides GROUP BY promo

SELECT promo, city, COUNT(*) AS n FROM rides WHERE status IN ('completed', 'unfulfilled') GROUP BY promo, city

SELECT CASE WHEN fare < 10 THEN 'low' WHEN fare < 30 THEN 'mid' ELSE 'high' END AS tier, COUNT(*) AS n FROM rides GROUP BY tier ORDER BY n DESC

SELECT YEAR(requested_on) AS y, MONTH(requested_on) AS m, COUNT(*) AS n, SUM(fare) AS fares FROM rides WHERE status = 'completed' GROUP BY y, m ORDER BY y, m

SELECT COUNT(*) FROM rides WHERE requested_on BETWEEN '2020-10-01' AND '2020-10-31' AND promo = FALSE

SELECT MEDIAN(fare) AS m FROM rides WHERE city = 'Boston'

SELECT city, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY fare) AS m FROM rides GROUP BY city

SELECT STDDEV(fare) AS s FROM rides WHERE product = 'x'

SELECT AVG(fare) FROM rides WHERE miles > 0 AND fare > 0 AND NOT (status = 'unfulfilled')

SELECT COUNT(*) FROM rides WHERE status != 'completed' OR fare IS NULL

SELECT COUNT(*) FROM rides WHERE status IS DISTINCT FROM 'completed'

SELECT city, SUM(fare * CASE WHEN promo THEN 0.8 ELSE 1.0 END) AS net FROM rides GROUP BY city

SELECT city, SUM(CASE product WHEN 'pool' THEN fare * 0.5 WHEN 'x' THEN fare ELSE fare * 2 END) AS weighted FROM rides GROUP BY city

SELECT city, COUNT(*) AS n, SUM(fare) AS s, AVG(fare) AS m FROM rides GROUP BY city HAVING COUNT(*) > 10 AND SUM(fare) > 100 ORDER BY s

WITH done AS (SELECT * FROM rides WHERE status = 'completed') SELECT product, COUNT(*) AS n, AVG(rating) AS rating FROM done GROUP BY product

WITH done AS (SELECT city, fare / NULLIF(miles, 0) AS per_mile FROM rides) SELECT city, AVG(CLIP(per_mile, 0, 50)) AS pm FROM done GROUP BY city

-- refused: unit
SELECT rider_id, AVG(fare) FROM rides GROUP BY rider_id

-- refused: rows are never released
SELECT rider_id FROM rides WHERE fare > 100

SELECT COUNT(*) FROM rides WHERE rider_id = 'id000001'

-- refused: drivers
SELECT COUNT(*) FROM rides JOIN drivers ON rides.driver_id = drivers.id

SELECT COUNT(*) FROM rides a JOIN rides b ON a.rider_id = b.rider_id

-- refused: privacy unit
SELECT COUNT(*) FROM rides a JOIN rides b ON a.city = b.city

SELECT COUNT(*) FROM rides WHERE fare > (SELECT AVG(fare) FROM rides)
