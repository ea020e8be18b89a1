//! Scripts on a host that answers a few commands.

use std::collections::HashMap;

use tarn_resp::{Args, OwnedArgs, Protocol, Writer};

use crate::{Abort, Failure, FunctionFlag, Host, Interpreter, Limits, Purpose};

#[derive(Default)]
struct Fake {
    strings: HashMap<Vec<u8>, Vec<u8>>,
    logged: Vec<String>,
    /// Long replies.
    fresh: usize,
    looks: usize,
    looks_max: Option<usize>,
}

impl Host for Fake {
    fn call(&mut self, args: OwnedArgs, protocol: Protocol, out: &mut Vec<u8>) -> Result<(), Abort> {
        let args = args.as_args();
        let mut reply = Writer::new(out, protocol);
        match args.at(0) {
            b"set" => {
                self.strings.insert(args.at(1).to_vec(), args.at(2).to_vec());
                reply.ok();
            }
            b"get" => match self.strings.get(args.at(1)) {
                Some(text) => reply.bulk(text),
                None => reply.null(),
            },
            b"fresh" => {
                self.fresh += 1;
                reply.bulk(format!("{:060000}", self.fresh).as_bytes());
            }
            b"end" => return Err(Abort),
            b"double" => reply.double(1.5),
            b"map" => {
                reply.map(1);
                reply.bulk(b"a");
                reply.integer(1);
            }
            _ => reply.error("ERR no such thing"),
        }
        Ok(())
    }

    fn log(&mut self, level: u8, message: &[u8]) {
        self.logged.push(format!("{level} {}", String::from_utf8_lossy(message)));
    }

    fn allows(&mut self, args: Args<'_>) -> Option<bool> {
        (args.at(0) == b"get").then_some(true)
    }

    fn look(&mut self) -> Result<(), Abort> {
        self.looks += 1;
        if self.looks_max.is_some_and(|max| self.looks > max) { Err(Abort) } else { Ok(()) }
    }
}

fn interpreter() -> Interpreter {
    interpreter_for(Purpose::Scripts)
}

fn interpreter_for(purpose: Purpose) -> Interpreter {
    Interpreter::new(Limits { memory_bytes: 64 << 20 }, "7.0.15", purpose)
        .expect("an interpreter can be made")
}

fn run_on(interpreter: &Interpreter, host: &mut Fake, body: &str) -> String {
    let mut out = Vec::new();
    let mut reply = Writer::new(&mut out, Protocol::Resp2);
    let outcome = interpreter.compile("user_script", body.as_bytes()).and_then(|program| {
        let (keys, args): ([&[u8]; 1], [&[u8]; 2]) = ([b"key"], [b"one", b"two"]);
        interpreter.run(&program, keys.into_iter(), args.into_iter(), host, &mut reply)
    });
    match outcome {
        Ok(()) => String::from_utf8_lossy(&out).replace("\r\n", " ").trim_end().to_owned(),
        Err(Failure::Aborted { .. }) => "aborted".to_owned(),
        Err(Failure::Error { message, place }) => {
            let place = place.map_or(String::new(), |(source, line)| format!(" on {source}:{line}"));
            format!("{}{place}", String::from_utf8_lossy(&message))
        }
    }
}

fn run(body: &str) -> String {
    run_on(&interpreter(), &mut Fake::default(), body)
}

#[test]
fn values_become_replies() {
    let cases = [
        ("return 7.9", ":7"),
        ("return 'x'", "$1 x"),
        ("return true", ":1"),
        ("return false", "$-1"),
        ("return {1, 'a', nil, 2}", "*2 :1 $1 a"),
        ("return {ok = 'fine'}", "+fine"),
        ("return {err = 'CODE why'}", "-CODE why"),
        ("return {double = 3.5}", "$3 3.5"),
        ("return {map = {a = 1}}", "*2 $1 a :1"),
        ("return KEYS[1] .. ARGV[1] .. ARGV[2]", "$9 keyonetwo"),
        ("return 1 / 0", ":-9223372036854775808"),
        ("local t = {} t[1] = t return #tostring(t) > 0", ":1"),
        ("return redis.sha1hex('')", "$40 da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("redis.call('set', 'k', 0.1) return redis.call('get', 'k')", "$19 0.10000000000000001"),
        ("return redis.call('get', 'none') == false", ":1"),
        ("redis.setresp(3) return redis.call('get', 'none') == nil", ":1"),
        ("redis.setresp(3) return redis.call('double').double * 2", ":3"),
        ("redis.setresp(3) return redis.call('map').map.a", ":1"),
        ("return redis.REDIS_VERSION_NUM", ":458767"),
        ("return server == redis", ":1"),
    ];
    for (body, reply) in cases {
        assert_eq!(run(body), reply, "{body}");
    }
}

#[test]
fn a_table_that_holds_itself_ends() {
    let reply = run("local t = {} t[1] = t return t");
    assert!(reply.ends_with("-ERR reached lua stack limit"), "{reply}");
}

#[test]
fn errors_say_where() {
    let cases = [
        ("error('x')", "ERR user_script:1: x on @user_script:1"),
        ("\nreturn redis.call('nope')", "ERR no such thing on @user_script:2"),
        ("return redis.pcall('nope')", "-ERR no such thing"),
        ("local ok, e = pcall(redis.call, 'nope') return type(e) .. e", "$23 stringERR no such thing"),
        ("local ok, e = pcall(error, {err = 'A b'}) return e", "$3 A b"),
        ("error({err = 'MY thing'})", "MY thing on @user_script:1"),
        ("error()", "ERR nil on @user_script:1"),
        ("x = 1", "ERR user_script:1: Attempt to modify a readonly table on @user_script:1"),
        (
            "return x",
            "ERR user_script:1: Script attempted to access nonexistent global variable 'x' on @user_script:1",
        ),
        (
            "return redis.call()",
            "ERR Please specify at least one argument for this redis lib call on @user_script:1",
        ),
        ("syntax error here", "user_script:1: '=' expected near 'error'"),
    ];
    for (body, reply) in cases {
        assert_eq!(run(body), reply, "{body}");
    }
}

#[test]
fn nothing_of_a_script_is_left_for_the_next() {
    let interpreter = interpreter();
    let attempts = [
        "_G.y = 1",
        "rawset(_G, 'y', 1)",
        "setmetatable(_G, nil)",
        "getmetatable(_G).__index = function() return 1 end",
        "getmetatable('').__index = nil",
        "getmetatable('').__add = function() return 1 end",
        "string.x = 1",
        "table.insert(string, 1)",
        "redis.call = nil",
        "rawset(redis, 'call', nil)",
        "math.random = nil",
        "table.sort(cjson, function() end) table.remove(cjson)",
        "setfenv(1, {})",
        "getfenv(0).x = 1",
        "newproxy(true)",
        "setreadonly(_G, false)",
        "debug.getregistry()",
        "require('os')",
        "dofile('/etc/passwd')",
        "loadfile('/etc/passwd')()",
        "os.execute('true')",
        "io.open('/etc/passwd')",
        "print('x')",
        "loadstring(string.dump(function() return 1 end))()",
        "load(function() return '\\27Lua' end)()",
    ];
    for body in attempts {
        let reply = run_on(&interpreter, &mut Fake::default(), body);
        assert!(reply.starts_with("ERR "), "{body}: {reply}");
    }
    let after =
        "return {rawget(_G, 'y') == nil, ('x'):upper(), type(redis.call), rawget(string, 'x') == nil}";
    assert_eq!(run_on(&interpreter, &mut Fake::default(), after), "*4 :1 $1 X $8 function :1");
}

#[test]
fn a_script_that_is_ended_cannot_go_on() {
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() return 1 end) end",
        "local f f = function() return f() end f()",
        "coroutine.wrap(function() while true do pcall(function() while true do end end) end end)()",
        "local c = coroutine while true do c.resume(c.create(function() while true do end end)) end",
        "local function leaf() for i = 1, 500 do end end
         local function level(n)
           return function() for i = 1, 100 do coroutine.wrap(n == 0 and leaf or level(n - 1))() end end
         end
         level(2)()",
        "return ('a'):rep(3e5):find(('a*'):rep(20) .. 'b')",
        "local s = ('('):rep(3e6) while true do pcall(string.find, s, '%b()') end",
        "return ('b'):rep(3e6):find('[' .. ('a'):rep(1e5) .. ']-c')",
        "return ('a'):rep(4e6):find('(.*)%1b')",
        "pcall(redis.call, 'end') return 1",
        "local ok = pcall(function() redis.pcall('end') end) return 1",
        "coroutine.resume(coroutine.create(function() redis.call('end') end)) return 1",
    ] {
        let mut host = Fake { looks_max: Some(20), ..Fake::default() };
        assert_eq!(run_on(&interpreter(), &mut host, body), "aborted", "{body}");
        assert!(host.looks < 30, "{body}: {}", host.looks);
    }
}

#[test]
fn memory_and_recursion_have_ends() {
    let interpreter = interpreter();
    for body in [
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        "return ('x'):rep(2 ^ 31 - 1)",
        "return ('x'):rep(1e9)",
        "local function f() return 1 + f() end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(a, b) return a[b] end return t.x",
        "return unpack({}, 0, 2 ^ 31 - 1)",
        "return unpack({}, -2 ^ 31, 2 ^ 31 - 1)",
        "return unpack({}, 1, 1e8)",
        "return ('x'):rep(1e5):find(('x?'):rep(1e5))",
        "return loadstring('return ' .. ('('):rep(1e5) .. '1' .. (')'):rep(1e5))()",
        "return loadstring(('a = {'):rep(1e5))()",
        "return table.concat({}, 'x', 1, 1e9)",
        "return ('%99999d'):format(1)",
        "local g g = function() return coroutine.wrap(g)() end g()",
        // Nothing but the replies takes memory.
        "local t = {} for i = 1, 2000 do t[i] = 1 end for i = 1, 2000 do t[i] = redis.call('fresh') end",
    ] {
        let reply = run_on(&interpreter, &mut Fake::default(), body);
        assert!(reply.starts_with("ERR "), "{body}: {reply}");
        assert_eq!(run_on(&interpreter, &mut Fake::default(), "return 1"), ":1", "after {body}");
    }
    interpreter.collect();
    assert!(interpreter.memory_bytes() < 1 << 20, "{}", interpreter.memory_bytes());
}

#[test]
fn a_chunk_name_survives_the_collector_while_it_is_parsed() {
    // CVE-2025-49844: collections during the parse of long chunks.
    let body = "collectgarbage('collect') for i = 1, 50 do \
        local f = loadstring(('local a = {' .. ('\"x\" .. 1, '):rep(500) .. '} '):rep(20), \
        ('n'):rep(5000) .. i) \
        collectgarbage('step') if f then f() end end return 1";
    assert_eq!(run(body), ":1");
}

#[test]
fn long_brackets_are_read_whole() {
    // CVE-2025-46819.
    let body =
        "local n = 1e6 return #loadstring('return [' .. ('='):rep(n) .. '[x]' .. ('='):rep(n) .. ']')()";
    assert_eq!(run(body), ":1");
}

#[test]
fn random_numbers_are_those_of_redis() {
    let body = "return {math.random(1000), math.random(5, 9), tostring(math.random())}";
    assert_eq!(run(body), "*3 :397 :9 $16 0.35333609737146");
    assert_eq!(run("math.randomseed(0) return math.random(1000)"), ":171");
}

#[test]
fn log_lines_reach_the_host() {
    let mut host = Fake::default();
    assert_eq!(run_on(&interpreter(), &mut host, "redis.log(redis.LOG_NOTICE, 'a', 1)"), "$-1");
    assert_eq!(host.logged, ["2 a 1"]);
}

/// The replies of the functions of a library, each called with a key and two arguments; or why it is not
/// loaded.
fn call_all(code: &str) -> String {
    let (interpreter, mut host) = (interpreter_for(Purpose::Functions), Fake::default());
    let told = |failure| match failure {
        Failure::Aborted { .. } => "aborted".to_owned(),
        Failure::Error { message, .. } => String::from_utf8_lossy(&message).into_owned(),
    };
    let program = match interpreter.compile("user_function", code.as_bytes()) {
        Ok(program) => program,
        Err(failure) => return told(failure),
    };
    let registered = match interpreter.register(&program, &mut host) {
        Ok(registered) => registered,
        Err(failure) => return told(failure),
    };
    let replies = registered.iter().map(|function| {
        let mut out = Vec::new();
        let mut reply = Writer::new(&mut out, Protocol::Resp2);
        let (keys, args): ([&[u8]; 1], [&[u8]; 2]) = ([b"key"], [b"one", b"two"]);
        let ran =
            interpreter.run(&function.program, keys.into_iter(), args.into_iter(), &mut host, &mut reply);
        let reply = ran.map_or_else(told, |()| String::from_utf8_lossy(&out).replace("\r\n", " "));
        format!("{}: {}", function.name, reply.trim_end())
    });
    replies.collect::<Vec<String>>().join("; ")
}

#[test]
fn functions_get_keys_and_arguments_and_keep_the_locals_of_their_library() {
    let code = "local n = 0
                redis.register_function('f', function(keys, args)
                    n = n + 1 return {keys[1], args[2], n, select('#', keys, args)} end)
                server.register_function('g', function() n = n + 1 return n end)";
    assert_eq!(call_all(code), "f: *4 $3 key $3 two :1 :2; g: :2");
}

#[test]
fn a_library_finds_little_while_it_is_loaded_and_its_functions_find_what_scripts_do() {
    let absent = |name: &str| {
        format!("ERR user_function:1: Script attempted to access nonexistent global variable '{name}'")
    };
    assert_eq!(call_all("local a = string"), absent("string"));
    assert_eq!(call_all("redis.call('get', 'a')"), absent("call"));
    assert_eq!(call_all("x = 1"), "ERR user_function:1: Attempt to modify a readonly table");
    let code = "redis.register_function('f', function() return string.rep('a', 2) .. type(redis.call) end)
                redis.register_function('g', function() return type(redis.register_function) end)
                redis.register_function('h', function() return KEYS end)
                redis.register_function('i', function() x = 1 end)
                redis.register_function('j', function() return os end)";
    assert_eq!(
        call_all(code),
        "f: $10 aafunction; g: $3 nil; \
         h: ERR user_function:3: Script attempted to access nonexistent global variable 'KEYS'; \
         i: ERR user_function:4: Attempt to modify a readonly table; \
         j: ERR user_function:5: Script attempted to access nonexistent global variable 'os'"
    );
}

#[test]
fn functions_are_registered_while_their_library_is_loaded_and_not_later() {
    let code = "local register = redis.register_function
                register('f', function() register('g', function() end) end)";
    assert_eq!(call_all(code), "f: ERR redis.register_function can only be called on FUNCTION LOAD command");
}

#[test]
fn a_library_that_is_loaded_for_too_long_is_ended_and_leaves_nothing() {
    let interpreter = interpreter_for(Purpose::Functions);
    let program = |code: &str| interpreter.compile("user_function", code.as_bytes()).expect("it compiles");
    let mut host = Fake { looks_max: Some(10), ..Fake::default() };
    let endless = program("redis.register_function('f', function() end) while true do end");
    assert!(matches!(interpreter.register(&endless, &mut host), Err(Failure::Aborted { .. })));
    let named = program(
        "redis.register_function{function_name = 'g', callback = function() end, description = 5,
         flags = {'allow-oom', 'no-writes'}}",
    );
    let registered = interpreter.register(&named, &mut Fake::default()).expect("it registers a function");
    assert_eq!(registered.len(), 1);
    assert_eq!((registered[0].name.as_str(), registered[0].description.as_deref()), ("g", Some(&b"5"[..])));
    assert_eq!(registered[0].flags, [FunctionFlag::NoWrites, FunctionFlag::AllowOom]);
}
