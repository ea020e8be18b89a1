"""Clients over TLS, as the user `default` and as users with rules: redis-py, redis-cli, redis-benchmark, psql, psycopg.

`certificates.sh` makes the certificates. Each refusal stands beside an answer to a client that differs in one thing.
"""

import asyncio
import os
import pathlib
import shutil
import subprocess
import threading

import psycopg
import pytest
import redis
import redis.asyncio
from conftest import Server, binary, free_port
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError
from test_redis_tools import LIMIT_SECONDS, tool

IS_REDIS = pathlib.Path(binary()).name.startswith("redis")
ALICE = "alice:wonderland@"
RULES = ["on", ">wonderland", "~app:*", "%R~shared:*", "&news:*", "+@all", "-@dangerous"]
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    script = pathlib.Path(__file__).with_name("certificates.sh")
    made = subprocess.run(["sh", str(script), str(folder)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder


class Encrypted(Server):
    """A server with `tls_port`, and an ordinary port for `admin`, who prepares it and looks into it."""

    def __init__(self, folder, certificates, *options):
        self.certificates = certificates
        self.tls_port = free_port()
        files = {"tls-cert-file": "server.pem", "tls-key-file": "server.key", "tls-ca-cert-file": "authority.pem"}
        named = [word for name, file in files.items() for word in (f"--{name}", str(certificates / file))]
        super().__init__(folder, "--tls-port", str(self.tls_port), *named, *options)
        self.admin = redis.Redis(port=self.port, decode_responses=True)

    def file(self, name):
        return str(self.certificates / name)

    def trust(self, authority="authority", shown=None):
        """The options of redis-py for the authority to trust and the certificate to show."""
        options = {"ssl_ca_certs": self.file(f"{authority}.pem"), "ssl_check_hostname": True}
        if shown is not None:
            options |= {"ssl_certfile": self.file(f"{shown}.pem"), "ssl_keyfile": self.file(f"{shown}.key")}
        return options

    def url(self, user="", host="localhost"):
        """`user` is empty or `NAME:PASSWORD@`."""
        return f"rediss://{user}{host}:{self.tls_port}"

    def connect(self, user="", host="localhost", authority="authority", shown=None, **options):
        options = {"decode_responses": True, "socket_timeout": LIMIT_SECONDS} | options
        return redis.Redis.from_url(self.url(user, host), **self.trust(authority, shown) | options)

    def set_certificate(self, name):
        self.admin.config_set("tls-cert-file", self.file(f"{name}.pem"), "tls-key-file", self.file(f"{name}.key"))

    def stop(self):
        self.admin.close()
        super().stop()


@pytest.fixture(scope="module")
def lenient_server(tmp_path_factory, certificates):
    running = Encrypted(tmp_path_factory.mktemp("lenient"), certificates, "--tls-auth-clients", "no")
    yield running
    running.stop()


@pytest.fixture
def lenient(lenient_server):
    """Asks clients for no certificate; empty, with the user `alice` and nothing in `ACL LOG`."""
    lenient_server.admin.flushall()
    lenient_server.admin.execute_command("ACL", "SETUSER", "alice", "reset", *RULES)
    lenient_server.admin.acl_log_reset()
    return lenient_server


@pytest.fixture(scope="module")
def strict(tmp_path_factory, certificates):
    """Asks clients for certificates, as it does by default."""
    running = Encrypted(tmp_path_factory.mktemp("strict"), certificates)
    yield running
    running.stop()


def refusal(server, **options):
    """Fails unless redis-py is left without an answer; returns the reason."""
    with server.connect(**options) as client, pytest.raises(redis.exceptions.ConnectionError) as failed:
        client.ping()
    return str(failed.value)


def peer(client):
    """The version of TLS, and the name in the server's certificate, of a new connection."""
    connection = client.connection_pool.make_connection()
    connection.connect()
    names = dict(pair for part in connection._sock.getpeercert()["subject"] for pair in part)
    version = connection._sock.version()
    connection.disconnect()
    return version, names["commonName"]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_redis_py_speaks_over_tls(lenient, protocol, host):
    with lenient.connect(host=host, protocol=protocol) as client:
        assert client.set("k", "v", ex=100) and client.get("k") == "v"
        assert client.hset("h", mapping={"a": "1", "b": "zwei"}) == 2
        assert client.hgetall("h") == {"a": "1", "b": "zwei"}
        assert client.zadd("z", {"x": 1.5}) == 1 and client.zscore("z", "x") == 1.5
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            client.lpush("k", "x")
    assert lenient.admin.get("k") == "v"


def test_redis_py_speaks_both_versions(lenient):
    try:
        for version in ["TLSv1.2", "TLSv1.3"]:
            lenient.admin.config_set("tls-protocols", version)
            with lenient.connect() as client:
                assert client.echo("hello") == "hello"
                assert peer(client) == (version, "server")
    finally:
        lenient.admin.config_set("tls-protocols", "")


def test_redis_py_leaves_a_server_that_it_cannot_trust(lenient):
    assert "certificate verify failed" in refusal(lenient, authority="foreign")
    with redis.Redis.from_url(lenient.url()) as unaware, pytest.raises(redis.exceptions.ConnectionError):
        unaware.ping()
    lenient.set_certificate("elsewhere")
    try:
        assert "Hostname mismatch" in refusal(lenient)
        with lenient.connect(ssl_check_hostname=False) as careless:
            assert careless.ping()
    finally:
        lenient.set_certificate("server")
    with lenient.connect() as client:
        assert client.ping()


def test_a_client_without_tls_gets_no_answer_at_the_port_for_it(lenient):
    with redis.Redis(port=lenient.tls_port) as plain, pytest.raises(redis.exceptions.ConnectionError):
        plain.ping()


def test_a_certificate_is_asked_for(strict, protocol):
    with strict.connect(shown="client", protocol=protocol) as client:
        assert client.incr("n") >= 1
    refusal(strict, protocol=protocol)
    refusal(strict, shown="stranger", protocol=protocol)
    with strict.connect(shown="client", protocol=protocol) as client:
        assert client.ping()


def test_a_certificate_may_be_shown(strict):
    strict.admin.config_set("tls-auth-clients", "optional")
    try:
        for shown in [None, "client"]:
            with strict.connect(shown=shown) as client:
                assert client.ping()
        refusal(strict, shown="stranger")
    finally:
        strict.admin.config_set("tls-auth-clients", "yes")
    refusal(strict)


def test_a_certificate_is_no_password(strict, protocol):
    strict.admin.execute_command("ACL", "SETUSER", "alice", "reset", *RULES)
    with strict.connect(ALICE, shown="client", protocol=protocol) as client:
        assert client.acl_whoami() == "alice"
    with strict.connect("alice:guess@", shown="client", protocol=protocol) as client:
        with pytest.raises(AuthenticationError):
            client.ping()


def test_a_user_may_do_what_rules_say(lenient, protocol):
    lenient.admin.mset({"shared:k": "theirs", "other:k": "hidden"})
    with lenient.connect(ALICE, protocol=protocol) as client:
        assert client.acl_whoami() == "alice"
        assert client.set("app:k", "v") and client.get("app:k") == "v" and client.get("shared:k") == "theirs"
        assert client.eval_ro("return redis.call('GET', KEYS[1])", 1, "shared:k") == "theirs"
        with pytest.raises(NoPermissionError):
            client.flushall()
        with pytest.raises(NoPermissionError):
            client.set("shared:k", "mine")
        with pytest.raises(NoPermissionError):
            client.mget("app:k", "other:k")
        with pytest.raises(NoPermissionError):
            client.publish("secret", "m")
        with pytest.raises(ResponseError):
            client.eval("return redis.call('GET', 'other:k')", 0)
        with pytest.raises(ResponseError), client.pipeline() as transaction:
            transaction.set("app:k", "w").get("other:k").execute()
        assert client.get("app:k") == "v"
    assert lenient.admin.mget("shared:k", "other:k") == ["theirs", "hidden"]
    seen = [(one["reason"], one["context"], one["object"], one["count"]) for one in lenient.admin.acl_log()]
    assert seen == [
        ("key", "multi", "other:k", 1),
        ("key", "lua", "other:k", 1),
        ("channel", "toplevel", "secret", 1),
        ("key", "toplevel", "other:k", 1),
        ("key", "toplevel", "shared:k", 1),
        ("command", "toplevel", "flushall", 1),
    ]
    last = lenient.admin.acl_log()[0]
    assert last["username"] == last["client-info"]["user"] == "alice"
    assert last["client-info"]["laddr"].endswith(f":{lenient.tls_port}")


def test_rules_change_while_a_user_is_there(lenient, protocol):
    with lenient.connect(ALICE, protocol=protocol, single_connection_client=True) as client:
        assert client.set("app:k", "v")
        lenient.admin.execute_command("ACL", "SETUSER", "alice", "-set")
        with pytest.raises(NoPermissionError):
            client.set("app:k", "w")
        assert client.get("app:k") == "v"
        number = client.client_id()
        lenient.admin.acl_deluser("alice")
        with pytest.raises((redis.exceptions.ConnectionError, AuthenticationError)):
            client.get("app:k")
    assert all(one["id"] != str(number) for one in lenient.admin.client_list())


def test_who_shows_no_password_or_a_wrong_one_is_refused(lenient, protocol):
    with lenient.admin.client() as admin:
        admin.config_set("requirepass", "s3cret")
        try:
            with lenient.connect(protocol=protocol) as client, pytest.raises(AuthenticationError) as failed:
                client.get("k")
            assert "uthenticat" in str(failed.value)
            for user in [":guess@", "alice:guess@", "nobody:wonderland@"]:
                with lenient.connect(user, protocol=protocol) as client, pytest.raises(AuthenticationError):
                    client.ping()
            for user in [":s3cret@", "default:s3cret@", ALICE]:
                with lenient.connect(user, protocol=protocol) as client:
                    assert client.ping()
            admin.execute_command("ACL", "SETUSER", "alice", "off")
            with lenient.connect(ALICE, protocol=protocol) as client, pytest.raises(AuthenticationError):
                client.ping()
            seen = [(one["reason"], one["object"], one["username"]) for one in admin.acl_log()]
        finally:
            admin.config_set("requirepass", "")
    word = "AUTH" if protocol == 2 else "HELLO"
    assert seen == [("auth", word, name) for name in ["alice", "nobody", "default"]]


def message(listener):
    """The next message that is not about subscriptions."""
    while True:
        told = listener.get_message(timeout=LIMIT_SECONDS)
        assert told is not None
        if told["type"] in ("message", "pmessage"):
            return told["channel"], told["data"]


def test_users_publish_and_subscribe_to_their_channels(lenient, protocol):
    with lenient.connect(ALICE, protocol=protocol) as client:
        with client.pubsub() as listener:
            listener.subscribe("news:a")
            listener.psubscribe("news:*")
            while listener.get_message(timeout=LIMIT_SECONDS)["type"] != "psubscribe":
                pass
            large = "x" * 100_000
            for text in ["one", large]:
                assert client.publish("news:a", text) == 2
                assert message(listener) == message(listener) == ("news:a", text)
            assert lenient.admin.publish("news:b", "two") == 1
            assert message(listener) == ("news:b", "two")
            # The server closes a subscriber that may no longer know what it is told of.
            lenient.admin.execute_command("ACL", "SETUSER", "alice", "resetchannels")
            with pytest.raises((redis.exceptions.ConnectionError, NoPermissionError)):
                while listener.get_message(timeout=LIMIT_SECONDS) is not None:
                    pass
        with client.pubsub() as listener, pytest.raises(NoPermissionError):
            listener.subscribe("news:a")
            listener.get_message(timeout=LIMIT_SECONDS)


def test_a_client_waits_for_another(lenient, protocol):
    with lenient.connect(ALICE, protocol=protocol) as waiting, lenient.connect(ALICE) as giving:
        got = []
        thread = threading.Thread(target=lambda: got.append(waiting.blpop(["app:l"], timeout=LIMIT_SECONDS)))
        thread.start()
        while lenient.admin.info("clients")["blocked_clients"] == 0:
            assert thread.is_alive()
        giving.rpush("app:l", "x")
        thread.join(LIMIT_SECONDS)
        assert [list(pair) for pair in got] == [["app:l", "x"]]


def test_pipelines_and_transactions(lenient, protocol):
    with lenient.connect(ALICE, protocol=protocol) as client:
        pipeline = client.pipeline(transaction=False)
        for number in range(10_000):
            pipeline.set(f"app:{number}", number)
            pipeline.get(f"app:{number}")
        replies = pipeline.execute()
        assert replies[::2] == [True] * 10_000 and replies[1::2] == [str(number) for number in range(10_000)]
        with client.pipeline() as transaction:
            assert transaction.set("app:n", 1).incr("app:n").get("app:n").execute() == [True, 2, "2"]
        with client.pipeline() as transaction:
            transaction.watch("app:n")
            client.set("app:n", 7)
            transaction.multi()
            transaction.incr("app:n")
            with pytest.raises(redis.WatchError):
                transaction.execute()


def test_a_large_value_goes_both_ways(lenient, protocol):
    value = os.urandom(10 << 20)
    with lenient.connect(protocol=protocol, decode_responses=False) as client:
        assert client.set("large", value)
        assert client.get("large") == value
        pipeline = client.pipeline(transaction=False)
        assert pipeline.set("large", value[::-1]).strlen("large").get("large").execute() == [True, len(value), value[::-1]]


def test_fifty_connections_of_a_pool(lenient, protocol):
    options = lenient.trust() | {"protocol": protocol, "max_connections": 50, "timeout": LIMIT_SECONDS}
    pool = redis.BlockingConnectionPool.from_url(lenient.url(ALICE), **options)
    client, together, faults = redis.Redis(connection_pool=pool), threading.Barrier(50), []

    def count():
        try:
            with client.pipeline() as pipeline:
                pipeline.watch("app:nothing")
                # Each has a connection of its own here.
                together.wait(LIMIT_SECONDS)
            for _ in range(40):
                client.incr("app:n")
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=count) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    assert faults == [] and client.get("app:n") == b"2000"
    assert sum(one["user"] == "alice" for one in lenient.admin.client_list()) == 50
    pool.disconnect()


def test_redis_py_asks_with_asyncio(lenient, protocol):
    async def ask():
        options = lenient.trust() | {"protocol": protocol, "decode_responses": True}
        async with redis.asyncio.from_url(lenient.url(ALICE), **options) as client:
            await client.set("app:k", "v")
            assert await asyncio.gather(*(client.get("app:k") for _ in range(20))) == ["v"] * 20
            with pytest.raises(NoPermissionError):
                await client.get("other:k")
        with pytest.raises(redis.exceptions.ConnectionError):
            async with redis.asyncio.from_url(lenient.url(ALICE), **lenient.trust("foreign")) as client:
                await client.ping()

    asyncio.run(asyncio.wait_for(ask(), LIMIT_SECONDS))


def test_certificates_are_renewed_while_clients_stay(lenient, protocol):
    with lenient.connect(protocol=protocol, single_connection_client=True) as staying:
        number = staying.client_id()
        # Without its key, or without its file, a certificate changes nothing.
        for unusable in ["elsewhere.pem", "nothing.pem"]:
            with pytest.raises(ResponseError):
                lenient.admin.config_set("tls-cert-file", lenient.file(unusable))
            assert peer(staying)[1] == "server"
        lenient.set_certificate("renewed")
        try:
            assert peer(staying)[1] == "renewed"
            assert staying.set("k", "v" * 100_000) and staying.get("k") == "v" * 100_000
            assert staying.client_id() == number
        finally:
            lenient.set_certificate("server")
        assert peer(staying)[1] == "server"
        assert staying.client_id() == number


def run(name, *words, text=None):
    return subprocess.run([name, *words], input=text, capture_output=True, text=True, timeout=LIMIT_SECONDS)


def tls_tool(name):
    """A program of Redis that is built with TLS."""
    found = tool(name)
    if "--tls" not in "".join([(printed := run(found, "--help")).stdout, printed.stderr]):
        pytest.fail(f"{name} is built without TLS; that of the Debian package redis-tools has it")
    return found


def tls_words(server, authority="authority", shown=None):
    """The options of redis-cli and redis-benchmark."""
    words = ["-h", "localhost", "-p", str(server.tls_port), "--tls", "--cacert", server.file(f"{authority}.pem")]
    if shown is not None:
        words += ["--cert", server.file(f"{shown}.pem"), "--key", server.file(f"{shown}.key")]
    return words


def cli(server, *words, text=None, **trust):
    return run(tls_tool("redis-cli"), *tls_words(server, **trust), *words, text=text)


def test_redis_cli_speaks_over_tls(lenient):
    assert cli(lenient, "SET", "greeting", "hello").stdout == "OK\n"
    assert cli(lenient, text="GET greeting\nSTRLEN greeting\n").stdout == "hello\n5\n"
    assert cli(lenient, "-3", "--no-raw", "CONFIG", "GET", "tls-auth-clients").stdout == '1# "tls-auth-clients" => "no"\n'
    cli(lenient, "-x", "SET", "large", text="x" * (10 << 20))
    assert len(cli(lenient, "GET", "large").stdout) == (10 << 20) + 1
    untrusting = cli(lenient, "PING", authority="foreign")
    assert untrusting.returncode != 0 and "certificate verify failed" in untrusting.stderr, untrusting


def test_redis_cli_loads_in_bulk_over_tls(lenient):
    words = [["SET", f"bulk{number}", str(number)] for number in range(5000)]
    lines = ["".join([f"*{len(one)}\r\n", *(f"${len(word)}\r\n{word}\r\n" for word in one)]) for one in words]
    assert "errors: 0, replies: 5000" in cli(lenient, "--pipe", text="".join(lines)).stdout
    assert cli(lenient, "DBSIZE").stdout == "5000\n"
    assert len(cli(lenient, "--scan", "--pattern", "bulk*").stdout.split()) == 5000


def test_redis_cli_is_a_user_with_rules(lenient):
    alice = ["--user", "alice", "--pass", "wonderland", "--no-auth-warning"]
    assert cli(lenient, *alice, "ACL", "WHOAMI").stdout == "alice\n"
    assert cli(lenient, *alice, "SET", "app:k", "v").stdout == "OK\n"
    assert cli(lenient, *alice, "GET", "other:k").stdout.startswith("NOPERM ")
    assert "WRONGPASS" in cli(lenient, "--user", "alice", "--pass", "guess", "--no-auth-warning", "PING").stderr
    assert [(one["reason"], one["object"]) for one in lenient.admin.acl_log()] == [("auth", "AUTH"), ("key", "other:k")]


def test_redis_cli_shows_a_certificate(strict):
    assert cli(strict, "PING", shown="client").stdout == "PONG\n"
    for shown in [None, "stranger"]:
        without = cli(strict, "PING", shown=shown)
        assert without.returncode != 0 and "PONG" not in without.stdout, without


@pytest.mark.parametrize("pipeline", [1, 16])
def test_redis_benchmark_runs_over_tls(lenient, pipeline):
    # It has names of its own for keys, and asks for the configuration.
    lenient.admin.execute_command("ACL", "SETUSER", "alice", "allkeys", "+config|get")
    tests = "ping_inline,ping_mbulk,set,get,incr,lpush,rpop,sadd,hset,zadd,lrange,mset"
    words = ["--user", "alice", "-a", "wonderland", "-t", tests, "-n", "2000", "-c", "20", "-r", "1000"]
    done = run(tls_tool("redis-benchmark"), *tls_words(lenient), *words, "-P", str(pipeline), "--csv")
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "error" not in printed.lower(), printed
    assert len([line for line in done.stdout.splitlines() if line.startswith('"')]) >= 14, printed
    assert lenient.admin.dbsize() > 500 and lenient.admin.acl_log() == []


def test_redis_benchmark_shows_a_certificate(strict):
    words = ["-t", "set", "-n", "500", "-r", "100", "-c", "10", "--csv"]
    done = run(tls_tool("redis-benchmark"), *tls_words(strict, shown="client"), *words)
    assert done.returncode == 0 and '"SET"' in done.stdout, done
    assert strict.admin.dbsize() > 50


@pytest.fixture(scope="module")
def sql_server(tmp_path_factory, certificates):
    if IS_REDIS:
        pytest.skip("Redis knows no SQL")
    port = free_port()
    running = Encrypted(tmp_path_factory.mktemp("sql"), certificates, "--sql-port", str(port), "--sql-tls", "required")
    running.sql_port = port
    running.admin.hset("flight:1", mapping={"dest": "LAX"})
    table = "CREATE EXTERNAL TABLE flight (id TEXT, dest TEXT) STORED AS HASH LOCATION 'flight:*'"
    running.admin.execute_command("SQL", table)
    running.admin.config_set("requirepass", PASSWORD)
    yield running
    running.stop()


@pytest.fixture
def sql(sql_server):
    """A server whose port for SQL serves `default` with a password, and nobody without TLS."""
    sql_server.admin.acl_log_reset()
    return sql_server


def conninfo(server, authority="authority", shown=None, **changes):
    """Options of libpq, the strictest unless they are changed."""
    options = {"host": "localhost", "port": server.sql_port, "user": "default", "dbname": "tarn", "connect_timeout": 20,
               "sslmode": "verify-full", "sslrootcert": server.file(f"{authority}.pem"), "password": PASSWORD}
    if shown is not None:
        options |= {"sslcert": server.file(f"{shown}.pem"), "sslkey": server.file(f"{shown}.key")}
    return psycopg.conninfo.make_conninfo(**options | changes)


def psql(server, statement, **options):
    program = shutil.which("psql")
    if program is None:
        pytest.fail("psql is not installed: it comes with the Debian package postgresql-client")
    return run(program, "-X", "-A", "-t", "-d", conninfo(server, **options), "-c", statement)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_psql_verifies_in_full(sql, host):
    done = psql(sql, "SELECT dest FROM flight", host=host)
    assert (done.stdout, done.returncode) == ("LAX\n", 0), done
    assert "TLSv1.3" in psql(sql, r"\conninfo", host=host).stdout


def test_psql_binds_the_password_to_the_connection(sql):
    assert psql(sql, "SELECT 1", channel_binding="require").stdout == "1\n"


@pytest.mark.parametrize("changes, reason", [
    ({"authority": "foreign"}, "certificate verify failed"),
    ({"host": "elsewhere.example", "hostaddr": "127.0.0.1"}, 'does not match host name "elsewhere.example"'),
    ({"sslmode": "disable"}, "encrypt"),
    ({"password": "guess"}, "assword authentication failed"),
    ({"user": "nobody"}, "FATAL"),
])
def test_psql_is_refused(sql, changes, reason):
    done = psql(sql, "SELECT dest FROM flight", **changes)
    assert done.returncode == 2 and done.stdout == "" and reason in done.stderr, done


def test_the_port_for_sql_asks_for_a_certificate(sql):
    sql.admin.config_set("sql-tls-auth-clients", "yes")
    try:
        assert psql(sql, "SELECT dest FROM flight", shown="client").stdout == "LAX\n"
        for shown in [None, "stranger"]:
            done = psql(sql, "SELECT dest FROM flight", shown=shown)
            assert done.returncode == 2 and done.stdout == "", done
    finally:
        sql.admin.config_set("sql-tls-auth-clients", "no")
    assert psql(sql, "SELECT dest FROM flight").stdout == "LAX\n"


def test_psycopg_verifies_in_full(sql):
    with psycopg.connect(conninfo(sql, channel_binding="require")) as connection:
        assert connection.pgconn.ssl_in_use
        assert connection.execute("SELECT dest FROM flight WHERE id = %s", ["1"]).fetchall() == [("LAX",)]
        large = connection.execute("SELECT repeat('x', 1000000)").fetchone()[0]
        assert large == "x" * 1_000_000
        # A connection that is open keeps its certificate when the server gets another one.
        sql.set_certificate("renewed")
        try:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            with psycopg.connect(conninfo(sql)) as other:
                assert other.execute("SELECT 2").fetchone() == (2,)
        finally:
            sql.set_certificate("server")
    for changes in [{"authority": "foreign"}, {"host": "elsewhere.example", "hostaddr": "127.0.0.1"}]:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(conninfo(sql, **changes))


def test_a_user_that_sql_refuses_is_logged(sql):
    sql.admin.execute_command("ACL", "SETUSER", "alice", "reset", *RULES)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(conninfo(sql, user="alice", password="guess"))
    seen = [dict(zip(one[::2], one[1::2])) for one in sql.admin.execute_command("ACL", "LOG")]
    assert [(one["reason"], one["username"]) for one in seen] == [("auth", "alice")]
    sql.admin.acl_deluser("alice")
