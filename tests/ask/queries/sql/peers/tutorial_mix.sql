-- table: adult

-- table: restaurant
SELECT AVG(total) AS m FROM (SELECT visitor_id, LEAST(SUM(money_spent), 300) AS total FROM restaurant GROUP BY visitor_id) AS t

-- table: restaurant
SELECT AVG(n) AS visits FROM (SELECT visitor_id, LEAST(COUNT(*), 10) AS n FROM restaurant GROUP BY visitor_id) AS t

-- table: restaurant
SELECT AVG(total) AS m FROM (SELECT visitor_id, SUM(money_spent) AS total FROM restaurant GROUP BY visitor_id) AS t

-- table: visits
SELECT COUNT(*) AS patients FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id HAVING COUNT(*) >= 3) AS t

-- table: visits
SELECT n, COUNT(*) AS patients FROM (SELECT patient_id, LEAST(COUNT(*), 5) AS n FROM visits GROUP BY patient_id) AS t GROUP BY n ORDER BY n

-- table: visits
SELECT MEDIAN(total) AS m FROM (SELECT patient_id, LEAST(SUM(cost), 50000) AS total FROM visits GROUP BY patient_id) AS t

-- table: visits
WITH per_patient AS (SELECT patient_id, MAX(age) AS age, COUNT(*) AS n FROM visits GROUP BY patient_id) SELECT AVG(age) AS age FROM per_patient

-- table: rides
SELECT AVG(avg_fare) AS m FROM (SELECT rider_id, AVG(fare) AS avg_fare FROM rides GROUP BY rider_id) t

-- table: events
SELECT AVG(bought) AS conversion FROM (SELECT user_id, MAX(CASE WHEN event_name = 'purchase' THEN 1 ELSE 0 END) AS bought FROM events GROUP BY user_id) t

-- table: adult
SELECT education, sex, COUNT(*) AS n FROM adult WHERE (education, sex) IN (('Masters', 'Male'), ('Doctorate', 'Female')) GROUP BY education, sex

-- table: adult
SELECT race, COUNT(*) n FROM adult GROUP BY race

-- table: adult
SELECT COUNT(*) n, AVG(age) a FROM adult x

-- table: adult
select sex, count(*) as cnt from adult group by sex order by cnt desc limit 1

-- table: adult
SELECT SUM(1) AS n FROM adult

-- table: adult
SELECT AVG(1.0 * age) AS m FROM adult

-- table: adult
SELECT SUM(hours_per_week * 52) AS yearly FROM adult

-- table: adult
SELECT COUNT(*) FROM adult WHERE NOT (age < 30 OR age > 60)

-- table: adult
SELECT COUNT(*) FROM adult WHERE age <> 30 AND age != 40

-- table: adult
SELECT COUNT(*) FROM adult WHERE 30 < age AND 60 >= age

-- table: adult
SELECT COUNT(*) FROM adult WHERE age + hours_per_week > 100

-- table: adult
SELECT COUNT(*) FROM adult WHERE age * 2 > hours_per_week

-- table: adult
SELECT COUNT(*) FROM adult WHERE sex = 'Male' AND 1 = 1

-- table: adult
SELECT COUNT(*) FROM adult WHERE TRUE

-- table: adult
SELECT COUNT(*) AS n FROM adult WHERE education = 'Masters' OR (education = 'Doctorate' AND NOT occupation = 'Sales')

-- table: adult
SELECT occupation, ROUND(STDDEV(hours_per_week), 2) AS s, ROUND(AVG(hours_per_week), 2) AS m FROM adult GROUP BY occupation ORDER BY s DESC

-- table: adult
SELECT sex, ROUND(SUM(CASE WHEN income = '>50K' THEN 1 ELSE 0 END)::DOUBLE / COUNT(*)::DOUBLE, 4) AS r FROM adult GROUP BY sex

-- table: adult
SELECT sex, COUNT(*) AS n, COUNT(*) * 1.0 / 3000 AS share, SUM(capital_gain) AS g FROM adult GROUP BY sex HAVING SUM(capital_gain) > 0 ORDER BY share

-- table: adult
SELECT AVG(age) AS m, MEDIAN(age) AS med, AVG(age) - 40 AS d FROM adult

-- table: adult
SELECT SQRT(AVG(age * age) - AVG(age) * AVG(age)) AS s FROM adult

-- table: adult
SELECT POWER(STDDEV(age), 2) AS v FROM adult

-- table: adult
SELECT MOD(COUNT(*), 10) AS d FROM adult

-- table: adult
SELECT COALESCE(SUM(capital_gain), 0) AS g FROM adult WHERE age > 200

-- table: adult
SELECT NULLIF(COUNT(*), 0) AS n FROM adult

-- table: adult
SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex ORDER BY sex DESC NULLS LAST

-- table: adult
SELECT CASE sex WHEN 'Male' THEN 'M' WHEN 'Female' THEN 'F' END AS s, COUNT(*) AS n FROM adult GROUP BY CASE sex WHEN 'Male' THEN 'M' WHEN 'Female' THEN 'F' END

-- table: adult
SELECT CASE WHEN age < 25 THEN 1 WHEN age < 50 THEN 2 ELSE 3 END AS g, COUNT(*) AS n FROM adult GROUP BY g ORDER BY g

-- table: adult
SELECT age // 10 AS d, sex, COUNT(*) AS n FROM adult GROUP BY d, sex HAVING n >= 5 ORDER BY d, sex

-- table: adult
SELECT COUNT(*) FROM adult WHERE REGEXP_MATCHES(education, '^(Masters|Doctorate)$')

-- table: adult
-- dialect: bigquery
SELECT COUNT(*) FROM adult WHERE REGEXP_CONTAINS(education, r'^Ma')

-- table: adult
-- dialect: spark
SELECT COUNT(*) FROM adult WHERE education RLIKE '^Ma'

-- table: adult
SELECT COUNT(*) FROM adult WHERE LOWER(education) = 'masters' AND LENGTH(occupation) > 5

-- table: adult
SELECT COUNT(*) FROM adult WHERE CAST(age AS VARCHAR) = '40'

-- table: adult
SELECT COUNT(*) FROM adult WHERE occupation NOT LIKE '%a%' AND occupation IS NOT NULL

-- table: adult
SELECT COUNT(*) FROM adult WHERE education IN ('Masters') IS TRUE

-- table: adult
SELECT VAR_SAMP(age) / COUNT(*) AS se2 FROM adult

-- table: adult
SELECT AVG(age) FILTER (WHERE sex = 'Male') / AVG(age) FILTER (WHERE sex = 'Female') AS ratio FROM adult

-- table: adult
SELECT COUNT(*) FILTER (WHERE income = '>50K') * 100.0 / NULLIF(COUNT(*), 0) AS pct FROM adult

-- table: adult
SELECT sex, LN(SUM(capital_gain) + 1) AS l FROM adult GROUP BY sex

-- table: adult
SELECT SUM(capital_gain) AS total, SUM(CASE WHEN sex = 'Male' THEN capital_gain END) / SUM(capital_gain) AS male_share FROM adult

-- table: adult
SELECT SUM(age > 30) AS n FROM adult

-- table: adult
-- refused: QUANTILE
SELECT MIN(age) AS a FROM adult

-- table: adult
SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) t WHERE n > 100

-- table: adult
SELECT MAX(n) FROM (SELECT occupation, COUNT(*) AS n FROM adult GROUP BY occupation) t

-- table: adult
WITH c AS (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) SELECT sex, n FROM c ORDER BY n

-- table: adult
WITH c AS (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) SELECT * FROM c

-- table: adult
-- refused: OVER
SELECT COUNT(*) OVER () FROM adult

-- table: adult
-- refused: CROSS JOIN
SELECT COUNT(*) FROM adult CROSS JOIN adult b

-- table: adult
-- refused: cannot be parsed
SELECT COUNT(*), SUM(age) INTO OUTFILE 'x' FROM adult

-- table: adult
-- refused: EXPLAIN
EXPLAIN SELECT COUNT(*) FROM adult

-- table: adult
-- refused: write the value itself
SELECT COUNT(*) FROM adult WHERE age > ?

-- table: adult
-- refused: write the value itself
SELECT COUNT(*) FROM adult WHERE age > $1

-- table: adult
-- refused: write the value itself
SELECT COUNT(*) FROM adult WHERE age > :low

-- table: adult
-- refused: not supported
SELECT PRODUCT(age) FROM adult

-- table: adult
-- refused: not supported
SELECT GEOMEAN(age) FROM adult

-- table: adult
-- refused: not supported
SELECT HISTOGRAM(age) FROM adult

-- table: adult
SELECT SUM(age)::BIGINT AS s, (AVG(age))::DECIMAL(10,1) AS a FROM adult

-- table: adult
SELECT COUNT(*)::VARCHAR AS s FROM adult

-- table: adult
SELECT 'total' AS what, COUNT(*) AS n, CURRENT_DATE AS d FROM adult

-- table: flights
SELECT a.alliance, COUNT(*) AS n, AVG(f.arr_delay) AS delay FROM flights AS f JOIN airlines AS a ON f.carrier = a.carrier GROUP BY a.alliance

-- table: flights
SELECT alliance, COUNT(*) AS n FROM flights JOIN airlines USING (carrier) GROUP BY alliance ORDER BY n DESC

-- table: flights
SELECT a.alliance, SUM(f.distance) AS miles FROM flights f, airlines a WHERE f.carrier = a.carrier AND NOT f.cancelled GROUP BY a.alliance

-- table: flights
SELECT a.alliance, AVG(f.dep_delay) AS d FROM airlines AS a INNER JOIN flights AS f ON (a.carrier = f.carrier) GROUP BY a.alliance

-- table: flights
SELECT COUNT(*) AS n FROM flights JOIN airlines ON flights.carrier = airlines.carrier WHERE airlines.fleet > 500

-- table: flights
SELECT AVG(a.fleet) AS fleet FROM flights f LEFT JOIN airlines a ON f.carrier = a.carrier

-- table: orders
SELECT r.country, COUNT(*) AS n, SUM(o.price * o.quantity) AS revenue FROM shop.orders AS o JOIN regions AS r ON o.region = r.region GROUP BY r.country

-- table: orders
SELECT r.country, o.category, AVG(o.price) AS price FROM orders o JOIN regions r ON r.region = o.region WHERE o.paid GROUP BY r.country, o.category

-- table: orders
WITH paid AS (SELECT region, price FROM orders WHERE paid) SELECT r.country, SUM(p.price) AS s FROM paid AS p JOIN regions AS r ON p.region = r.region GROUP BY r.country

-- table: orders
SELECT country, n FROM (SELECT r.country AS country, COUNT(*) AS n FROM orders o JOIN regions r ON o.region = r.region GROUP BY r.country) t WHERE n > 10 ORDER BY n DESC

-- table: adult
SELECT DISTINCT occupation FROM adult

-- table: flights
SELECT dest FROM flights GROUP BY dest

-- table: adult
SELECT COUNT(DISTINCT sex, income) AS k FROM adult

-- table: adult
SELECT workclass, n FROM (SELECT workclass, COUNT(*) AS n FROM adult GROUP BY workclass) AS t WHERE workclass = 'Private' AND n > 10

-- table: adult
WITH counts AS (SELECT education, sex, COUNT(*) AS n FROM adult GROUP BY 1, 2) SELECT sex, education, n FROM counts WHERE sex = 'Male' ORDER BY n DESC
