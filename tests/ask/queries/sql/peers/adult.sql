-- table: adult

SELECT COUNT(*) AS n FROM adult WHERE age > 40

SELECT occupation, COUNT(*) AS n FROM adult GROUP BY occupation ORDER BY n DESC

SELECT workclass, AVG(hours_per_week) AS hours FROM adult GROUP BY workclass

SELECT education, AVG(age) AS age, COUNT(*) AS n FROM adult GROUP BY education HAVING COUNT(*) > 20

SELECT sex, income, COUNT(*) AS n FROM adult GROUP BY sex, income

SELECT education, sex, AVG(hours_per_week) AS h, STDDEV(hours_per_week) AS s FROM adult GROUP BY education, sex

SELECT income, AVG(capital_gain) - AVG(capital_loss) AS net FROM adult GROUP BY income

SELECT income, AVG(capital_gain - capital_loss) AS net FROM adult GROUP BY income

SELECT marital_status, SUM(CASE WHEN income = '>50K' THEN 1 ELSE 0 END) AS rich, COUNT(*) AS n FROM adult GROUP BY marital_status

SELECT marital_status, SUM(CASE WHEN income = '>50K' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS share FROM adult GROUP BY marital_status

SELECT marital_status, AVG(CASE WHEN income = '>50K' THEN 1 ELSE 0 END) AS share FROM adult GROUP BY marital_status

SELECT marital_status, ROUND(100 * AVG(CASE WHEN income = '>50K' THEN 1 ELSE 0 END), 1) AS pct FROM adult GROUP BY marital_status ORDER BY pct DESC

SELECT COUNT(*) FROM adult WHERE occupation = 'Sales' AND income = '>50K'

SELECT COUNT(*) FROM adult WHERE occupation IN ('Sales', 'Tech-support') AND education NOT IN ('HS-grad')

SELECT COUNT(*) FROM adult WHERE occupation LIKE '%support%'

SELECT COUNT(*) FROM adult WHERE education LIKE 'M%' OR education LIKE 'D%'

SELECT COUNT(*) FROM adult WHERE education ILIKE 'master%'

SELECT COUNT(*) FROM adult WHERE workclass IS NULL

SELECT COALESCE(workclass, 'unknown') AS workclass, COUNT(*) AS n FROM adult GROUP BY COALESCE(workclass, 'unknown')

SELECT COALESCE(occupation, 'none') AS job, AVG(age) AS age FROM adult GROUP BY 1

SELECT LOWER(education) AS e, COUNT(*) AS n FROM adult GROUP BY LOWER(education)

SELECT UPPER(sex) AS s, COUNT(*) AS n FROM adult GROUP BY 1 ORDER BY 1

SELECT SUBSTR(education, 1, 1) AS initial, COUNT(*) AS n FROM adult GROUP BY initial

SELECT SUBSTRING(marital_status, 1, 5) AS s, COUNT(*) AS n FROM adult GROUP BY 1

SELECT LEFT(marital_status, 7) AS s, COUNT(*) AS n FROM adult GROUP BY s

SELECT sex || '/' || race AS both, COUNT(*) AS n FROM adult GROUP BY sex || '/' || race

SELECT CONCAT(sex, ' ', income) AS both, COUNT(*) AS n FROM adult GROUP BY both

SELECT LENGTH(education) AS l, COUNT(*) AS n FROM adult GROUP BY l

SELECT AVG(LENGTH(native_country)) AS l FROM adult

SELECT REPLACE(education, '-', ' ') AS e, COUNT(*) AS n FROM adult GROUP BY e

SELECT TRIM(education) AS e, COUNT(*) AS n FROM adult GROUP BY e

SELECT CASE education WHEN 'Bachelors' THEN 'degree' WHEN 'Masters' THEN 'degree' WHEN 'Doctorate' THEN 'degree' ELSE 'none' END AS d,
COUNT(*) AS n FROM adult GROUP BY d

SELECT CASE WHEN hours_per_week < 35 THEN 'part' WHEN hours_per_week <= 45 THEN 'full' ELSE 'over' END AS load, AVG(age) AS age, COUNT(*) AS n
FROM adult GROUP BY load ORDER BY load

SELECT COUNT(CASE WHEN sex = 'Male' THEN 1 END) AS men, COUNT(CASE WHEN sex = 'Female' THEN 1 END) AS women FROM adult

SELECT COUNT(*) FILTER (WHERE sex = 'Male') AS men, COUNT(*) FILTER (WHERE sex = 'Female') AS women FROM adult

SELECT education, COUNT(CASE WHEN sex = 'Male' THEN 1 END) AS men, COUNT(CASE WHEN sex = 'Female' THEN 1 END) AS women
FROM adult GROUP BY education

SELECT education, SUM(CASE WHEN sex = 'Male' THEN hours_per_week END) / COUNT(CASE WHEN sex = 'Male' THEN 1 END) AS men_hours FROM adult GROUP BY education

SELECT AVG(CASE WHEN sex = 'Male' THEN hours_per_week END) AS men, AVG(CASE WHEN sex = 'Female' THEN hours_per_week END) AS women FROM adult

SELECT AVG(CASE WHEN sex = 'Male' THEN hours_per_week END) - AVG(CASE WHEN sex = 'Female' THEN hours_per_week END) AS gap FROM adult

SELECT COUNT_IF(age > 60) AS old FROM adult

-- dialect: bigquery
SELECT COUNTIF(income = '>50K') / COUNT(*) AS share FROM adult

-- dialect: bigquery
SELECT sex, COUNTIF(income = '>50K') AS rich FROM adult GROUP BY sex

-- dialect: bigquery
SELECT SAFE_DIVIDE(SUM(capital_gain), COUNT(*)) AS g FROM adult

-- refused: one row decides
-- dialect: bigquery
SELECT APPROX_QUANTILES(age, 4) AS q FROM adult

-- dialect: bigquery
SELECT APPROX_QUANTILES(age, 100)[OFFSET(50)] AS med FROM adult

-- dialect: bigquery
SELECT APPROX_COUNT_DISTINCT(education) AS k FROM adult

-- dialect: bigquery
SELECT IF(age > 40, 'old', 'young') AS a, COUNT(*) AS n FROM adult GROUP BY a

-- dialect: bigquery
SELECT IFNULL(workclass, 'unknown') AS w, COUNT(*) AS n FROM adult GROUP BY w

-- dialect: bigquery
SELECT education, AVG(IF(sex = 'Male', hours_per_week, NULL)) AS h FROM adult GROUP BY education

-- dialect: bigquery
SELECT SAFE_CAST(age AS FLOAT64) > 50 AS old, COUNT(*) AS n FROM adult GROUP BY old

-- dialect: bigquery
SELECT AVG(CAST(age AS FLOAT64)) AS m FROM `project.dataset.adult`

-- dialect: spark
SELECT approx_percentile(age, 0.5) AS med FROM adult

-- dialect: spark
SELECT percentile_approx(age, 0.9) AS p FROM adult

-- dialect: spark
SELECT percentile(age, 0.25) AS p FROM adult

-- dialect: spark
SELECT percentile(age, array(0.25, 0.5)) AS p FROM adult

-- dialect: spark
SELECT approx_count_distinct(occupation) AS k FROM adult

-- dialect: spark
SELECT sex, stddev_samp(age) AS s, var_pop(age) AS v FROM adult GROUP BY sex

-- dialect: spark
SELECT nvl(workclass, 'none') AS w, count(1) AS n FROM adult GROUP BY w

-- dialect: spark
SELECT count_if(age > 30) AS n FROM adult

-- dialect: spark
SELECT sum(if(sex = 'Male', 1, 0)) AS men FROM adult

-- dialect: spark
SELECT mean(age) AS m FROM adult

-- dialect: tsql
SELECT TOP 3 occupation, COUNT(*) AS n FROM adult GROUP BY occupation ORDER BY n DESC

-- dialect: tsql
SELECT TOP (2) [education], AVG([age]) AS m FROM [dbo].[adult] GROUP BY [education] ORDER BY AVG([age]) DESC

-- dialect: tsql
SELECT COUNT_BIG(*) AS n FROM adult

-- dialect: tsql
SELECT ISNULL(workclass, 'none') AS w, COUNT(*) AS n FROM adult GROUP BY ISNULL(workclass, 'none')

-- dialect: tsql
SELECT STDEV(age) AS s, STDEVP(age) AS sp, VAR(age) AS v, VARP(age) AS vp FROM adult

-- dialect: tsql
SELECT LEN(education) AS l, COUNT(*) AS n FROM adult GROUP BY LEN(education)

-- dialect: tsql
SELECT AVG(CAST(age AS DECIMAL(10, 2))) AS m FROM dbo.adult

-- dialect: tsql
SELECT CONVERT(FLOAT, SUM(capital_gain)) / COUNT(*) AS m FROM adult

-- dialect: tsql
SELECT SUM(IIF(age > 40, 1, 0)) AS n FROM adult

-- dialect: postgres
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) AS med FROM adult

-- dialect: postgres
SELECT percentile_disc(0.9) WITHIN GROUP (ORDER BY hours_per_week) AS p FROM adult

-- dialect: postgres
SELECT percentile_cont(ARRAY[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY age) AS q FROM adult

-- dialect: postgres
SELECT sex, avg(age)::numeric(10, 2) AS m FROM public.adult GROUP BY sex

-- dialect: postgres
SELECT round(avg(age)::numeric, 1) AS m FROM adult

-- dialect: postgres
SELECT count(*)::float / 3000 AS s FROM adult

-- dialect: postgres
SELECT count(*) FILTER (WHERE income = '>50K')::float / count(*) AS share FROM adult

-- dialect: postgres
SELECT sex, sum((income = '>50K')::int) AS rich FROM adult GROUP BY sex

-- dialect: postgres
SELECT avg((income = '>50K')::int) AS rich FROM adult

-- dialect: postgres
SELECT regr_slope(age, hours_per_week) AS b FROM adult

-- dialect: postgres
SELECT education, count(*) AS n FROM adult WHERE education ~ '^M' GROUP BY education

-- dialect: postgres
SELECT width_bucket(age, 0, 100, 10) AS b, count(*) AS n FROM adult GROUP BY b

-- refused: one row decides
SELECT bool_or(age > 80) AS any_old FROM adult

-- refused: ask for QUANTILE
SELECT COUNT(*) AS n, MIN(age), MAX(age) FROM adult

SELECT occupation, education, COUNT(*) AS n FROM adult GROUP BY occupation, education ORDER BY n DESC LIMIT 10

SELECT occupation, COUNT(*) AS n FROM adult GROUP BY ALL ORDER BY ALL

SELECT occupation, sex, COUNT(*) AS n FROM adult GROUP BY ALL

SELECT occupation, COUNT(*) * 100.0 / 3000 AS pct FROM adult GROUP BY occupation

SELECT occupation, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS pct FROM adult GROUP BY occupation

SELECT sex, MODE(occupation) AS job FROM adult GROUP BY sex

SELECT MODE(education) AS most FROM adult

-- dialect: postgres
SELECT MODE() WITHIN GROUP (ORDER BY education) AS most FROM adult

SELECT age // 10 * 10 AS decade, COUNT(*) AS n FROM adult GROUP BY 1 ORDER BY 1

SELECT FLOOR(age / 10) * 10 AS decade, AVG(hours_per_week) AS h FROM adult GROUP BY decade

SELECT ROUND(age / 10) * 10 AS decade, COUNT(*) AS n FROM adult GROUP BY decade

SELECT CEIL(hours_per_week / 20) AS shift, COUNT(*) AS n FROM adult GROUP BY shift

SELECT CAST(age / 10 AS INT) AS decade, COUNT(*) AS n FROM adult GROUP BY decade

SELECT age - age % 5 AS five, COUNT(*) AS n FROM adult GROUP BY age - age % 5

SELECT SIGN(capital_gain - capital_loss) AS s, COUNT(*) AS n FROM adult GROUP BY s

SELECT AVG(ABS(capital_gain - capital_loss)) AS m FROM adult

SELECT AVG(SQRT(capital_gain)) AS m FROM adult

SELECT AVG(LN(capital_gain + 1)) AS m FROM adult

SELECT AVG(LOG10(capital_gain + 1)) AS m FROM adult

SELECT SUM(POWER(age, 2)) AS s FROM adult

SELECT AVG(NULLIF(capital_gain, 0)) AS m FROM adult

SELECT COUNT(NULLIF(capital_gain, 0)) AS n FROM adult

SELECT SUM(hours_per_week) / NULLIF(COUNT(*), 0) AS m FROM adult

SELECT education_num, AVG(hours_per_week) AS h FROM adult GROUP BY education_num ORDER BY education_num

SELECT COUNT(DISTINCT occupation) AS o, COUNT(DISTINCT education) AS e FROM adult

SELECT sex, COUNT(DISTINCT occupation) AS o FROM adult GROUP BY sex

SELECT CORR(age, hours_per_week) AS r, CORR(education_num, hours_per_week) AS s FROM adult

SELECT sex, CORR(age, hours_per_week) AS r FROM adult GROUP BY sex

SELECT sex, COVAR_POP(age, hours_per_week) AS c FROM adult GROUP BY sex

SELECT VAR_POP(age) AS vp, VAR_SAMP(age) AS vs, STDDEV_POP(age) AS sp, STDDEV_SAMP(age) AS ss FROM adult

SELECT AVG(age) + 2 * STDDEV(age) AS hi FROM adult

SELECT STDDEV(age) / AVG(age) AS cv FROM adult

SELECT STDDEV(age) / SQRT(COUNT(*)) AS se FROM adult

SELECT (AVG(age * hours_per_week) - AVG(age) * AVG(hours_per_week)) AS cov FROM adult

SELECT SUM(capital_gain) * 1.0 / SUM(hours_per_week) AS per_hour FROM adult WHERE capital_gain > 0

SELECT CASE WHEN COUNT(*) > 1000 THEN 'many' ELSE 'few' END AS size, COUNT(*) AS n FROM adult

SELECT CASE WHEN COUNT(*) > 0 THEN SUM(age) / COUNT(*) ELSE 0 END AS m FROM adult

SELECT GREATEST(COUNT(*), 0) AS n FROM adult

SELECT LEAST(SUM(age), 100000) AS s FROM adult

SELECT e, COUNT(*) AS n FROM (SELECT CASE WHEN education_num > 12 THEN 'high' ELSE 'low' END AS e FROM adult) t GROUP BY e

SELECT t.e, AVG(t.h) AS h FROM (SELECT education AS e, hours_per_week AS h FROM adult WHERE age > 25) AS t GROUP BY t.e

WITH t AS (SELECT *, capital_gain - capital_loss AS net FROM adult) SELECT sex, AVG(net) AS net FROM t GROUP BY sex

WITH t(a, h) AS (SELECT age, hours_per_week FROM adult) SELECT AVG(a) AS a, AVG(h) AS h FROM t

WITH young AS (SELECT * FROM adult WHERE age < 30), working AS (SELECT * FROM young WHERE hours_per_week >= 35)
SELECT education, COUNT(*) AS n FROM working GROUP BY education ORDER BY n DESC

SELECT COUNT(*) FROM (SELECT * FROM adult) AS a WHERE a.sex = 'Male' AND a.age > 50

SELECT COUNT(*) AS n FROM adult a WHERE a.age > 50 AND (a.sex = 'Male' OR a.sex = 'Female') AND NOT a.race = 'White'

SELECT a.sex, COUNT(*) AS n FROM adult AS a WHERE a.capital_gain > a.capital_loss GROUP BY a.sex

SELECT COUNT(*) FROM adult WHERE age BETWEEN 30 AND 40 AND hours_per_week NOT BETWEEN 20 AND 40

SELECT COUNT(*) FROM adult WHERE (age, sex) = (40, 'Male')

SELECT COUNT(*) FROM adult WHERE age = (SELECT AVG(age) FROM adult)

SELECT sex, COUNT(*) FROM adult WHERE sex IS NOT NULL GROUP BY ROLLUP (sex)

SELECT sex, income, COUNT(*) FROM adult WHERE sex IS NOT NULL AND income IS NOT NULL GROUP BY CUBE (sex, income)

SELECT sex, income, COUNT(*) FROM adult WHERE sex IS NOT NULL AND income IS NOT NULL GROUP BY GROUPING SETS ((sex), (income))

-- refused: never released
SELECT age, RANK() OVER (ORDER BY age) FROM adult

-- refused: not supported
SELECT ARRAY_AGG(age) FROM adult

-- refused: not supported
SELECT STRING_AGG(occupation, ',') FROM adult

-- refused: not supported
SELECT FIRST(age) FROM adult

-- refused: not supported
SELECT ANY_VALUE(age) FROM adult

-- refused: not supported
SELECT COUNT(*) FROM adult WHERE age > RANDOM() * 100

SELECT COUNT(*) AS n FROM adult WHERE sex = 'Male' HAVING n > 10

SELECT AVG(age) AS m FROM adult HAVING COUNT(*) > 100

SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex ORDER BY 2 DESC, 1

SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex ORDER BY n DESC FETCH FIRST 1 ROWS ONLY

SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex ORDER BY n DESC OFFSET 1

SELECT income, sex, COUNT(*) AS n FROM adult WHERE age > 30 GROUP BY income, sex ORDER BY income, n DESC

SELECT race, PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) AS q1, PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY age) AS q3 FROM adult GROUP BY race

SELECT QUANTILE(age, 0.5) AS m FROM adult

SELECT QUANTILE_DISC(age, 0.1) AS m FROM adult

SELECT APPROX_QUANTILE(hours_per_week, 0.5) AS m FROM adult

SELECT MEDIAN(hours_per_week) AS m, AVG(hours_per_week) AS a FROM adult WHERE sex = 'Female'

SELECT sex, MEDIAN(age) AS m, COUNT(*) AS n FROM adult GROUP BY sex

SELECT SUM(age) AS s, SUM(age) / 3000 AS m FROM adult

SELECT SUM(DISTINCT age) FROM adult

SELECT AVG(DISTINCT age) FROM adult

-- refused: not supported
SELECT KURTOSIS(age) FROM adult

-- refused: not supported
SELECT SKEWNESS(age) FROM adult

-- refused: not supported
SELECT ENTROPY(education) FROM adult
