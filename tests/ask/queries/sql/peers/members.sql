-- table: members

SELECT COUNT(*) AS members FROM members

SELECT education_level, COUNT(*) AS n FROM members GROUP BY education_level

SELECT COUNT(*) FROM members WHERE age < 18

SELECT COUNT(*) FROM members WHERE education_level IN ('masters-degree', 'doctorate')

SELECT SUM(books_borrowed) AS books FROM members

SELECT SUM(LEAST(books_borrowed, 100)) AS books FROM members

SELECT AVG(books_borrowed) AS books, STDDEV(books_borrowed) AS s, VARIANCE(books_borrowed) AS v FROM members

SELECT QUANTILE_CONT(books_borrowed, 0.9) AS q FROM members

SELECT gender, AVG(books_borrowed) AS books FROM members GROUP BY gender

SELECT age, SUM(books_borrowed) AS books FROM members GROUP BY age ORDER BY age

SELECT CASE WHEN age < 20 THEN '0-19' WHEN age < 40 THEN '20-39' WHEN age < 60 THEN '40-59' WHEN age < 80 THEN '60-79' ELSE '80+' END AS bin,
AVG(books_borrowed) AS books FROM members GROUP BY bin

SELECT favorite_genre, COUNT(*) AS n FROM members GROUP BY favorite_genre ORDER BY n DESC LIMIT 3

SELECT favorite_genre, education_level, COUNT(*) AS n FROM members GROUP BY favorite_genre, education_level

SELECT zip_code, COUNT(*) AS n FROM members GROUP BY zip_code

SELECT zip_code, SUM(books_borrowed) AS books FROM members GROUP BY zip_code HAVING COUNT(*) > 50

SELECT EXTRACT(YEAR FROM date_joined) AS y, COUNT(*) AS n FROM members GROUP BY y

SELECT CASE WHEN date_joined < DATE '2020-01-01' THEN 'old' ELSE 'new' END AS kind, COUNT(*) AS n FROM members GROUP BY kind

SELECT COUNT(*) FROM members WHERE date_joined >= DATE '2020-06-01'

SELECT 2021 - YEAR(date_joined) AS years, COUNT(*) AS n FROM members GROUP BY years

SELECT AVG(2021 - YEAR(date_joined)) AS years FROM members

SELECT age >= 65 AS retired, education_level, AVG(books_borrowed) AS books FROM members GROUP BY age >= 65, education_level

-- refused: QUANTILE
SELECT MIN(age) AS youngest FROM members

SELECT COUNT(DISTINCT zip_code) AS zips FROM members

SELECT gender, MEDIAN(age) AS m FROM members GROUP BY gender

-- refused: single quotes
SELECT AVG(age) AS age FROM members WHERE gender = "female"

-- refused: cannot be parsed
SELECT SUM(books borrowed) FROM members
