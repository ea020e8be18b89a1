"""redis-om keeps its models in Tarn, and redisvl its indexes without vectors, as they do in Redis Stack."""

import datetime

import pytest
import redis
from redisvl.index import SearchIndex
from redisvl.query import CountQuery, FilterQuery
from redisvl.query.filter import Num, Tag, Text

from conftest import Server, binary, free_port


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    if "redis" in binary().rsplit("/", 1)[-1]:
        pytest.skip("Redis 7.0 has no search without its module")
    running = Server(tmp_path_factory.mktemp("frameworks"), "--sql-port", str(free_port()))
    yield running
    running.stop()


@pytest.fixture
def url(searched):
    with redis.Redis(port=searched.port) as client:
        for name in client.execute_command("FT._LIST"):
            client.execute_command("FT.DROPINDEX", name)
        client.flushall()
    return f"redis://localhost:{searched.port}"


@pytest.fixture
def om(url, monkeypatch):
    """The module redis_om and a connection for its models."""
    import redis_om

    with redis.Redis.from_url(url, decode_responses=True) as connected:
        # redis-om asks redis-py alone whether fields expire, and sends HTTL to servers before Redis 7.4, too.
        try:
            connected.httl("nokey", "field")
        except redis.exceptions.ResponseError:
            monkeypatch.setattr("redis_om.model.model.supports_hash_field_expiration", lambda: False)
        yield redis_om, connected


def test_hash_models_are_saved_found_sorted_and_deleted(om):
    redis_om, connected = om

    class Customer(redis_om.HashModel, index=True):
        first_name: str = redis_om.Field(index=True)
        last_name: str = redis_om.Field(index=True)
        age: int = redis_om.Field(index=True, sortable=True)
        joined: datetime.date = redis_om.Field(index=True)
        bio: str = redis_om.Field(index=True, full_text_search=True, default="")

        class Meta:
            database = connected
            global_key_prefix = "om-hash"

    redis_om.Migrator(conn=connected).run()
    joined = datetime.date(2024, 5, 17)
    andrew = Customer(first_name="Andrew", last_name="Brookins", age=38, joined=joined, bio="likes red wine").save()
    Customer(first_name="Kim", last_name="Brookins", age=34, joined=joined, bio="a teacher").save()
    Customer(first_name="Ann", last_name="O'Neil-Smith", age=50, joined=joined).save()

    assert Customer.get(andrew.pk) == andrew
    assert Customer.find(Customer.last_name == "Brookins").count() == 2
    names = [customer.first_name for customer in Customer.find(Customer.last_name == "Brookins").sort_by("age").all()]
    assert names == ["Kim", "Andrew"]
    names = [customer.first_name for customer in Customer.find(Customer.age >= 38).sort_by("-age").all()]
    assert names == ["Ann", "Andrew"]
    assert Customer.find((Customer.age < 40) & (Customer.last_name != "Brookins")).all() == []
    either = Customer.find((Customer.first_name == "Kim") | (Customer.age == 50)).sort_by("age").all()
    assert [customer.age for customer in either] == [34, 50]
    assert Customer.find(Customer.last_name == "O'Neil-Smith").first().first_name == "Ann"
    assert Customer.find(Customer.bio % "wine").first() == andrew
    assert Customer.find(Customer.first_name << ["Kim", "Ann"]).count() == 2
    assert Customer.find(~(Customer.first_name == "Kim")).count() == 2

    andrew.update(age=39)
    assert Customer.get(andrew.pk).age == 39
    andrew.expire(1000)
    assert 0 < connected.ttl(andrew.key()) <= 1000
    assert sorted(Customer.all_pks()) == sorted(customer.pk for customer in Customer.find().all())
    Customer.delete(andrew.pk)
    with pytest.raises(redis_om.NotFoundError):
        Customer.get(andrew.pk)
    Customer.find(Customer.age > 0).delete()
    assert Customer.find().count() == 0


def test_json_models_are_found_by_what_is_embedded(om):
    redis_om, connected = om

    class Address(redis_om.EmbeddedJsonModel, index=True):
        city: str = redis_om.Field(index=True)
        code: str

        class Meta:
            database = connected
            embedded = True

    class Member(redis_om.JsonModel, index=True):
        name: str = redis_om.Field(index=True)
        age: int = redis_om.Field(index=True, sortable=True)
        tags: list[str] = redis_om.Field(index=True, default=[])
        address: Address

        class Meta:
            database = connected
            global_key_prefix = "om-json"

    redis_om.Migrator(conn=connected).run()
    bern = Member(name="Urs", age=40, tags=["admin", "new"], address=Address(city="Bern", code="3000")).save()
    Member(name="Eva", age=30, tags=["new"], address=Address(city="Basel", code="4000")).save()

    assert Member.get(bern.pk) == bern
    assert Member.find(Member.address.city == "Bern").all() == [bern]
    assert Member.find(Member.tags << ["admin"]).all() == [bern]
    assert [member.name for member in Member.find(Member.tags << ["new"]).sort_by("age").all()] == ["Eva", "Urs"]
    page = Member.find(Member.age > 0).sort_by("-age").page(offset=1, limit=1)
    assert [member.name for member in page] == ["Eva"]

    bern.update(name="Ueli", address__city="Biel")
    assert Member.find(Member.address.city == "Biel").first().name == "Ueli"
    bern.address.code = "2500"
    bern.save()
    assert Member.get(bern.pk).address.code == "2500"
    Member.delete(bern.pk)
    assert Member.find(Member.name == "Ueli").all() == []


SCHEMA = {
    "index": {"name": "people", "prefix": "person", "storage_type": "hash"},
    "fields": [
        {"name": "user", "type": "tag"},
        {"name": "job", "type": "text"},
        {"name": "age", "type": "numeric", "attrs": {"sortable": True}},
    ],
}
PEOPLE = [
    {"user": "john", "job": "software engineer", "age": 30},
    {"user": "mary", "job": "doctor", "age": 40},
    {"user": "joe", "job": "dentist of engineers", "age": 50},
]


@pytest.mark.parametrize("storage", ["hash", "json"])
def test_an_index_is_made_loaded_asked_and_deleted(url, storage):
    schema = {**SCHEMA, "index": {**SCHEMA["index"], "storage_type": storage}}
    index = SearchIndex.from_dict(schema, redis_url=url)
    assert not index.exists()
    index.create()
    assert index.exists()
    assert index.listall() == ["people"]
    index.create(overwrite=True, drop=False)
    keys = index.load(PEOPLE, id_field="user")
    assert sorted(keys) == ["person:joe", "person:john", "person:mary"]
    assert index.fetch("mary")["job"] == "doctor"
    assert int(index.info()["num_docs"]) == 3

    def users(expression, **options):
        query = FilterQuery(return_fields=["user", "age"], filter_expression=expression, **options)
        return [found["user"] for found in index.query(query)]

    assert sorted(users(Num("age") >= 40)) == ["joe", "mary"]
    assert users(Tag("user") == "john") == ["john"]
    assert sorted(users(Tag("user") == ["john", "mary"])) == ["john", "mary"]
    assert users((Num("age") > 30) & (Tag("user") != "mary")) == ["joe"]
    assert users(Text("job") % "engineer") == ["john"]
    assert sorted(users((Text("job") == "software engineer") | (Num("age") == 40))) == ["john", "mary"]
    assert users(Num("age") > 0, sort_by="age", num_results=2) == ["john", "mary"]
    assert sorted(users(Num("age").between(30, 40))) == ["john", "mary"]
    assert index.query(CountQuery(filter_expression=Num("age") > 30)) == 2
    assert index.query(CountQuery()) == 3
    assert users(Num("age").is_missing()) == []
    pages = list(index.paginate(FilterQuery(return_fields=["user"], filter_expression=Num("age") > 0), page_size=2))
    assert [len(page) for page in pages] == [2, 1]

    known = SearchIndex.from_existing("people", redis_url=url)
    assert {field.name for field in known.schema.fields.values()} >= {"user", "job", "age"}
    assert index.drop_keys("person:joe") == 1
    assert index.query(CountQuery()) == 2
    assert index.clear() == 2
    assert index.query(CountQuery()) == 0
    index.load(PEOPLE, id_field="user")
    index.delete(drop=True)
    assert not index.exists()
    assert index.client.dbsize() == 0
