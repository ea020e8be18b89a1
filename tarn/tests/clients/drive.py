#!/usr/bin/env python3
"""Has psycopg, or SQLAlchemy with pandas, ask what is recorded: python3 drive.py psycopg|sqlalchemy PORT"""

import datetime
import decimal
import sys

import pandas
import psycopg
import sqlalchemy as sa

CONDITIONS = [
    ("distance > %s", 200),
    ("distance > %s", 200.5),
    ("seats = %s", 180),
    ("gone = %s", True),
    ("day = %s", datetime.date(2020, 1, 2)),
    ("at < %s", datetime.datetime(2020, 1, 2, 3, 4, 5)),
    ("price >= %s", decimal.Decimal("9.5")),
    ("blob = %s", b"\0x"),
    ("id = ANY(%s)", ["1", "3"]),
    ("seats = ANY(%s)", [180, 5]),
    ("dest LIKE %s", "L%"),
    ("dest = %s", None),
    ("dest = %b", "SFO"),
]


def drive_psycopg(port):
    with psycopg.connect(f"host=127.0.0.1 port={port} user=default dbname=tarn") as connection:
        for binary in (False, True):
            connection.cursor(binary=binary).execute("SELECT * FROM flight ORDER BY id").fetchall()
        for condition, value in CONDITIONS:
            connection.execute(f"SELECT * FROM flight WHERE {condition} ORDER BY id", [value]).fetchall()
        for number in "123":
            connection.execute("SELECT count(*) FROM flight WHERE id = %s", [number], prepare=True).fetchone()
        with connection.cursor("c") as cursor:
            cursor.execute("SELECT id FROM flight WHERE dest = %s ORDER BY id", ["LAX"])
            cursor.fetchone(), cursor.fetchall()
        connection.rollback()
        with connection.transaction():
            try:
                with connection.transaction():
                    connection.execute("SELECT * FROM nothing")
            except psycopg.errors.UndefinedTable:
                pass
            connection.execute("SELECT * FROM flight WHERE dest = %s", ["SFO"]).fetchall()
        with connection.pipeline():
            first, second = connection.execute("SELECT 1"), connection.execute("SELECT 2")
            first.fetchone(), second.fetchone()


def drive_sqlalchemy(port):
    engine = sa.create_engine(f"postgresql+psycopg://default@127.0.0.1:{port}/tarn", use_native_hstore=False)
    sa.inspect(engine).get_table_names(), sa.inspect(engine).get_table_names(schema="keyspace")
    for what in ("schema_names", "view_names", "materialized_view_names", "sequence_names", "enums"):
        getattr(sa.inspect(engine), f"get_{what}")()
    for what in ("pk_constraint", "indexes", "foreign_keys", "unique_constraints", "check_constraints", "table_comment"):
        getattr(sa.inspect(engine), f"get_{what}")("flight")
    sa.inspect(engine).has_table("flight"), sa.inspect(engine).has_table("nothing")
    columns = [sa.Column("id", sa.Text), sa.Column("dest", sa.Text), sa.Column("distance", sa.Double)]
    flight = sa.Table("flight", sa.MetaData(), *columns)
    asked = sa.select(flight.c.dest, sa.func.count(), sa.func.min(flight.c.distance))
    asked = asked.where(flight.c.id.in_(["1", "2", "3"])).group_by(flight.c.dest).order_by(flight.c.dest).limit(2)
    with engine.connect() as connection:
        connection.execute(asked).fetchall()
    pandas.read_sql("SELECT dest, distance, count(*) FROM flight GROUP BY 1, 2 ORDER BY 1, 2", engine)
    pandas.read_sql("SELECT * FROM flight ORDER BY id", engine)


if __name__ == "__main__":
    {"psycopg": drive_psycopg, "sqlalchemy": drive_sqlalchemy}[sys.argv[1]](int(sys.argv[2]))
