-- table: penguins

-- refused: not declared; known: 'penguins'
SELECT COUNT(*) AS nb_row FROM df

SELECT COUNT(*) AS nb_penguins FROM penguins

SELECT species, COUNT(*) AS n FROM penguins GROUP BY species

SELECT species, island, COUNT(*) AS n FROM penguins GROUP BY species, island

SELECT AVG(bill_length_mm) AS m FROM penguins

SELECT species, AVG(bill_length_mm) AS length, AVG(bill_depth_mm) AS depth FROM penguins GROUP BY species

SELECT sex, STDDEV(body_mass_g) AS s, COUNT(*) AS n FROM penguins GROUP BY sex

SELECT species AS species, COUNT(bill_length_mm) AS c, AVG(bill_length_mm) AS m, STD(bill_length_mm) AS s FROM penguins GROUP BY species

SELECT VARIANCE(bill_length_mm) AS v FROM penguins WHERE sex = 'FEMALE'

SELECT AVG(flipper_length_mm) AS m FROM penguins WHERE species = 'Gentoo' AND sex = 'MALE'

SELECT AVG(body_mass_g) / 1000 AS kg FROM penguins

SELECT AVG(body_mass_g / 1000) AS kg FROM penguins

SELECT species, MEDIAN(body_mass_g) AS m FROM penguins GROUP BY species

SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY body_mass_g) AS q1, PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY body_mass_g) AS q3 FROM penguins

SELECT CORR(bill_length_mm, bill_depth_mm) AS r FROM penguins

SELECT species, CORR(bill_length_mm, flipper_length_mm) AS r FROM penguins GROUP BY species

SELECT COUNT(*) FROM penguins WHERE bill_length_mm > 40 AND bill_depth_mm < 18

SELECT FLOOR(bill_length_mm / 5) * 5 AS b, COUNT(*) AS n FROM penguins GROUP BY b

SELECT ROUND(bill_length_mm) AS b, COUNT(*) AS n FROM penguins GROUP BY b ORDER BY b

SELECT SUM(body_mass_g) AS s FROM penguins WHERE island = 'Dream'

SELECT island, COUNT(*) AS n FROM penguins WHERE species <> 'Adelie' GROUP BY island

SELECT sex, COUNT(*) AS n FROM penguins WHERE sex IN ('MALE', 'FEMALE') GROUP BY sex

-- refused: find_bounds
SELECT MAX(bill_length_mm) FROM penguins

SELECT AVG(bill_length_mm * bill_depth_mm) AS area FROM penguins

SELECT SUM(bill_length_mm) / SUM(bill_depth_mm) AS ratio FROM penguins

SELECT COUNT(DISTINCT species) AS k FROM penguins WHERE body_mass_g > 5000
