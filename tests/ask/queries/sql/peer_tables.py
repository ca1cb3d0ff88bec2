"""The tables that other systems' tutorials ask about, in our own names: declared, and made up as declared."""

from __future__ import annotations

import datetime
import functools
from typing import Any

import pyarrow as pa

import sordino as sd

_DAYS = sd.Date(datetime.date(2019, 1, 1), datetime.date(2021, 12, 31))
_ROWS = 1500
_WEEK = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_FLAG = [0, 1]

TABLES: dict[str, dict[str, Any]] = {
    "pums": {
        "pid": sd.Identifier(),
        "age": sd.Integer(0, 100),
        "sex": sd.Category(_FLAG),
        "educ": sd.Integer(1, 16),
        "race": sd.Category([1, 2, 3, 4, 5, 6]),
        "income": sd.Integer(0, 500_000),
        "married": sd.Category(_FLAG),
    },
    "adult": {
        "age": sd.Integer(17, 90),
        "workclass": sd.Category(["Private", "State-gov", "Federal-gov", "Self-emp"], missing="keep"),
        "education": sd.Category(["HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate"]),
        "education_num": sd.Integer(1, 16),
        "marital_status": sd.Category(["Never-married", "Married-civ-spouse", "Divorced", "Widowed"]),
        "occupation": sd.Category(["Tech-support", "Craft-repair", "Sales", "Exec-managerial"], missing="keep"),
        "relationship": sd.Category(["Wife", "Husband", "Own-child", "Unmarried"]),
        "race": sd.Category(["White", "Black", "Asian-Pac-Islander", "Other"]),
        "sex": sd.Category(["Male", "Female"]),
        "capital_gain": sd.Integer(0, 100_000),
        "capital_loss": sd.Integer(0, 5000),
        "hours_per_week": sd.Integer(1, 99),
        "native_country": sd.Category(["United-States", "Mexico", "Canada", "India"], missing="keep"),
        "income": sd.Category(["<=50K", ">50K"]),
    },
    "trips": {
        "driver_id": sd.Identifier(),
        "vendor": sd.Category(["CMT", "VTS", "DDS"]),
        "pickup_date": _DAYS,
        "pickup_hour": sd.Integer(0, 23),
        "passenger_count": sd.Integer(0, 6),
        "trip_distance": sd.Real(0, 60, resolution="0.01"),
        "pickup_zone": sd.Identifier(),
        "borough": sd.Category(["Manhattan", "Queens", "Brooklyn", "Bronx", "Staten Island"]),
        "payment_type": sd.Category([1, 2, 3, 4]),
        "fare_amount": sd.Real(0, 200, resolution="0.01"),
        "tip_amount": sd.Real(0, 50, resolution="0.01"),
        "tolls_amount": sd.Real(0, 30, resolution="0.01"),
        "total_amount": sd.Real(0, 300, resolution="0.01"),
        "store_and_fwd": sd.Boolean(),
    },
    "restaurant": {
        "visitor_id": sd.Identifier(),
        "weekday": sd.Category(_WEEK),
        "visit_date": _DAYS,
        "hour_entered": sd.Integer(8, 22),
        "minutes_spent": sd.Integer(0, 240),
        "money_spent": sd.Integer(0, 100),
    },
    "flights": {
        "carrier": sd.Category(["AA", "UA", "DL", "WN"]),
        "flight_date": _DAYS,
        "origin": sd.Category(["JFK", "LGA", "EWR", "ORD", "SFO"]),
        "dest": sd.Identifier(),
        "dep_delay": sd.Integer(-60, 600),
        "arr_delay": sd.Integer(-60, 600),
        "distance": sd.Integer(0, 5000),
        "air_time": sd.Integer(0, 700),
        "cancelled": sd.Boolean(),
    },
    "visits": {
        "patient_id": sd.Identifier(),
        "age": sd.Integer(0, 110),
        "sex": sd.Category(["F", "M", "X"]),
        "ward": sd.Category(["cardiology", "oncology", "surgery", "maternity"]),
        "diagnosis": sd.Identifier(),
        "length_of_stay": sd.Integer(0, 60),
        "cost": sd.Real(0, 20000, resolution="0.01"),
        "admitted": _DAYS,
        "readmitted": sd.Boolean(),
        "bmi": sd.Real(10, 60, resolution="0.1"),
        "systolic": sd.Integer(60, 250),
        "insured": sd.Category(["public", "private", "none"], missing="keep"),
    },
    "lineitem": {
        "l_orderkey": sd.Identifier(),
        "l_returnflag": sd.Category(["A", "N", "R"]),
        "l_linestatus": sd.Category(["O", "F"]),
        "l_shipmode": sd.Category(["AIR", "MAIL", "SHIP", "TRUCK", "RAIL"]),
        "l_quantity": sd.Integer(1, 50),
        "l_extendedprice": sd.Real(0, 100_000, resolution="0.01"),
        "l_discount": sd.Real(0, "0.1", resolution="0.01"),
        "l_tax": sd.Real(0, "0.08", resolution="0.01"),
        "l_shipdate": _DAYS,
        "l_partkey": sd.Identifier(),
    },
    "store_sales": {
        "ss_customer": sd.Identifier(),
        "ss_store": sd.Category([1, 2, 3, 4, 5, 6]),
        "ss_item": sd.Identifier(),
        "ss_quantity": sd.Integer(0, 100),
        "ss_list_price": sd.Real(0, 200, resolution="0.01"),
        "ss_sales_price": sd.Real(0, 200, resolution="0.01"),
        "ss_wholesale_cost": sd.Real(0, 100, resolution="0.01"),
        "ss_coupon_amt": sd.Real(0, 1000, resolution="0.01"),
        "ss_net_profit": sd.Real(-1000, 1000, resolution="0.01"),
        "ss_sold_date": _DAYS,
    },
    "penguins": {
        "species": sd.Category(["Adelie", "Gentoo", "Chinstrap"]),
        "island": sd.Category(["Torgersen", "Biscoe", "Dream"]),
        "bill_length_mm": sd.Real(30, 65, resolution="0.1"),
        "bill_depth_mm": sd.Real(13, 23, resolution="0.1"),
        "flipper_length_mm": sd.Real(150, 250, resolution="0.1"),
        "body_mass_g": sd.Real(2000, 7000, resolution="1"),
        "sex": sd.Category(["MALE", "FEMALE"], missing="keep"),
    },
    "members": {
        "id": sd.Identifier(),
        "age": sd.Integer(0, 120),
        "gender": sd.Category(["female", "male", "nonbinary", "unspecified"]),
        "education_level": sd.Category(["up-to-high-school", "bachelors-associate", "masters-degree", "doctorate"]),
        "zip_code": sd.Identifier(),
        "books_borrowed": sd.Integer(0, 200),
        "favorite_genre": sd.Category(["Mystery", "Romance", "History", "Children", "Science fiction"]),
        "date_joined": _DAYS,
    },
    "rides": {
        "rider_id": sd.Identifier(),
        "city": sd.Category(["Austin", "Boston", "Chicago", "Denver"]),
        "status": sd.Category(["completed", "rider_canceled", "driver_canceled", "unfulfilled"]),
        "product": sd.Category(["pool", "x", "black"]),
        "fare": sd.Real(0, 150, resolution="0.01"),
        "miles": sd.Real(0, 80, resolution="0.1"),
        "minutes": sd.Integer(0, 180),
        "rating": sd.Integer(1, 5),
        "requested_on": _DAYS,
        "promo": sd.Boolean(),
    },
    "ratings": {
        "user_id": sd.Identifier(),
        "movie_id": sd.Identifier(),
        "rating": sd.Integer(1, 5),
        "rated_on": _DAYS,
        "genre": sd.Category(["action", "comedy", "drama"]),
    },
    "grades": {
        "student_id": sd.Identifier(),
        "class_year": sd.Category([1, 2, 3, 4]),
        "hw_number": sd.Integer(1, 20),
        "grade": sd.Integer(0, 100),
        "self_assessment": sd.Real(0, 1, resolution="0.01"),
    },
    "professors": {
        "id": sd.Identifier(),
        "item": sd.Category(["pen", "pencil", "scissors", "stamp"]),
        "quantity": sd.Integer(0, 100),
    },
    "orders": {
        "customer_id": sd.Identifier(),
        "product": sd.Identifier(),
        "category": sd.Category(["books", "games", "tools"]),
        "status": sd.Category(["P", "F", "O"]),
        "quantity": sd.Integer(0, 20),
        "price": sd.Real(0, 500, resolution="0.01"),
        "order_date": _DAYS,
        "region": sd.Category(["north", "south", "east", "west"]),
        "paid": sd.Boolean(),
    },
    "events": {
        "user_id": sd.Identifier(),
        "event_name": sd.Category(["view", "click", "purchase"]),
        "platform": sd.Category(["ios", "android", "web"]),
        "country": sd.Identifier(),
        "duration": sd.Integer(0, 3600),
        "value": sd.Real(0, 1000, resolution="0.01"),
        "event_date": _DAYS,
    },
}
UNITS = {
    "trips": "driver_id",
    "restaurant": "visitor_id",
    "visits": "patient_id",
    "lineitem": "l_orderkey",
    "store_sales": "ss_customer",
    "rides": "rider_id",
    "ratings": "user_id",
    "grades": "student_id",
    "professors": "id",
    "orders": "customer_id",
    "events": "user_id",
}
_AIRLINES = pa.table(
    {
        "carrier": ["AA", "UA", "DL", "WN"],
        "alliance": ["Oneworld", "Star", "SkyTeam", "none"],
        "fleet": [950, 930, 980, 800],
    }
)
_REGIONS = pa.table({"region": ["north", "south", "east"], "country": ["A", "A", "B"]})
PUBLIC_ROWS: dict[str, Any] = {"airlines": _AIRLINES, "regions": _REGIONS}
PUBLIC: dict[str, dict[str, sd.PublicTable]] = {
    "flights": {
        "airlines": sd.public(
            _AIRLINES,
            key="carrier",
            columns=sd.Domain(
                {
                    "carrier": sd.Category(["AA", "UA", "DL", "WN"]),
                    "alliance": sd.Category(["Oneworld", "Star", "SkyTeam", "none"]),
                    "fleet": sd.Integer(0, 1000),
                }
            ),
        )
    },
    "orders": {
        "regions": sd.public(
            _REGIONS,
            key="region",
            columns=sd.Domain(
                {"region": sd.Category(["north", "south", "east", "west"]), "country": sd.Category(["A", "B"])}
            ),
        )
    },
}


@functools.cache
def make_rows(name: str) -> Any:
    """Return the made-up rows of a table, the same each time."""
    return sd.dummy(sd.Domain(TABLES[name]), rows=_ROWS, rng=sd.Rng.seeded(7))


@functools.cache
def open_table(name: str, neighbors: str = "add_remove") -> sd.Curator:
    """Return the curator of a made-up table: rows, or the units that people's tutorials protect, all of whose rows count."""
    unit = UNITS.get(name)
    return sd.protect(
        make_rows(name),
        domain=sd.Domain(TABLES[name]),
        neighbors=neighbors,
        privacy_unit="row" if unit is None else sd.PrivacyUnit(unit, max_rows=20),
        budget=sd.ApproxDP(10**9, "0.5"),
        ledger=None,
        rng=sd.Rng.seeded(11),
        name=name,
        public=PUBLIC.get(name),
    )
