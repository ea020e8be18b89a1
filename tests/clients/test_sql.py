"""Clients of PostgreSQL ask the port for SQL as they are: psycopg 3, and SQLAlchemy with pandas."""

import datetime
import decimal
import pathlib

import pandas
import psycopg
import pytest
import redis
import sqlalchemy as sa
from conftest import Server, binary, free_port

if pathlib.Path(binary()).name.startswith("redis"):
    pytest.skip("Redis knows no SQL", allow_module_level=True)

DECLARE = """CREATE EXTERNAL TABLE flight (id TEXT, dest TEXT, distance DOUBLE, seats INT, gone BOOLEAN, day DATE,
 at TIMESTAMP, price DECIMAL(10, 2)) STORED AS HASH LOCATION 'flight:*'"""


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    port = free_port()
    running = Server(tmp_path_factory.mktemp("sql"), "--sql-port", str(port))
    with redis.Redis(port=running.port) as client:
        whole = {"seats": 180, "gone": "true", "day": "2020-01-02", "at": "2020-01-02T03:04:05", "price": "9.50"}
        client.hset("flight:1", mapping={"dest": "LAX", "distance": "120.5", **whole})
        client.hset("flight:2", mapping={"dest": "SFO", "distance": "300"})
        client.hset("flight:3", mapping={"dest": "LAX", "distance": "far"})
        client.execute_command("SQL", DECLARE)
    yield port
    running.stop()


@pytest.fixture
def connection(port):
    with psycopg.connect(f"host=127.0.0.1 port={port} user=default dbname=tarn") as connection:
        yield connection


@pytest.fixture
def engine(port):
    engine = sa.create_engine(f"postgresql+psycopg://default@127.0.0.1:{port}/tarn")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_every_type(connection, binary):
    rows = connection.cursor(binary=binary).execute("SELECT * FROM flight WHERE id = %s", ["1"]).fetchall()
    at = datetime.datetime(2020, 1, 2, 3, 4, 5)
    assert rows == [("1", "LAX", 120.5, 180, True, at.date(), at, decimal.Decimal("9.50"))]


def test_psycopg_sends_parameters(connection):
    def ids(condition, *values):
        return [row[0] for row in connection.execute(f"SELECT id FROM flight WHERE {condition} ORDER BY id", values)]

    assert ids("distance > %s", 200) == ["2"]
    assert ids("seats = %s AND gone = %s", 180, True) == ["1"]
    assert ids("day = %s", datetime.date(2020, 1, 2)) == ["1"]
    assert ids("price >= %s", decimal.Decimal("9.5")) == ["1"]
    assert ids("id = ANY(%s)", ["1", "3"]) == ["1", "3"]
    assert ids("dest LIKE %s", "L%") == ["1", "3"]
    assert ids("dest = %s", None) == []


def test_psycopg_goes_back_to_a_savepoint(connection):
    with connection.transaction():
        with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
            connection.execute("SELECT * FROM nothing")
        assert connection.execute("SELECT count(*) FROM flight").fetchone() == (3,)


def test_psycopg_reads_through_a_cursor_of_the_server(connection):
    with connection.cursor("c") as cursor:
        cursor.execute("SELECT id FROM flight WHERE dest = %s ORDER BY id", ["LAX"])
        assert cursor.fetchone() == ("1",)
        assert cursor.fetchall() == [("3",)]


def test_psycopg_prepares_and_pipelines(connection):
    for number in "123":
        asked = connection.execute("SELECT count(*) FROM flight WHERE id = %s", [number], prepare=True)
        assert asked.fetchone() == (1,)
    with connection.pipeline():
        first, second = connection.execute("SELECT 1"), connection.execute("SELECT 2")
        assert (first.fetchone(), second.fetchone()) == ((1,), (2,))


def test_sqlalchemy_sees_the_tables(engine):
    seen = sa.inspect(engine)
    assert "flight" in seen.get_table_names()
    assert set(seen.get_schema_names()) >= {"public", "keyspace"}
    of_keyspace = {"hashes", "keys", "lists", "sets", "streams", "strings", "zsets"}
    assert set(seen.get_table_names(schema="keyspace")) == of_keyspace
    types = {column["name"]: type(column["type"]) for column in seen.get_columns("flight")}
    assert types["dest"] is sa.TEXT and types["distance"] is sa.DOUBLE_PRECISION and types["seats"] is sa.INTEGER
    assert types["day"] is sa.DATE and types["price"] is sa.NUMERIC and types["gone"] is sa.BOOLEAN
    assert seen.has_table("flight") and not seen.has_table("nothing")
    assert seen.get_pk_constraint("flight")["constrained_columns"] == []
    assert seen.get_indexes("flight") == seen.get_foreign_keys("flight") == []


def test_sqlalchemy_asks_by_a_table(engine):
    columns = [sa.Column(c["name"], c["type"]) for c in sa.inspect(engine).get_columns("flight")]
    flight = sa.Table("flight", sa.MetaData(), *columns)
    asked = sa.select(flight.c.dest, sa.func.count(), sa.func.min(flight.c.distance))
    asked = asked.where(flight.c.id.in_(["1", "2", "3"])).group_by(flight.c.dest).order_by(flight.c.dest).limit(2)
    with engine.connect() as connection:
        assert connection.execute(asked).fetchall() == [("LAX", 2, 120.5), ("SFO", 1, 300.0)]


def test_sqlalchemy_and_pandas_learn_a_table_from_its_name(engine):
    flight = sa.Table("flight", sa.MetaData(), autoload_with=engine)
    assert flight.columns.keys() == ["id", "dest", "distance", "seats", "gone", "day", "at", "price"]
    table = pandas.read_sql_table("flight", engine, index_col="id")
    assert table.loc["1", "seats"] == 180 and len(table) == 3


def test_pandas_reads(engine):
    frame = pandas.read_sql("SELECT dest, distance, count(*) FROM flight GROUP BY 1, 2 ORDER BY 1, 2", engine)
    assert list(frame.columns) == ["dest", "distance", "count"]
    assert frame["distance"].dtype == "float64" and frame["distance"].sum() == 420.5
    table = pandas.read_sql("SELECT * FROM flight", engine)
    assert len(table) == 3 and table["at"].dtype.kind == "M"
