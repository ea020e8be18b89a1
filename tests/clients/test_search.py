"""redis-py's search commands do with Tarn what they do with RediSearch, as far as docs/search.md says."""

import pytest
import redis
from redis.commands.search import aggregation, reducers
from redis.commands.search.field import NumericField, TagField, TextField
from redis.commands.search.indexDefinition import IndexDefinition, IndexType
from redis.commands.search.query import NumericFilter, Query

from conftest import Server, binary, free_port


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    if "redis" in binary().rsplit("/", 1)[-1]:
        pytest.skip("Redis 7.0 has no search without its module")
    running = Server(tmp_path_factory.mktemp("search"), "--sql-port", str(free_port()))
    yield running
    running.stop()


@pytest.fixture
def client(searched, protocol):
    with redis.Redis(port=searched.port, protocol=protocol, decode_responses=True) as connected:
        connected.flushall()
        for name in connected.execute_command("FT._LIST"):
            connected.ft(name).dropindex()
        yield connected


@pytest.fixture
def shop(client):
    client.hset("item:1", mapping={"name": "Red wine glass", "tags": "kitchen,glass", "price": "10.5"})
    client.hset("item:2", mapping={"name": "Wine bottle", "tags": "kitchen", "price": "20"})
    client.hset("item:3", mapping={"name": "Chair", "tags": "room", "price": "40", "colour": "red"})
    client.hset("item:4", mapping={"name": "Shelf", "tags": "room", "price": "unknown"})
    fields = (TextField("name", weight=2.0), TagField("tags"), NumericField("price", sortable=True))
    definition = IndexDefinition(prefix=["item:"], index_type=IndexType.HASH)
    assert client.ft("shop").create_index(fields, definition=definition) == "OK"
    return client


def found(client, result):
    """The total, and each key with its fields: redis-py leaves replies of RESP3 as they are."""
    if isinstance(result, dict):
        return result["total_results"], [(row["id"], row.get("extra_attributes")) for row in result["results"]]
    rows = []
    for document in result.docs:
        fields = {name: value for name, value in vars(document).items() if name not in ("id", "payload")}
        rows.append((document.id, fields))
    return result.total, rows


def rows(result):
    if isinstance(result, dict):
        return [row["extra_attributes"] for row in result["results"]]
    return [dict(zip(row[::2], row[1::2])) for row in result.rows]


def test_keys_are_found_with_their_fields(shop):
    index = shop.ft("shop")
    total, documents = found(shop, index.search("wine"))
    assert total == 2
    assert documents[0] == ("item:1", {"name": "Red wine glass", "tags": "kitchen,glass", "price": "10.5"})
    query = Query("@tags:{kitchen|room} -@name:shelf").sort_by("price", asc=False)
    query = query.paging(1, 1).return_fields("price", "colour")
    assert found(shop, index.search(query)) == (3, [("item:2", {"price": "20"})])
    bounded = Query("@price:[$low (40]").dialect(2)
    assert found(shop, index.search(bounded, query_params={"low": 11}))[0] == 1
    filtered = Query("*").add_filter(NumericFilter("price", 20, NumericFilter.INF)).no_content()
    total, documents = found(shop, index.search(filtered))
    assert (total, [key for key, _ in documents]) == (2, ["item:2", "item:3"])


def test_what_is_written_is_found_at_once(shop):
    index = shop.ft("shop")
    for number in range(50):
        shop.hset(f"item:new{number}", mapping={"name": "lamp", "price": number})
        assert found(shop, index.search(Query("lamp").no_content()))[0] == number + 1
    shop.delete("item:new7")
    assert found(shop, index.search(Query("lamp").no_content()))[0] == 49


def test_rows_are_grouped_and_read_by_a_cursor(shop):
    index = shop.ft("shop")
    request = (
        aggregation.AggregateRequest("*")
        .group_by("@tags", reducers.count().alias("n"), reducers.sum("@price").alias("total"))
        .filter("@total > 15")
        .apply(half="@total / 2")
        .sort_by(aggregation.Desc("@total"))
    )
    assert rows(index.aggregate(request)) == [
        {"tags": "room", "n": "2", "total": "40", "half": "20"},
        {"tags": "kitchen", "n": "1", "total": "20", "half": "10"},
    ]
    request = aggregation.AggregateRequest("*").load("@name").cursor(count=3, max_idle=5.0)
    if shop.connection_pool.connection_kwargs["protocol"] == 3:
        # redis-py makes no cursor of a reply of RESP3.
        first, cursor = index.aggregate(request)
        assert len(rows(first)) == 3
        rest, end = shop.execute_command("FT.CURSOR", "READ", "shop", cursor)
        assert (len(rows(rest)), end) == (1, 0)
        return
    first = index.aggregate(request)
    assert len(first.rows) == 3
    rest = index.aggregate(first.cursor)
    assert (len(rest.rows), rest.cursor.cid) == (1, 0)
    another = index.aggregate(request)
    assert shop.execute_command("FT.CURSOR", "DEL", "shop", another.cursor.cid) == "OK"


def test_info_describes_an_index(shop):
    info = shop.ft("shop").info()
    assert info["index_name"] == "shop"
    assert (int(info["num_docs"]), int(info["hash_indexing_failures"])) == (4, 1)
    assert len(info["attributes"]) == 3
    assert shop.ft("shop").alter_schema_add([TagField("colour")]) == "OK"
    assert found(shop, shop.ft("shop").search("@colour:{red}"))[0] == 1
    assert "Words" in shop.ft("shop").explain("wine")


def test_documents_are_found(client):
    client.json().set("doc:1", "$", {"name": "Ulm", "size": 126, "tags": ["city", "river"]})
    client.json().set("doc:2", "$", {"name": "Aalen", "size": 68, "tags": ["city"]})
    fields = (
        TextField("$.name", as_name="name"),
        NumericField("$.size", as_name="size"),
        TagField("$.tags[*]", as_name="tags"),
    )
    definition = IndexDefinition(prefix=["doc:"], index_type=IndexType.JSON)
    client.ft("docs").create_index(fields, definition=definition)
    total, documents = found(client, client.ft("docs").search("@tags:{river} @size:[100 200]"))
    assert (total, documents[0][0]) == (1, "doc:1")
    assert '"size":126' in str(documents[0][1])


def test_errors_say_what_is_wrong(shop):
    with pytest.raises(redis.ResponseError, match="no such index"):
        shop.ft("nothing").search("*")
    with pytest.raises(redis.ResponseError, match="(?i)unknown index name"):
        shop.ft("nothing").info()
    with pytest.raises(redis.ResponseError, match="Index already exists"):
        shop.ft("shop").create_index([TextField("name")])
    with pytest.raises(redis.ResponseError, match="Syntax error at offset"):
        shop.ft("shop").search("%fuzzy%")
    assert shop.ft("shop").dropindex() == "OK"
    assert shop.execute_command("FT._LIST") == []
    assert shop.exists("item:1") == 1
