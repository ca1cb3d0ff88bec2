-- table: ratings

SELECT movie_id, COUNT(*) AS n, SUM(rating) AS total FROM ratings GROUP BY movie_id

SELECT movie_id, AVG(rating) AS rating FROM ratings GROUP BY movie_id

SELECT movie_id, COUNT(DISTINCT user_id) AS users FROM ratings GROUP BY movie_id ORDER BY users DESC LIMIT 10

SELECT genre, AVG(rating) AS rating, VARIANCE(rating) AS v FROM ratings GROUP BY genre

SELECT rating, COUNT(*) AS n FROM ratings GROUP BY rating

SELECT genre, rating, COUNT(*) AS n FROM ratings GROUP BY genre, rating

SELECT genre, SUM(CASE WHEN rating >= 4 THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS liked FROM ratings GROUP BY genre

SELECT genre, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY rating) AS m FROM ratings GROUP BY genre

SELECT YEAR(rated_on) AS y, AVG(rating) AS r FROM ratings GROUP BY y

SELECT COUNT(DISTINCT movie_id) AS movies, COUNT(DISTINCT user_id) AS users, COUNT(*) AS n FROM ratings

SELECT AVG(rating - 3) AS centred FROM ratings

-- table: grades
SELECT AVG(grade) AS mean_grade FROM grades

-- table: grades
SELECT class_year, AVG(grade) AS g FROM grades GROUP BY class_year

-- table: grades
SELECT class_year, hw_number, AVG(grade) AS g, COUNT(*) AS n FROM grades GROUP BY class_year, hw_number

-- table: grades
SELECT FLOOR(grade / 10) * 10 AS bin, COUNT(*) AS n FROM grades GROUP BY bin ORDER BY bin

-- table: grades
SELECT class_year, FLOOR(grade / 10) * 10 AS bin, COUNT(*) AS n FROM grades GROUP BY class_year, bin

-- table: grades
SELECT MEDIAN(grade) AS m FROM grades

-- table: grades
SELECT class_year, MEDIAN(grade) AS m FROM grades GROUP BY class_year

-- table: grades
SELECT AVG(self_assessment * 100 - grade) AS bias FROM grades

-- table: grades
SELECT CASE WHEN grade >= 90 THEN 'A' WHEN grade >= 80 THEN 'B' WHEN grade >= 70 THEN 'C' ELSE 'F' END AS letter, COUNT(*) AS n FROM grades GROUP BY letter

-- table: grades
SELECT AVG(CASE WHEN grade >= 60 THEN 1 ELSE 0 END) AS passed FROM grades

-- table: grades
SELECT CORR(grade, self_assessment) AS r FROM grades

-- table: professors
SELECT item, AVG(quantity) AS average_quantity FROM professors GROUP BY item

-- table: professors
-- dialect: bigquery
-- refused: epsilon
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, privacy_unit_column = id) item, AVG(quantity, contribution_bounds_per_group => (0, 100)) AS average_quantity FROM professors GROUP BY item

-- table: professors
-- refused: epsilon
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = .01, max_groups_contributed = 2) item, SUM(quantity) AS s FROM professors GROUP BY item

-- table: professors
SELECT item, COUNT(*) AS times_requested FROM professors GROUP BY item

-- table: professors
SELECT item, SUM(quantity) AS total, COUNT(quantity) AS n, VAR_POP(quantity) AS v FROM professors GROUP BY item

-- table: professors
-- dialect: bigquery
SELECT item, APPROX_QUANTILES(quantity, 2)[OFFSET(1)] AS med FROM professors GROUP BY item

-- table: professors
-- dialect: bigquery
SELECT item, PERCENTILE_CONT(quantity, 0.5) AS p FROM professors GROUP BY item

-- table: orders
SELECT COUNT(*) FROM shop.orders

-- table: orders
SELECT o.category, COUNT(*) AS n, SUM(o.quantity * o.price) AS revenue FROM shop.orders AS o GROUP BY o.category

-- table: orders
SELECT shop.orders.category, COUNT(*) AS n FROM shop.orders GROUP BY shop.orders.category

-- table: orders
SELECT orders.category, AVG(orders.price) AS p FROM shop.orders GROUP BY orders.category

-- table: orders
SELECT region, SUM(quantity * price) AS revenue, COUNT(DISTINCT customer_id) AS customers, SUM(quantity * price) / COUNT(DISTINCT customer_id) AS arpu FROM orders WHERE paid GROUP BY region

-- table: orders
SELECT region, SUM(quantity * price) / COUNT(*) AS basket FROM orders GROUP BY region ORDER BY basket DESC

-- table: orders
SELECT category, SUM(CASE WHEN status = 'F' THEN price ELSE 0 END) AS finished, SUM(CASE WHEN status = 'O' THEN price ELSE 0 END) AS open FROM orders GROUP BY category

-- table: orders
SELECT product, SUM(quantity) AS q FROM orders GROUP BY product ORDER BY q DESC

-- table: orders
SELECT product, category, COUNT(*) AS n FROM orders GROUP BY product, category

-- table: orders
SELECT QUARTER(order_date) AS q, region, SUM(price) AS s FROM orders WHERE YEAR(order_date) = 2021 GROUP BY q, region

-- table: orders
SELECT paid, status, COUNT(*) AS n FROM orders GROUP BY paid, status

-- table: orders
SELECT CASE WHEN paid THEN 'paid' ELSE 'due' END AS state, SUM(price) AS s FROM orders GROUP BY state

-- table: orders
SELECT COUNT(*) FROM orders WHERE NOT paid AND status = 'O' AND price >= 99.99

-- table: orders
SELECT "category", COUNT(*) AS "Order Count" FROM "shop"."orders" GROUP BY "category"

-- table: orders
-- refused: rows are never released
SELECT o.* FROM orders AS o

-- table: events
SELECT event_name, COUNT(*) AS n, COUNT(DISTINCT user_id) AS users FROM analytics.events GROUP BY event_name

-- table: events
SELECT platform, SUM(CASE WHEN event_name = 'purchase' THEN value ELSE 0 END) AS revenue FROM events GROUP BY platform

-- table: events
SELECT COUNT(CASE WHEN event_name = 'click' THEN 1 END) / COUNT(CASE WHEN event_name = 'view' THEN 1 END) AS ctr FROM events

-- table: events
SELECT platform, COUNT(CASE WHEN event_name = 'click' THEN 1 END) * 100.0 / NULLIF(COUNT(CASE WHEN event_name = 'view' THEN 1 END), 0) AS ctr FROM events GROUP BY platform

-- table: events
SELECT COUNT(DISTINCT CASE WHEN event_name = 'purchase' THEN user_id END) AS buyers FROM events

-- table: events
SELECT COUNT(DISTINCT CASE WHEN event_name = 'purchase' THEN user_id END) / COUNT(DISTINCT user_id) AS conversion FROM events

-- table: events
SELECT platform, COUNT(DISTINCT user_id) FILTER (WHERE event_name = 'purchase') AS buyers FROM events GROUP BY platform

-- table: events
SELECT country, COUNT(*) AS n FROM events WHERE platform = 'ios' GROUP BY country

-- table: events
SELECT country, platform, COUNT(DISTINCT user_id) AS users FROM events GROUP BY country, platform

-- table: events
SELECT platform, AVG(duration) / 60 AS minutes FROM events GROUP BY platform

-- table: events
-- dialect: bigquery
SELECT platform, APPROX_QUANTILES(duration, 100)[OFFSET(50)] AS p50, APPROX_QUANTILES(duration, 100)[OFFSET(95)] AS p95 FROM events GROUP BY platform

-- table: events
SELECT platform, COUNT(*) AS n FROM events WHERE event_name LIKE 'purch%' AND value > 10 GROUP BY platform HAVING n > 5

-- table: events
SELECT FLOOR(LOG2(duration + 1)) AS bucket, COUNT(*) AS n FROM events GROUP BY bucket

-- table: events
SELECT FLOOR(LOG10(value + 1)) AS bucket, COUNT(*) AS n FROM events GROUP BY bucket

-- table: events
-- refused: unit
SELECT user_id, COUNT(*) FROM events GROUP BY user_id

-- table: events
-- refused: one column of lists
SELECT COUNT(*) FROM events, UNNEST([1, 2]) AS t

-- table: events
-- refused: SELECT
DELETE FROM events

-- table: events
-- refused: one SELECT
SELECT COUNT(*) FROM events; DROP TABLE events

-- table: events
-- refused: INTO
SELECT COUNT(*) INTO copy FROM events
