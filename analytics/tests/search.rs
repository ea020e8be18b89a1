//! The commands `FT.*` in the library: replies against a model, beside writers, and cursors.

#![allow(clippy::unwrap_used)]

mod house;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use house::{House, options};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_analytics::{Request, Tree};
use tarn_engine::record::Change;

/// Sends words; the reply in one line, or the error.
async fn send(house: &House, words: &[&str]) -> Result<Tree, String> {
    let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let request = Request { words, database: 0, is_resp3: false };
    house.search.run(request).await.map_err(|error| error.to_string())
}

/// Sends words that hold no blanks but in brackets.
async fn say(house: &House, text: &str) -> String {
    let mut depth = 0;
    let words = text.split(|letter: char| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        letter == ' ' && depth == 0
    });
    ask(house, &words.filter(|word| !word.is_empty()).collect::<Vec<_>>()).await
}

async fn ask(house: &House, words: &[&str]) -> String {
    match send(house, words).await {
        Ok(tree) => line(&tree),
        Err(error) => format!("-{error}"),
    }
}

fn line(tree: &Tree) -> String {
    let joined = |parts: Vec<String>| format!("[{}]", parts.join(" "));
    match tree {
        Tree::Null => "nil".to_owned(),
        Tree::Simple(text) => (*text).to_owned(),
        Tree::Integer(number) => format!(":{number}"),
        Tree::Double(number) => number.to_string(),
        Tree::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Tree::Array(parts) | Tree::Set(parts) => joined(parts.iter().map(line).collect()),
        Tree::Map(pairs) => joined(pairs.iter().flat_map(|(a, b)| [line(a), line(b)]).collect()),
    }
}

fn put_document(house: &House, key: &str, text: &str) {
    let kind = tarn_engine::record::Kind::Json;
    let change =
        Change::Image { kind, elements: text.as_bytes().to_vec().into(), expiry: None, sticky: false };
    house.change(0, 0, vec![(key.as_bytes().to_vec(), change)]);
}

async fn shop() -> House {
    let house = House::new().await;
    house.hset("p:1", &[("name", "Red Wine glass"), ("tags", "kitchen, Glass"), ("price", "10.5")]);
    house.hset("p:2", &[("name", "wine bottle"), ("tags", "kitchen"), ("price", "20"), ("more", "x")]);
    house.hset("p:3", &[("name", "Chair"), ("tags", "room"), ("price", "cheap")]);
    house.hset("q:4", &[("name", "Table, red"), ("tags", "room,wood")]);
    house.hset("other", &[("name", "wine")]);
    house.set(0, "p:string", b"wine", None);
    house.xadd("p:stream", (1, 0), &[("name", "wine"), ("price", "15")]);
    let created = "FT.CREATE i ON HASH PREFIX 2 p: q: SCHEMA name TEXT tags TAG price NUMERIC SORTABLE";
    assert_eq!(say(&house, created).await, "OK");
    house
}

#[tokio::test]
async fn queries_find_what_they_name() {
    let house = shop().await;
    for (query, keys) in [
        ("*", ":4 p:1 p:2 p:3 q:4"),
        ("wine", ":2 p:1 p:2"),
        ("@name:WINE", ":2 p:1 p:2"),
        ("red wine", ":1 p:1"),
        ("\"red wine\"", ":1 p:1"),
        ("\"wine red\"", ":0"),
        ("win*", ":2 p:1 p:2"),
        ("@name:(red -wine)", ":1 q:4"),
        ("chair|table", ":2 p:3 q:4"),
        ("-wine", ":2 p:3 q:4"),
        ("@tags:{glass}", ":1 p:1"),
        ("@tags:{kitchen | wood}", ":3 p:1 p:2 q:4"),
        ("@tags:{kit*}", ":2 p:1 p:2"),
        ("-@tags:{kitchen}", ":2 p:3 q:4"),
        ("@price:[10.5 20]", ":2 p:1 p:2"),
        ("@price:[(10.5 +inf]", ":1 p:2"),
        ("@price:[-inf (20]", ":1 p:1"),
        // A key without a price, or with one that cannot be read, is not between these.
        ("-@price:[0 100]", ":2 p:3 q:4"),
        ("ismissing(@price)", ":1 q:4"),
        ("-ismissing(@price) room", ":0"),
        ("@price:[0 15] | @tags:{wood}", ":2 p:1 q:4"),
        ("(@tags:{room} -@name:chair) | bottle", ":2 p:2 q:4"),
    ] {
        let found = ask(&house, &["FT.SEARCH", "i", query, "NOCONTENT"]).await;
        assert_eq!(found, format!("[{keys}]"), "{query}");
    }
    let with = ["FT.SEARCH", "i", "@price:[$low 99] @tags:{$tag}", "NOCONTENT", "PARAMS", "4", "low", "11"];
    assert_eq!(ask(&house, &[&with[..], &["tag", "KITCHEN", "DIALECT", "2"]].concat()).await, "[:1 p:2]");
    house.assert_nothing_kept();
}

#[tokio::test]
async fn options_say_what_is_shown() {
    let house = shop().await;
    for (words, reply) in [
        ("@tags:{wood}", "[:1 q:4 [name Table, red tags room,wood]]"),
        ("@price:[0 inf] RETURN 1 more", "[:2 p:1 [] p:2 [more x]]"),
        ("chair RETURN 3 price AS p", "[:1 p:3 [p cheap]]"),
        ("chair RETURN 0", "[:1 p:3]"),
        ("* NOCONTENT SORTBY price DESC", "[:4 p:2 p:1 p:3 q:4]"),
        ("* NOCONTENT SORTBY price", "[:4 p:1 p:2 p:3 q:4]"),
        ("* NOCONTENT SORTBY name ASC", "[:4 p:3 p:1 q:4 p:2]"),
        ("* NOCONTENT LIMIT 1 2", "[:4 p:2 p:3]"),
        ("* LIMIT 0 0", "[:4]"),
        ("* NOCONTENT LIMIT 9 2", "[:4]"),
        ("* NOCONTENT WITHSCORES LIMIT 0 1", "[:4 p:1 1]"),
        ("* NOCONTENT FILTER price (10.5 20", "[:1 p:2]"),
        ("* NOCONTENT INKEYS 2 p:1 other", "[:1 p:1]"),
        ("wine NOCONTENT INFIELDS 1 name VERBATIM SCORER BM25 TIMEOUT 60000", "[:2 p:1 p:2]"),
    ] {
        assert_eq!(say(&house, &format!("FT.SEARCH i {words}")).await, reply, "{words}");
    }
    for (words, said) in [
        ("FT.SEARCH nothing *", "-ERR nothing: no such index"),
        ("FT.SEARCH i * HIGHLIGHT", "HIGHLIGHT"),
        ("FT.SEARCH i * SORTBY more", "Property `more` not loaded nor in schema"),
        ("FT.SEARCH i * LIMIT 0 1000001", "LIMIT exceeds maximum"),
        ("FT.SEARCH i * DIALECT 3", "DIALECT 3 is not there"),
        ("FT.SEARCH i @none:x", "Unknown field"),
        ("FT.SEARCH i @tags:x", "is TAG"),
        ("FT.SEARCH i @price:{x}", "is NUMERIC"),
        ("FT.SEARCH i @name:[1 2]", "is TEXT"),
        ("FT.INFO nothing", "-Unknown Index name"),
        ("FT.DROPINDEX nothing", "-Unknown Index name"),
        ("FT.DROPINDEX i XX", "it is FT.DROPINDEX index [DD], not XX"),
        ("FT.CREATE i SCHEMA a TAG", "-Index already exists"),
        ("FT.CURSOR READ i 7", "Cursor not found, id: 7"),
        ("FT.AGGREGATE i * GROUPBY 1 @none", "Property `none` not loaded nor in schema"),
        ("FT.AGGREGATE i * GROUPBY 1 tags", "no field: write @tags"),
        ("FT.AGGREGATE i * GROUPBY 0 REDUCE RANDOM_SAMPLE 1 @tags", "RANDOM_SAMPLE is not there"),
        ("FT.AGGREGATE i * APPLY geodistance(@tags) AS d", "function geodistance() is not there"),
        ("FT.AGGREGATE i * WITHCURSOR TIMEOUT 5", "TIMEOUT is not there for cursors"),
    ] {
        let reply = say(&house, words).await;
        assert!(reply.starts_with('-') && reply.contains(said), "{words}: {reply}");
    }
    house.assert_nothing_kept();
}

#[tokio::test]
async fn rows_are_grouped_and_reduced() {
    let house = shop().await;
    for (words, reply) in [
        ("@price:[0 99] LOAD 1 @name SORTBY 1 @name", "[:2 [name Red Wine glass] [name wine bottle]]"),
        ("@tags:{wood} LOAD *", "[:1 [name Table, red tags room,wood]]"),
        ("@tags:{kitchen} LOAD 3 @more AS m SORTBY 2 @price DESC", "[:2 [m x price 20] [price 10.5]]"),
        (
            "* GROUPBY 0 REDUCE COUNT 0 AS n REDUCE SUM 1 @price AS sum REDUCE AVG 1 @price AS avg",
            "[:1 [n 4 sum 30.5 avg 15.25]]",
        ),
        ("@name:nothing GROUPBY 0 REDUCE COUNT 0 AS n", "[:0]"),
        (
            "* GROUPBY 1 @tags REDUCE COUNT 0 REDUCE MAX 1 @price SORTBY 1 @tags",
            "[:4 [tags kitchen __generated_aliascount 1 __generated_aliasmaxprice 20] \
             [tags kitchen, Glass __generated_aliascount 1 __generated_aliasmaxprice 10.5] \
             [tags room __generated_aliascount 1 __generated_aliasmaxprice nil] \
             [tags room,wood __generated_aliascount 1 __generated_aliasmaxprice nil]]",
        ),
        (
            "@price:[0 99] APPLY @price*2 AS double FILTER @double>=21 LIMIT 0 5 SORTBY 1 @double",
            "[:2 [price 10.5 double 21] [price 20 double 40]]",
        ),
        (
            "@price:[0 99] APPLY upper(@name) AS u FILTER startswith(@u,'RED')",
            "[:1 [name Red Wine glass u RED WINE GLASS]]",
        ),
        (
            "* APPLY exists(@price) AS has GROUPBY 1 @has REDUCE COUNT_DISTINCT 1 @tags AS n SORTBY 1 @has",
            "[:2 [has 0 n 2] [has 1 n 2]]",
        ),
    ] {
        let found = say(&house, &format!("FT.AGGREGATE i {words}")).await;
        assert_eq!(found, reply, "{words}");
    }
    let words = "FT.AGGREGATE i @price:[0 99] LOAD 1 @more GROUPBY 0 REDUCE TOLIST 1 @more AS all \
                 REDUCE FIRST_VALUE 4 @name BY @price DESC AS first REDUCE STDDEV 1 @price AS dev \
                 REDUCE QUANTILE 2 @price 0.5 AS median REDUCE MIN 1 @price AS min";
    let found = say(&house, words).await;
    // The last digits depend on the order in which keys are met.
    let found = found.replace("6.7175144212722016", "6.717514421272202");
    assert_eq!(found, "[:1 [all [x] first wine bottle dev 6.717514421272202 median 15.25 min 10.5]]");
    house.assert_nothing_kept();
}

#[tokio::test]
async fn documents_are_searched_by_paths() {
    let house = House::new().await;
    put_document(&house, "d:1", r#"{"t":"Blue shoe","tags":["A b","c"],"price":5,"in":{"city":"Ulm"}}"#);
    put_document(&house, "d:2", r#"{"t":"red shoe","tags":"c","price":"5","in":{"city":"Aalen"}}"#);
    house.set(0, "d:3", br#"{"t":"a string"}"#, None);
    let created = "FT.CREATE j ON JSON PREFIX 1 d: SCHEMA $.t AS t TEXT $.tags[*] AS tags TAG \
                   $.price AS price NUMERIC $.in.city AS city TAG";
    assert_eq!(say(&house, created).await, "OK");
    for (query, keys) in [
        ("*", ":2 d:1 d:2"),
        ("shoe -blue", ":1 d:2"),
        ("@tags:{c}", ":2 d:1 d:2"),
        ("@tags:{a b}", ":1 d:1"),
        ("@city:{ulm|x}", ":1 d:1"),
    ] {
        assert_eq!(
            ask(&house, &["FT.SEARCH", "j", query, "NOCONTENT"]).await,
            format!("[{keys}]"),
            "{query}"
        );
    }
    let whole = say(&house, "FT.SEARCH j @city:{ulm} SORTBY price").await;
    let text = r#"{"t":"Blue shoe","tags":["A b","c"],"price":5,"in":{"city":"Ulm"}}"#;
    assert_eq!(whole, format!("[:1 d:1 [price 5 $ {text}]]"));
    let some = say(&house, "FT.SEARCH j @city:{ulm} RETURN 3 city $.in $.price").await;
    assert_eq!(some, r#"[:1 d:1 [city Ulm $.in {"city":"Ulm"} $.price 5]]"#);
    assert_eq!(
        say(&house, "FT.AGGREGATE j * GROUPBY 1 @city SORTBY 1 @city").await,
        "[:2 [city Aalen] [city Ulm]]"
    );
    house.assert_nothing_kept();
}

#[tokio::test]
async fn indexes_outlive_a_restart_and_info_counts() {
    let folder = tempfile::tempdir().unwrap();
    {
        let house = House::with(options(Some(folder.path()))).await;
        assert_eq!(
            say(&house, "FT.CREATE i PREFIX 1 p: SCHEMA name TEXT price NUMERIC SORTABLE").await,
            "OK"
        );
        assert_eq!(say(&house, "FT.CREATE gone SCHEMA a TAG").await, "OK");
        assert_eq!(say(&house, "FT.ALTER i SCHEMA ADD kind TAG SEPARATOR ;").await, "OK");
        assert_eq!(say(&house, "FT._LIST").await, "[gone i]");
        assert_eq!(say(&house, "FT.DROPINDEX gone").await, "OK");
    }
    let house = House::with(options(Some(folder.path()))).await;
    assert_eq!(say(&house, "FT._LIST").await, "[i]");
    house.hset("p:1", &[("price", "1"), ("kind", "a;b")]);
    house.hset("p:2", &[("price", "one")]);
    house.hset("p:3", &[("price", ""), ("name", "x")]);
    assert_eq!(say(&house, "FT.SEARCH i @kind:{b} NOCONTENT").await, "[:1 p:1]");
    let info = say(&house, "FT.INFO i").await;
    for part in [
        "index_name i",
        "key_type HASH prefixes [p:]",
        "[identifier price attribute price type NUMERIC SORTABLE]",
        "[identifier kind attribute kind type TAG SEPARATOR ;]",
        "num_docs :3 hash_indexing_failures :2",
    ] {
        assert!(info.contains(part), "{part}: {info}");
    }
}

const ACCOUNTS: usize = 1_500;
const BALANCE: i64 = 100;

fn put(account: usize, balance: i64) -> (Vec<u8>, Change<'static>) {
    let (field, value) = (b"balance".to_vec().into(), balance.to_string().into_bytes().into());
    (format!("account:{account}").into_bytes(), Change::HashPut { field, value })
}

/// Moves money between accounts of its own until it is stopped.
fn move_money(house: &House, writer: usize, stop: &AtomicBool) {
    let mut random = SmallRng::seed_from_u64(writer as u64);
    let mut balances: Vec<(usize, i64)> =
        (0..ACCOUNTS).filter(|at| at % 2 == writer).map(|at| (at, BALANCE)).collect();
    while !stop.load(Ordering::Relaxed) {
        let (from, to) = (random.random_range(0..balances.len()), random.random_range(0..balances.len()));
        if from == to {
            continue;
        }
        let amount = random.random_range(0..=balances[from].1);
        balances[from].1 -= amount;
        balances[to].1 += amount;
        let (from, to) = (balances[from], balances[to]);
        house.change(1 + writer, 0, vec![put(from.0, from.1), put(to.0, to.1)]);
    }
}

/// The numbers after a name in a reply.
fn numbers(tree: &Tree, name: &str, found: &mut Vec<f64>) {
    let Tree::Array(parts) = tree else { return };
    for pair in parts.windows(2) {
        if let (Tree::Bulk(at), Tree::Bulk(value)) = (&pair[0], &pair[1])
            && at == name.as_bytes()
        {
            found.push(String::from_utf8_lossy(value).parse().unwrap());
        }
    }
    parts.iter().for_each(|part| numbers(part, name, found));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sum_is_ever_off_beside_writers() {
    let house = Arc::new(House::new().await);
    (0..ACCOUNTS).for_each(|account| house.change(0, 0, vec![put(account, BALANCE)]));
    assert_eq!(say(&house, "FT.CREATE one PREFIX 2 account:1 account: SCHEMA balance NUMERIC").await, "OK");
    // Ten prefixes are ten scans of one instant.
    let prefixes: Vec<String> = (0..10).map(|digit| format!("account:{digit}")).collect();
    let created = format!("FT.CREATE ten PREFIX 10 {} SCHEMA balance NUMERIC", prefixes.join(" "));
    assert_eq!(say(&house, &created).await, "OK");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (house, stop) = (house.clone(), stop.clone());
            std::thread::spawn(move || move_money(&house, writer, &stop))
        })
        .collect();
    let all = ACCOUNTS as f64 * BALANCE as f64;
    let sum = |tree: &Tree, name| {
        let mut found = Vec::new();
        numbers(tree, name, &mut found);
        found.iter().sum::<f64>()
    };
    for number in 0..40 {
        let i = if number % 2 == 0 { "one" } else { "ten" };
        let words = ["FT.AGGREGATE", i, "*", "GROUPBY", "0", "REDUCE", "SUM", "1", "@balance", "AS", "s"];
        assert_eq!(sum(&send(&house, &words).await.unwrap(), "s"), all, "sum {number}");
        let found =
            send(&house, &["FT.SEARCH", i, "*", "LIMIT", "0", "100000", "SORTBY", "balance"]).await.unwrap();
        assert_eq!(sum(&found, "balance"), all, "search {number}");
        // Nobody has less than nothing, so these two parts are all.
        let parts = ["@balance:[-inf (100]", "@balance:[100 +inf]"].join("|");
        let Tree::Array(counted) = send(&house, &["FT.SEARCH", i, &parts, "LIMIT", "0", "0"]).await.unwrap()
        else {
            panic!("no array");
        };
        assert_eq!(counted, [Tree::Integer(ACCOUNTS as i64)], "count {number}");
        let mut read = 0.0;
        let mut part =
            send(&house, &["FT.AGGREGATE", i, "*", "LOAD", "1", "@balance", "WITHCURSOR", "COUNT", "400"])
                .await
                .unwrap();
        loop {
            read += sum(&part, "balance");
            let Tree::Array(pair) = &part else { panic!("no array") };
            let Tree::Integer(id) = pair[1] else { panic!("no cursor") };
            if id == 0 {
                break;
            }
            part = send(&house, &["FT.CURSOR", "READ", i, &id.to_string()]).await.unwrap();
        }
        assert_eq!(read, all, "cursor {number}");
    }
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    house.assert_nothing_kept();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_end_when_they_are_read_deleted_or_left_alone() {
    let house = House::new().await;
    (0..20_000).for_each(|at| house.change(0, 0, vec![put(at, 1)]));
    assert_eq!(say(&house, "FT.CREATE i PREFIX 1 account: SCHEMA balance NUMERIC").await, "OK");
    let begin = async |options: &str| {
        let words = format!("FT.AGGREGATE i * LOAD 1 @balance WITHCURSOR {options}");
        let words: Vec<&str> = words.split_whitespace().collect();
        let Tree::Array(pair) = send(&house, &words).await.unwrap() else { panic!("no array") };
        let Tree::Integer(id) = pair[1] else { panic!("no cursor") };
        id
    };
    let id = begin("COUNT 5").await;
    assert!(say(&house, &format!("FT.CURSOR READ other {id}")).await.contains("Cursor not found"));
    assert!(
        say(&house, &format!("FT.CURSOR READ i {id} COUNT 2"))
            .await
            .starts_with("[[:2 [balance 1] [balance 1]]")
    );
    assert!(say(&house, &format!("FT.CURSOR READ i {id}")).await.starts_with("[[:5 "));
    assert_eq!(say(&house, &format!("FT.CURSOR DEL i {id}")).await, "OK");
    assert!(say(&house, &format!("FT.CURSOR READ i {id}")).await.contains("Cursor not found"));
    house.assert_nothing_kept();
    let idle = begin("COUNT 5 MAXIDLE 1").await;
    for _ in 0..600 {
        if house.engine.views().status().open.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    house.assert_nothing_kept();
    assert!(say(&house, &format!("FT.CURSOR READ i {idle}")).await.contains("Cursor not found"));
    let mut last = 0;
    for _ in 0..32 {
        last = begin("COUNT 1").await;
    }
    let refused = say(&house, "FT.AGGREGATE i * WITHCURSOR COUNT 1").await;
    assert!(refused.contains("there are 32 cursors"), "{refused}");
    assert_eq!(say(&house, &format!("FT.CURSOR DEL i {last}")).await, "OK");
    begin("COUNT 1").await;
    assert_eq!(say(&house, "FT.DROPINDEX i").await, "OK");
    house.assert_nothing_kept();
    // A part with all rows leaves no cursor.
    assert_eq!(say(&house, "FT.CREATE i PREFIX 1 account:1999 SCHEMA balance NUMERIC").await, "OK");
    assert_eq!(begin("COUNT 11").await, 0);
    assert_eq!(say(&house, "FT.AGGREGATE i * LIMIT 0 11 GROUPBY 0 REDUCE COUNT 0 AS n").await, "[:1 [n 11]]");
}

/// A hash of the model.
#[derive(Clone)]
struct Model {
    key: String,
    name: Vec<&'static str>,
    tag: Option<&'static str>,
    size: Option<i64>,
}

const WORDS: [&str; 5] = ["red", "green", "blue", "dark", "light"];

fn random_model(random: &mut SmallRng) -> Vec<Model> {
    let model = |at| Model {
        key: format!("m:{at:03}"),
        name: (0..random.random_range(1..4)).map(|_| WORDS[random.random_range(0..5)]).collect(),
        tag: random.random_bool(0.8).then(|| WORDS[random.random_range(0..5)]),
        size: random.random_bool(0.8).then(|| random.random_range(-20..20)),
    };
    (0..150).map(model).collect()
}

/// Whether a query finds a key.
type Finds = Box<dyn Fn(&Model) -> bool>;

/// A random query, and what it is true of.
fn random_query(random: &mut SmallRng, depth: usize) -> (String, Finds) {
    let word = WORDS[random.random_range(0..5)];
    match random.random_range(0..if depth == 0 { 4 } else { 7 }) {
        0 => (word.to_owned(), Box::new(move |model| model.name.contains(&word))),
        1 => (format!("@tag:{{{word}}}"), Box::new(move |model| model.tag == Some(word))),
        2 => {
            let (low, high) = (random.random_range(-20..10), random.random_range(-10..20));
            let is_true = move |model: &Model| model.size.is_some_and(|size| low < size && size <= high);
            (format!("@size:[({low} {high}]"), Box::new(is_true))
        }
        3 => {
            let start = &word[..2];
            let is_true = move |model: &Model| model.name.iter().any(|name| name.starts_with(start));
            (format!("@name:{start}*"), Box::new(is_true))
        }
        4 => {
            let (text, inner) = random_query(random, depth - 1);
            (format!("-({text})"), Box::new(move |model| !inner(model)))
        }
        operator => {
            let ((a, of_a), (b, of_b)) = (random_query(random, depth - 1), random_query(random, depth - 1));
            match operator {
                5 => (format!("({a} {b})"), Box::new(move |model| of_a(model) && of_b(model))),
                _ => (format!("({a}|{b})"), Box::new(move |model| of_a(model) || of_b(model))),
            }
        }
    }
}

#[tokio::test]
async fn random_queries_find_what_the_model_has() {
    let seed = std::env::var("TARN_SEED").map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    println!("TARN_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let house = House::new().await;
    let models = random_model(&mut random);
    for model in &models {
        let (name, size) = (model.name.join(", "), model.size.map(|size| size.to_string()));
        let mut fields = vec![("name", name.as_str())];
        fields.extend(model.tag.map(|tag| ("tag", tag)));
        fields.extend(size.as_deref().map(|size| ("size", size)));
        house.hset(&model.key, &fields);
    }
    assert_eq!(say(&house, "FT.CREATE i PREFIX 1 m: SCHEMA name TEXT tag TAG size NUMERIC").await, "OK");
    for _ in 0..60 {
        let (query, is_true) = random_query(&mut random, 3);
        let wanted: Vec<&Model> = models.iter().filter(|model| is_true(model)).collect();
        let keys: Vec<&str> = wanted.iter().map(|model| model.key.as_str()).collect();
        let (offset, count) = (random.random_range(0..20), random.random_range(1..40));
        let (from, to) = (offset.min(keys.len()), (offset + count).min(keys.len()));
        let expected: Vec<String> = std::iter::once(format!(":{}", keys.len()))
            .chain(keys[from..to].iter().map(|key| (*key).to_owned()))
            .collect();
        let (offset, count) = (offset.to_string(), count.to_string());
        let found = ask(&house, &["FT.SEARCH", "i", &query, "NOCONTENT", "LIMIT", &offset, &count]).await;
        assert_eq!(found, format!("[{}]", expected.join(" ")), "{query}");
        let sum: i64 = wanted.iter().filter_map(|model| model.size).sum();
        let reduce =
            ["GROUPBY", "0", "REDUCE", "COUNT", "0", "AS", "n", "REDUCE", "SUM", "1", "@size", "AS", "s"];
        let reduced = ask(&house, &[&["FT.AGGREGATE", "i", &query][..], &reduce].concat()).await;
        match keys.len() {
            0 => assert_eq!(reduced, "[:0]", "{query}"),
            n => assert_eq!(reduced, format!("[:1 [n {n} s {sum}]]"), "{query}"),
        }
    }
    house.assert_nothing_kept();
}
