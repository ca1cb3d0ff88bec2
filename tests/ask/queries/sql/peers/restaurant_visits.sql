-- table: restaurant

SELECT hour_entered, COUNT(*) AS visits FROM restaurant GROUP BY hour_entered ORDER BY hour_entered

SELECT hour_entered, COUNT(DISTINCT visitor_id) AS visitors FROM restaurant GROUP BY hour_entered

SELECT weekday, COUNT(*) AS visits FROM restaurant GROUP BY weekday

SELECT weekday, COUNT(DISTINCT visitor_id) AS visitors FROM restaurant GROUP BY weekday ORDER BY visitors DESC

SELECT weekday, SUM(money_spent) AS revenue FROM restaurant GROUP BY weekday

SELECT hour_entered, AVG(minutes_spent) AS stay FROM restaurant GROUP BY hour_entered

SELECT weekday, AVG(money_spent) AS spent, VARIANCE(money_spent) AS v FROM restaurant GROUP BY weekday

SELECT weekday, SUM(money_spent) / COUNT(*) AS spent FROM restaurant GROUP BY weekday

SELECT SUM(LEAST(money_spent, 50)) AS revenue FROM restaurant

SELECT SUM(CASE WHEN money_spent > 50 THEN 50 ELSE money_spent END) AS revenue FROM restaurant

SELECT SUM(CASE WHEN money_spent < 0 THEN 0 WHEN money_spent > 50 THEN 50 ELSE money_spent END) AS revenue FROM restaurant

SELECT COUNT(*) FROM restaurant WHERE weekday IN ('Sat', 'Sun')

SELECT CASE WHEN weekday IN ('Sat', 'Sun') THEN 'weekend' ELSE 'week' END AS part, AVG(money_spent) AS spent FROM restaurant GROUP BY part

SELECT weekday IN ('Sat', 'Sun') AS weekend, SUM(money_spent) AS spent FROM restaurant GROUP BY weekday IN ('Sat', 'Sun')

SELECT DAY(visit_date) AS d, SUM(money_spent) AS s FROM restaurant GROUP BY d ORDER BY d

SELECT MEDIAN(money_spent) AS m FROM restaurant

SELECT weekday, MEDIAN(minutes_spent) AS m FROM restaurant GROUP BY weekday

SELECT weekday, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY money_spent) AS p FROM restaurant GROUP BY weekday

SELECT SUM(money_spent) / SUM(minutes_spent) AS per_minute FROM restaurant

SELECT weekday, 60 * SUM(money_spent) / SUM(minutes_spent) AS per_hour FROM restaurant GROUP BY weekday

SELECT COUNT(*) FROM restaurant WHERE money_spent > 20 AND minutes_spent < 30

SELECT COUNT(DISTINCT visitor_id) AS n FROM restaurant WHERE money_spent > 20

SELECT weekday, hour_entered, COUNT(*) AS n FROM restaurant GROUP BY 1, 2

SELECT hour_entered, COUNT(*) AS n FROM restaurant WHERE hour_entered < 12 GROUP BY hour_entered

SELECT CASE WHEN hour_entered < 12 THEN 'breakfast' WHEN hour_entered < 17 THEN 'lunch' ELSE 'dinner' END AS meal, COUNT(*) AS n,
SUM(money_spent) AS revenue, AVG(minutes_spent) AS stay FROM restaurant GROUP BY meal ORDER BY revenue DESC

SELECT weekday, COUNT(*) FILTER (WHERE hour_entered >= 17) AS dinners, COUNT(*) AS n FROM restaurant GROUP BY weekday

SELECT SUM(CASE WHEN weekday = 'Mon' THEN 1 ELSE 0 END) AS mon, SUM(CASE WHEN weekday = 'Tue' THEN 1 ELSE 0 END) AS tue FROM restaurant

SELECT SUM(money_spent) FILTER (WHERE weekday = 'Mon') AS mon, SUM(money_spent) FILTER (WHERE weekday = 'Tue') AS tue FROM restaurant

-- refused: unit
SELECT visitor_id, SUM(money_spent) FROM restaurant GROUP BY visitor_id

-- refused: COUNT
SELECT ANON_COUNT(*) FROM restaurant

-- refused: epsilon
SELECT WITH ANONYMIZATION OPTIONS (epsilon = 1) weekday, ANON_SUM(money_spent) FROM restaurant GROUP BY weekday
