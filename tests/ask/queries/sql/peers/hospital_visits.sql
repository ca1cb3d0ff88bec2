-- table: visits

SELECT COUNT(*) AS visits, COUNT(DISTINCT patient_id) AS patients FROM hospital.visits

SELECT COUNT(*) / COUNT(DISTINCT patient_id) AS a_patient FROM visits

SELECT ward, COUNT(*) AS n, AVG(length_of_stay) AS stay FROM visits GROUP BY ward

SELECT ward, SUM(cost) AS cost, AVG(cost) AS mean_cost FROM visits GROUP BY ward ORDER BY cost DESC

SELECT ward, sex, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY ward, sex

SELECT diagnosis, COUNT(DISTINCT patient_id) AS patients FROM visits GROUP BY diagnosis

SELECT diagnosis, COUNT(*) AS n FROM visits WHERE age >= 65 GROUP BY diagnosis HAVING COUNT(*) >= 10

SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'senior' END AS age_group, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY age_group

SELECT FLOOR(age / 10) * 10 AS decade, SUM(CASE WHEN readmitted THEN 1 ELSE 0 END) AS readmissions FROM visits GROUP BY decade

SELECT ward, 100.0 * SUM(CASE WHEN readmitted THEN 1 ELSE 0 END) / COUNT(*) AS readmission_rate FROM visits GROUP BY ward

SELECT ward, AVG(CASE WHEN readmitted = TRUE THEN 1.0 ELSE 0.0 END) AS readmission_rate FROM visits GROUP BY ward

SELECT SUM(cost) / SUM(length_of_stay) AS cost_a_day FROM visits

SELECT ward, SUM(cost) / NULLIF(SUM(length_of_stay), 0) AS cost_a_day FROM visits GROUP BY ward

SELECT SUM(cost) / COUNT(DISTINCT patient_id) AS cost_a_patient FROM visits

SELECT EXTRACT(YEAR FROM admitted) AS y, COUNT(*) AS n FROM visits GROUP BY EXTRACT(YEAR FROM admitted)

SELECT YEAR(admitted) AS y, MONTH(admitted) AS m, COUNT(*) AS n FROM visits GROUP BY 1, 2 ORDER BY 1, 2

SELECT COUNT(*) FROM visits WHERE admitted BETWEEN '2020-03-01' AND '2020-05-31'

SELECT AVG(bmi) AS bmi, STDDEV(bmi) AS s FROM visits WHERE sex = 'F'

SELECT CASE WHEN bmi < 18.5 THEN 'under' WHEN bmi < 25 THEN 'normal' WHEN bmi < 30 THEN 'over' ELSE 'obese' END AS class, AVG(systolic) AS bp FROM visits GROUP BY class

SELECT CORR(bmi, systolic) AS r FROM visits

SELECT sex, CORR(age, systolic) AS r, COUNT(*) AS n FROM visits GROUP BY sex

SELECT MEDIAN(length_of_stay) AS los FROM visits

SELECT ward, QUANTILE_CONT(length_of_stay, 0.9) AS p90 FROM visits GROUP BY ward

SELECT COUNT(*) FROM visits WHERE systolic > 140 AND age > 50 AND sex = 'M'

SELECT COUNT(*) FROM visits WHERE diagnosis = 'J45'

SELECT COUNT(*) FROM visits WHERE diagnosis LIKE 'J%'

SELECT COUNT(DISTINCT patient_id) AS n FROM visits WHERE diagnosis LIKE 'id00%'

SELECT COALESCE(insured, 'unknown') AS insurance, COUNT(*) AS n FROM visits GROUP BY insurance

SELECT insured, COUNT(*) AS n FROM visits WHERE insured IS NOT NULL GROUP BY insured

SELECT insured, COUNT(*) AS n FROM visits GROUP BY insured

SELECT AVG(systolic) FILTER (WHERE sex = 'F') AS f, AVG(systolic) FILTER (WHERE sex = 'M') AS m FROM visits

SELECT AVG(systolic) FILTER (WHERE sex = 'F') - AVG(systolic) FILTER (WHERE sex = 'M') AS gap FROM visits

SELECT ward, SUM(cost) * 100 / 30000000 AS pct FROM visits GROUP BY ward

SELECT SUM(cost * 1.2) AS with_tax FROM visits

SELECT AVG(cost / 1000) AS k FROM visits

SELECT ROUND(AVG(cost)) AS m, ROUND(AVG(cost), -2) AS hundreds, FLOOR(AVG(cost)) AS f, CEIL(AVG(cost)) AS c FROM visits

SELECT SUM(LEAST(cost, 5000)) AS s FROM visits

SELECT VAR_SAMP(cost) AS v FROM visits WHERE ward = 'surgery'

SELECT length_of_stay, COUNT(*) AS n FROM visits GROUP BY length_of_stay ORDER BY length_of_stay

SELECT CASE WHEN length_of_stay = 0 THEN 'day case' WHEN length_of_stay <= 7 THEN 'week' ELSE 'longer' END AS stay, COUNT(*) AS n FROM visits GROUP BY stay

-- refused: unit
SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id HAVING COUNT(*) > 3

-- refused: rows are never released
SELECT patient_id, cost FROM visits WHERE ward = 'surgery'

SELECT ward, sex, AVG(cost) AS m FROM visits WHERE age > 60 AND NOT readmitted GROUP BY ward, sex HAVING AVG(cost) > 1000 ORDER BY m DESC LIMIT 5

WITH seniors AS (SELECT * FROM visits WHERE age >= 65), costs AS (SELECT ward, cost, length_of_stay AS los FROM seniors WHERE cost > 0)
SELECT ward, AVG(cost) AS cost, AVG(los) AS los FROM costs GROUP BY ward

SELECT COUNT(*) FROM visits v WHERE v.age > 40 AND (v.ward = 'surgery' OR v.ward = 'oncology')

SELECT SUM(length_of_stay) AS "total days", COUNT(*) AS "number of visits" FROM visits

SELECT ward, COUNT(*) AS n FROM visits WHERE cost IS NOT NULL AND cost > 100 GROUP BY ward
