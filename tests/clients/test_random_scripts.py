"""Random scripts run on the server under test and on redis-server 7.0: replies and data have to be the same.

`RANDOM_SCRIPTS` is the number of scripts, half of them in each protocol. Every batch of them has its own seed, which the report of
a difference names: `RANDOM_SCRIPTS_SEED=17 RANDOM_SCRIPTS=1` runs the batch with the seed 17 alone.
"""

import hashlib
import os
import random
import re
import shutil
import socket
import subprocess

import pytest
from conftest import Server

SCRIPTS = int(os.environ.get("RANDOM_SCRIPTS", 3000))
FIRST_SEED = int(os.environ.get("RANDOM_SCRIPTS_SEED", 1))
# Scripts that run one after the other on the same data.
BATCH = 100
# Batches with differences, after which a run ends.
FAILURES_MAX = 5
PATIENCE_SECONDS = 60
# Databases that are compared.
DATABASES = (0, 1, 2, 3, 10)
# Expressions within expressions, about.
DEPTH_MAX = 5

# FAULTS of Tarn that are known, as patterns of the commands of a script, which is not run then: to be removed one by one.
FAULTS = [re.compile(pattern, re.DOTALL) for pattern in [
    r"'%w', (error|redis\.call)\)|foreach\(\{1\}, error",  # the place of an error
    r"#![^\n]*['\"]",  # shebangs have no quotes
    r"JMAP",  # subcommands of DEBUG that are not served are unknown, not refused
    r"collectgarbage\('nope'\)",
    r"err = '\\n'",  # line ends at the ends of errors are lost
    r"xpcall\(1\)|pcall\((xpcall|load|coroutine\.(resume|wrap)),",  # have names in messages, and places of the sandbox
    r"error[(,][^\n]*, ([23]|<num>)|pcall\(error, ",  # levels count what catches errors
    r"redis\.set_repl, |setresp\((?![23]\))|redis\.(setresp|log), ",  # take no strings as numbers
    r"_G\[(nil|\{\})\]",
    r"error_reply\([^)]*\\0|error_reply\((KEYS|ARGV)",  # a NUL ends the text of an error
    r"format = 'a\\n",  # is left as it is
]]
# FAULTS of Tarn that are known, as what to replace in errors and statuses: a NUL ends them.
FAULTS_IN_LINES = [(re.compile(rb"\0.*?(?= script: [0-9a-f]{40}|\r\n$)"), b"")]

# The data at the beginning of a batch: keys of each type, named by their types.
DATA = [
    ["SET", "s1", "hello"], ["SET", "s2", "a\r\nb\0\xff"], ["SET", "n1", "10"], ["SET", "n2", "-3.5"],
    ["RPUSH", "l1", "a", "b", "c", "1", "2"], ["RPUSH", "l2", "3", "1.5", "-2"],
    ["HSET", "h1", "f", "v", "n", "7", "x", "1.5"], ["HSET", "h2", "f", "text"],
    ["SADD", "t1", "a", "b", "c"], ["SADD", "t2", "b", "1", "2"],
    ["ZADD", "z1", "1", "a", "2", "b", "3.5", "c"], ["ZADD", "z2", "0", "a", "0", "b", "-inf", "d"],
]
KEYS = ["s1", "s2", "n1", "n2", "l1", "l2", "h1", "h2", "t1", "t2", "z1", "z2", "new", "other", ""]
ARGUMENTS = ["", "a", "b", "f", "1", "-1", "10", "3.7", "1e3", "0x10", "text with spaces", "\0\x01\xff", "inf", "nan", "%d+", "*",
             "é", "9007199254740993", "9223372036854775807", "line\r\nline", '[1,2,{"a":null}]']

# What a script needs of these stands before it, in its first line. `show` is a text without addresses, `dump` one of everything
# in a value, in an order; `sorted` puts the elements of a reply in an order.
HELPERS = {
    "show": "local function show(v) local t = type(v) if t == 'table' or t == 'function' or t == 'thread' or t == 'userdata' then "
            "return t end return tostring(v) end ",
    "dump": "local function dump(v, depth) depth = depth or 0 if type(v) == 'string' then return string.format('%q', v) end "
            "if type(v) ~= 'table' or depth > 6 then return show(v) end local parts = {} "
            "for k, e in pairs(v) do parts[#parts + 1] = '[' .. dump(k, 9) .. ']=' .. dump(e, depth + 1) end "
            "table.sort(parts) return '{' .. table.concat(parts, ',') .. '}' end ",
    "sorted": "local function sorted(v) if type(v) ~= 'table' or v.err or v.ok then return v end local parts = {} "
              "for k, e in pairs(v.map or v.set or v) do "
              "parts[#parts + 1] = (v.map or v.set) and dump(k) .. dump(e) or dump(e) end table.sort(parts) return parts end ",
}

# The grammar: a line with a colon names a rule, and alternatives follow. `<name>` stands for one of the rule `name`, `<name*>` for
# up to four. Expressions are made of the rule `name+` as long as they may go on, and of the rule `name` then.
#
# Left out is what differs from run to run (times, addresses, orders of hashes, what has expired in DBSIZE), tables without a text
# `err` as uncaught errors (they end redis-server 7.0), SORT by numbers (it fails there if a function of `math` has set errno
# before), and `os`, which Tarn adds.
GRAMMAR = r'''
num:
    0 | 1 | 2 | 3 | -1 | 10 | 255 | 256 | 3.7 | -2.5 | 0.1 | 1e15 | 2^31 | 2^53 | -2^63 | 1e300 | 0xff | -0 | 1/0 | -1/0 | 0/0
    | 1e-7 | 123456789012 | 65536 | 4294967295 | 1e100 | #KEYS | #ARGV
num+:
    (<num> <op> <num>) | -<num> | #<str> | #<tab> | tonumber(<str>) | tonumber(<digits>) | tonumber(<digits>, <base>)
    | select('#', <any*>) | math.<math1>(<num>) | math.<math2>(<num>, <num>) | bit.<bit1>(<num>) | bit.<bit2>(<num>, <num>)
    | bit.<bitn>(<num*>, 1) | string.byte(<str>, <index>) | string.len(<str>) | (<str>):len()
    | select(2, string.gsub(<str>, <pattern>, '')) | table.maxn(<tab>) | struct.size(<format>) | redis.call(<numeric>)
    | (redis.pcall(<numeric>)) | math.pi | math.huge | (function(...) return select('#', ...) end)(<any*>) | redis.LOG_WARNING
    | redis.REPL_ALL | string.find(<str>, <text>, 1, true) | (cmsgpack.unpack(cmsgpack.pack(<num>)))
    | cjson.decode(cjson.encode(<num>)) | #KEYS[1] | tonumber(ARGV[1])
str:
    <text> | <text> | <digits> | KEYS[1] | ARGV[1] | ARGV[2]
str+:
    (<str> .. <str>) | (<str> .. <num>) | tostring(0 + <num>) | tostring(<bool>) | tostring(nil)
    | string.sub(<str>, <index>, <index>) | (<str>):sub(<index>) | string.rep(<str>, <small>) | string.upper(<str>)
    | (<str>):lower() | string.reverse(<str>) | string.format(<spec1>, <num>) | string.format(<specs>, <str>)
    | string.format(<text>, <any*>) | string.char(<byte>, <byte>) | (string.gsub(<str>, <pattern>, <replacement>))
    | (string.gsub(<str>, <pattern>, <replacement>, <small>)) | string.gsub(<str>, <pattern>, function(a, b) return <str> end)
    | string.gsub(<str>, <pattern>, {a = <any>, b = <str>}) | string.match(<str>, <pattern>)
    | string.match(<str>, <pattern>, <index>) | table.concat(<tab>, <text>) | table.concat(<tab>, ',', <index>, <small>)
    | table.concat({<num*>}, ' ') | cjson.encode(<json>) | cmsgpack.pack(<pack*>) | struct.pack(<format>, <num>, <num>, <num>)
    | struct.pack(<format>, <str>, <num>) | redis.sha1hex(<str>) | bit.tohex(<num>) | bit.tohex(<num>, <index>) | type(<any>)
    | show(<any>) | dump(<any>) | redis.call(<textual>) | redis.pcall(<textual>) | (<bool> and <str> or <str>)
    | redis.status_reply(<str>).ok | redis.error_reply(<str>).err | cjson.decode(cjson.encode(<str>))
    | cjson.encode(cjson.decode(<json text>)) | _VERSION
bool:
    true | false
bool+:
    not <any> | (<num> <compare> <num>) | (<str> <compare> <str>) | (<any> == <any>) | (<any> ~= <any>) | rawequal(<any>, <any>)
    | (pcall(<thrower>)) | (<tab> == <tab>) | redis.acl_check_cmd(<command>) | redis.replicate_commands() | (next(<tab>) == nil)
tab:
    {} | {<num>} | {<text>, <text>} | KEYS | ARGV
tab+:
    {<any*>} | {<any>, nil, <any>} | {<num*>} | {<str*>} | {{<any*>}, {<any*>}} | {<name> = <any>} | {<any>, <name> = <any>}
    | <typed> | {pcall(<thrower>)} | {pcall(redis.call, <command>)} | {pcall(redis.pcall, <command>)} | redis.call(<listing>)
    | redis.pcall(<listing>) | sorted(redis.call(<unordered>)) | sorted(redis.pcall(<unordered>))
    | {string.find(<str>, <pattern>)} | {string.find(<str>, <pattern>, <index>)} | {string.byte(<str>, 1, -1)}
    | {string.gsub(<str>, <pattern>, <replacement>)} | cjson.decode(<json text>) | {pcall(cjson.decode, <json text>)}
    | {pcall(cjson.decode, <str>)} | {pcall(cjson.encode, <json>)} | {cmsgpack.unpack(cmsgpack.pack(<pack*>))}
    | {pcall(cmsgpack.unpack, <bytes>)} | {pcall(cmsgpack.unpack_one, <bytes>, <small>)}
    | {pcall(cmsgpack.unpack_limit, <bytes>, <index>, <small>)} | {pcall(struct.unpack, <format>, <str>)}
    | {pcall(struct.unpack, <format>, <str>, <small>)} | {struct.unpack(<format>, <bytes> .. <bytes>)}
    | {pcall(struct.pack, <format>, <any*>)} | {unpack(<tab>)} | {unpack(<tab>, <small>, <small>)} | {select(<index>, <any*>)}
    | {math.modf(<num>)} | {math.frexp(<num>)} | {pcall(setmetatable, <tab>, <any>)}
    | {xpcall(function() <fail> end, function(e) return <handled> end)}
    | {xpcall(function() return <any> end, function(e) return dump(e) end)} | {pcall(xpcall, <any*>)}
    | {pcall(string.<string function>, <any*>)} | {pcall(table.<table function>, <any*>)} | {pcall(math.<math1>, <any*>)}
    | {pcall(bit.<bit2>, <any*>)} | {pcall(redis.<redis function>, <any*>)} | {pcall(tonumber, <any*>)}
    | {pcall(unpack, <any*>)} | {pcall(select, <any*>)} | {pcall(next, <tab>, <any>)} | {pcall(rawset, <tab>, <any>, <num>)}
    | {pcall(ipairs, <any*>)} | {pcall(rawget, <any*>)} | {pcall(<global>)} | {pcall(loadstring, <code>)} | {loadstring(<code>)}
    | {pcall(loadstring(<code>))} | {pcall(loadstring(<code>), <any*>)} | {pcall(loadstring, <code>, <text>)}
    | {load(function() return nil end)} | {pcall(load, <text>, <any>)} | <routine> | <meta> | <closure>
    | {pcall(string.format, <specs>, <any*>)} | {pcall(string.format, <spec1>, <any*>)} | {pcall(cmsgpack.pack, <any*>)}
    | {pcall(coroutine.<coroutine function>, <any*>)} | {pcall(assert, <any*>)} | {pcall(error, <any*>)}
    | {pcall(function() local x = <str> return x.<name>, x[1] end)} | (function(...) return {...} end)(<any*>)
    | (function() local r = {} for a, b in string.gmatch(<str>, <pattern>) do r[#r + 1] = dump({a, b}) end return r end)()
    | (function() local r = {} for i, v in ipairs(<tab>) do r[#r + 1] = show(v) end return r end)()
    | (function() local r = <tab> table.insert(r, <num>) return r end)()
    | (function() local r = {<any*>} table.insert(r, <small>, <any>) return r end)()
    | (function() local r = {<any*>} local x = table.remove(r, <small>) return {r, x} end)()
    | (function() local r = {<num*>} table.sort(r) return r end)()
    | (function() local r = {<str*>} table.sort(r, <order>) return r end)()
    | (function() local r = {<any*>} return {pcall(table.sort, r)} end)()
any:
    nil | true | false | <num> | <text> | cjson.null
any+:
    <num> | <num> | <str> | <str> | <bool> | <tab> | <tab> | <tab> | <typed> | nil | redis.pcall(<command>)
    | redis.call(<command>) | function() return 1 end | coroutine.create(function() end)
typed:
    {ok = <text>} | {err = <text>} | {double = 1.5}
typed+:
    {ok = <str>} | {err = <str>} | {double = <num>} | {map = {[<text>] = <any>}} | {map = {[<num>] = <any>}} | {map = <tab>.x}
    | {map = {}} | {set = {[<text>] = true}} | {set = {<any>}} | {set = {}} | {big_number = <digits>} | {big_number = <str>}
    | {verbatim_string = {format = <fmt>, string = <str>}} | {verbatim_string = {format = <fmt>}} | {verbatim_string = <str>}
    | redis.error_reply(<str>) | redis.status_reply(<str>) | redis.error_reply(<any>) | redis.status_reply(<any*>)
    | {ok = <any>} | {err = <any>} | {double = <any>} | {big_number = <any>} | {err = <text>, ok = <text>}
    | {ok = <text>, double = 1} | {1, 2, ok = <any>} | setmetatable({}, {__index = {ok = 'x'}})
    | setmetatable({1}, {__index = function() return 2 end, __len = function() return 9 end})
routine:
    {coroutine.resume(coroutine.create(function(...) return ... end), <num>)}
routine+:
    (function() local co = coroutine.create(function(a, b) local c = coroutine.yield(<any>) <act> return a, c end) local r =
      {dump({coroutine.resume(co, <any>)})} r[2] = coroutine.status(co) r[3] = dump({coroutine.resume(co, <any>)}) r[4] =
      coroutine.status(co) r[5] = dump({coroutine.resume(co)}) return r end)()
    | {coroutine.resume(coroutine.create(function() <fail> end))} | {pcall(coroutine.wrap(function() <fail> end))}
    | {coroutine.wrap(function() return <any>, redis.call(<command>) end)()}
    | {coroutine.wrap(function() coroutine.yield(<any>) end)()}
    | (function() local f = coroutine.wrap(function() for i = 1, <small> do coroutine.yield(i) end end) return
      {pcall(function() return f(), f(), f() end)} end)()
    | {coroutine.resume(coroutine.create(function() return pcall(function() coroutine.yield(1) end) end))}
    | {pcall(coroutine.yield, <any>)} | {coroutine.resume(coroutine.create(function() return pcall(redis.call, <command>) end))}
    | {show(coroutine.running())}
    | {coroutine.resume(coroutine.create(function() table.sort({3, 2, 1}, function(a, b) coroutine.yield() end) end))}
meta:
    {tostring(setmetatable({}, {__tostring = function() return 'named' end}))}
meta+:
    {pcall(function() return setmetatable({}, {__<event> = function(a, b) return <any> end}) <op> <num> end)}
    | {pcall(function() return setmetatable({}, {__<event> = function(a, b) return <any> end}) .. <str> end)}
    | {pcall(function() local t = setmetatable({}, {__index = function(t, k) return <any> end}) return t.x, t[<any>] end)}
    | {pcall(function() local t = setmetatable({}, {__newindex = function(t, k, v) rawset(t, 'y', v) end}) t.x = <any> return
      t.x, t.y end)} | {pcall(setmetatable({}, {__call = function(self, ...) return select('#', ...), ... end}), <any*>)}
    | {pcall(getmetatable, <any>)} | {pcall(setmetatable, setmetatable({}, {__metatable = <any>}), {})}
    | {pcall(tostring, setmetatable({}, {__tostring = function() return <any> end}))}
    | {pcall(function() return setmetatable({}, {__lt = function() return <any> end}) < setmetatable({}, {}) end)}
    | {pcall(error, setmetatable({}, {__index = {err = <any>}}))} | {pcall(function() for k in <tab> do end end)}
    | {pcall(function() getmetatable('').__index = nil end)} | {pcall(function() <library>.x = 1 end)}
    | {pcall(setmetatable, <library>, {})} | {pcall(rawset, <library>, 'x', 1)}
    | (function() local r = {} for k in pairs(<library>) do r[#r + 1] = k end table.sort(r) return r end)()
closure:
    {(function(x) return x end)(<num>)}
closure+:
    (function() local n = <num> local function add() n = n + <num> return n end return {add(), add(), n} end)()
    | (function() local fs = {} for i = 1, 3 do fs[i] = function() i = i * 2 return i end end return {fs[1](), fs[2](),
      fs[1]()} end)()
    | {pcall(function() local function f(n) if n == 0 then <fail> return n end return f(n - 1) end return f(<small>) end)}
    | {pcall(function() local function f(n) if n == 0 then <fail> return n end local x = f(n - 1) return x end return f(3) end)}
    | (function() local function f(n) return n < 2 and n or f(n - 1) + f(n - 2) end return {f(9)} end)()
    | (function() local r, i = {}, 0 while i < <small> do i = i + 1 if <bool> then break end r[#r + 1] = <any> end return r
      end)() | (function() local r = {} for i = <index>, <small>, <step> do r[#r + 1] = i end return r end)()
    | (function() local i = 0 repeat local done = i > 2 i = i + 1 until done return {i} end)()
fail:
    error(<text>) | error() | error(<text>, 0) | error({err = <text>})
fail+:
    error(<text> .. <str>) | error(0 + <num>) | error(<text> .. <str>, <level>) | error(redis.error_reply(<text>)) | error(nil)
    | error(true) | redis.call(<command>) | redis.call(<bad command>) | redis.call(<any*>) | local x = nil + 1
    | local x = {} .. 'a' | local x = #<any> | local x = <any> < <any> | local x = KEYS.a.b | local x = ({}).a.b.c | undefined()
    | undefined = 1 | local f = <any> f() | string.rep() | ('x'):nope() | string.format('%d', <str>)
    | cjson.encode(function() end) | cjson.decode('{') | assert(false) | assert(nil, <text>) | assert(<bool>, <str>)
    | redis.setresp(<any>) | table.concat({{}}) | setmetatable(_G, {}) | redis.x = 1 | ARGV.a.b = 1 | local t = {} t[nil] = 1
    | local t = {} t[0/0] = 1 | for i = 1, 'x' do end | for i = <text>, 2 do end
    | string.gsub('abc', '%w', function() error(<text>) end) | table.sort({1, 2, 3}, function() error(<text>) end)
    | table.foreach({1}, error) | loadstring('error("inner")')() | loadstring('\n\nlocal x = nil + 1', '=chunk')()
    | coroutine.wrap(function() error(<text>) end)() | coroutine.wrap(function() redis.call(<command>) end)()
    | local x = (function() return error(<text>) end)() | bit.band() | struct.pack('i') | cmsgpack.unpack(1)
    | string.gsub('abc', '%w', error) | string.gsub('abc', '%w', redis.call) | local function f() return f() + 1 end f()
    | pcall() | xpcall(1) | local x = ({}):x() | redis.call('SET', KEYS[1]) | redis.log() | redis.sha1hex() | redis.nope()
    | math.floor({}) | math.max() | unpack({}, 1, 1e8) | string.rep('x', -1)()
    | setmetatable({}, {__index = function(t, k) error(k) end}).boom = nil .. 1
    | local x = setmetatable({}, {__index = function(t, k) error(k) end}).boom
thrower:
    error, <text>
thrower+:
    function() <fail> end | error, <any*> | redis.call, <command> | redis.pcall, <command> | function() return <any> end
    | function() <act> return <any> end | error, {err = <any>} | <any*>
handled:
    dump(e)
handled+:
    e | dump(e) | {e} | type(e) | e.err | e .. 'x' | error(<text>) | nil
act:
    redis.call(<command>) | redis.pcall(<command>)
act+:
    redis.call(<command>) | redis.pcall(<command>) | redis.pcall(<bad command>) | pcall(redis.call, <command>)
    | if <bool> then <act> else <act> end | for i = 1, <small> do <act> end
    | for _, k in ipairs(KEYS) do redis.pcall('<keyed>', k) end | redis.setresp(<resp>) | do local x = <any> end
    | if <bool> then return <result> end | redis.call(<selecting>) | redis.log(redis.LOG_DEBUG, <str>)
    | pcall(function() <act> end) | redis.call('PUBLISH', <text>, <str>)
    | redis.pcall('SELECT', <small>) redis.pcall(<command>) redis.pcall('SELECT', 0) | redis.set_repl(redis.REPL_ALL)
result:
    <any>
result+:
    <any> | <any> | <num> | <str> | <tab> | <tab> | <typed> | <typed> | {<typed>, <any*>} | {<any*>, <typed>} | dump(<tab>)
    | dump({<any*>}) | dump(<library>) | redis.call(<command>) | redis.pcall(<command>) | dump(redis.pcall(<command>))
    | dump(redis.call(<command>)) | redis.pcall(<bad command>) | {redis.pcall(<command>), redis.pcall(<command>)}
    | dump({pcall(redis.call, <bad command>)}) | <any>, <any> | pcall(<thrower>)
command:
    'GET', <s> | 'SET', <s>, <value> | 'INCR', <s>
command+:
    <numeric> | <numeric> | <textual> | <listing> | <writing> | <writing> | <writing> | <bad command>
numeric:
    'INCR', <s> | 'STRLEN', <s> | 'EXISTS', <key>
numeric+:
    'INCRBY', <s>, <int> | 'DECR', <s> | 'DECRBY', <s>, <int> | 'APPEND', <s>, <value> | 'SETRANGE', <s>, <offset>, <value>
    | 'SETNX', <s>, <value> | 'MSETNX', <s>, <value>, <key>, <value> | 'GETBIT', <s>, <offset>
    | 'SETBIT', <s>, <offset>, <bitvalue> | 'BITCOUNT', <s> | 'BITCOUNT', <s>, <int>, <int>
    | 'BITCOUNT', <s>, <int>, <int>, 'BIT' | 'BITPOS', <s>, <bitvalue> | 'BITPOS', <s>, <bitvalue>, <int>, <int>
    | 'BITOP', '<bitop>', <key>, <s>, <s> | 'DEL', <key> | 'UNLINK', <key>, <key> | 'EXISTS', <key>, <key> | 'TOUCH', <key>
    | 'EXPIREAT', <key>, <when> | 'PEXPIREAT', <key>, <when>, '<xx>' | 'EXPIRE', <key>, <past> | 'EXPIRETIME', <key>
    | 'PEXPIRETIME', <key> | 'PERSIST', <key> | 'RENAMENX', <key>, <key> | 'COPY', <key>, <key>
    | 'COPY', <key>, <key>, 'DB', <small>, 'REPLACE' | 'MOVE', <key>, <small> | 'DBSIZE' | 'HSET', <h>, <value>, <value>
    | 'HSET', <h>, <field>, <value>, <field>, <value> | 'HSETNX', <h>, <field>, <value> | 'HDEL', <h>, <field>
    | 'HEXISTS', <h>, <field> | 'HLEN', <h> | 'HINCRBY', <h>, <field>, <int> | 'HSTRLEN', <h>, <field>
    | 'LPUSH', <l>, <value>, <value> | 'RPUSH', <l>, <value> | 'LPUSHX', <l>, <value> | 'RPUSHX', <l>, <value> | 'LLEN', <l>
    | 'LREM', <l>, <int>, <value> | 'LINSERT', <l>, '<side>', <value>, <value> | 'LPOS', <l>, <value>
    | 'LPOS', <l>, <value>, 'RANK', <int> | 'SADD', <t>, <value>, <value> | 'SREM', <t>, <value> | 'SISMEMBER', <t>, <value>
    | 'SCARD', <t> | 'SMOVE', <t>, <t>, <value> | 'SINTERSTORE', <key>, <t>, <t> | 'SUNIONSTORE', <key>, <t>, <t>
    | 'SDIFFSTORE', <key>, <t>, <t> | 'SINTERCARD', 2, <t>, <t> | 'SINTERCARD', <int>, <t>, <t>, 'LIMIT', <int>
    | 'ZADD', <z>, <score>, <value> | 'ZADD', <z>, '<zflag>', <score>, <value>
    | 'ZADD', <z>, '<zflag>', '<zflag>', <score>, <value>, <score>, <field> | 'ZREM', <z>, <value> | 'ZCARD', <z>
    | 'ZCOUNT', <z>, <bound>, <bound> | 'ZLEXCOUNT', <z>, <lex>, <lex> | 'ZRANK', <z>, <field> | 'ZREVRANK', <z>, <field>
    | 'ZREMRANGEBYRANK', <z>, <int>, <int> | 'ZREMRANGEBYSCORE', <z>, <bound>, <bound> | 'ZREMRANGEBYLEX', <z>, <lex>, <lex>
    | 'ZUNIONSTORE', <key>, 2, <z>, <z> | 'ZINTERSTORE', <key>, 2, <z>, <z>, 'WEIGHTS', <score>, <score>
    | 'ZUNIONSTORE', <key>, 2, <z>, <t>, 'AGGREGATE', '<aggregate>' | 'ZDIFFSTORE', <key>, 2, <z>, <z>
    | 'ZRANGESTORE', <key>, <z>, <int>, <int> | 'ZRANGESTORE', <key>, <z>, <bound>, <bound>, 'BYSCORE'
    | 'ZINTERCARD', 2, <z>, <z> | 'PUBLISH', <text>, <value> | 'SORT', <l>, 'BY', 'nosort', 'STORE', <key>
    | 'LINSERT', <l>, <text>, <value>, <value>
textual:
    'GET', <s> | 'TYPE', <key> | 'ECHO', <value>
textual+:
    'GETSET', <s>, <value> | 'GETDEL', <s> | 'GETEX', <s> | 'GETEX', <s>, 'PERSIST' | 'GETEX', <s>, 'EXAT', <when>
    | 'GETRANGE', <s>, <int>, <int> | 'SUBSTR', <s>, <int>, <int> | 'INCRBYFLOAT', <s>, <score> | 'LCS', <s>, <s>
    | 'HGET', <h>, <field> | 'HINCRBYFLOAT', <h>, <field>, <score> | 'LINDEX', <l>, <int> | 'LPOP', <l> | 'RPOP', <l>
    | 'LMOVE', <l>, <l>, '<end>', '<end>' | 'RPOPLPUSH', <l>, <l> | 'ZSCORE', <z>, <field> | 'ZINCRBY', <z>, <score>, <field>
    | 'PING' | 'PING', <value> | 'SET', <s>, <value> | 'SET', <s>, <value>, '<xx>' | 'SET', <s>, <value>, 'GET'
    | 'SET', <s>, <value>, 'PXAT', <later> | 'SET', <s>, <value>, 'KEEPTTL' | 'SET', <s>, <value>, 'XX', 'GET'
    | 'SET', <s>, <value>, <value> | 'MSET', <s>, <value>, <s>, <value> | 'HMSET', <h>, <field>, <value>
    | 'LSET', <l>, <int>, <value> | 'LTRIM', <l>, <int>, <int> | 'RENAME', <key>, <key> | 'ZADD', <z>, 'INCR', <score>, <field>
    | 'SETEX', <s>, <past>, <value> | 'PSETEX', <s>, <past>, <value> | 'ZADD', <z>, 'INCR', '<zflag>', <score>, <field>
listing:
    'LRANGE', <l>, 0, -1 | 'MGET', <s>, <s>
listing+:
    'LRANGE', <l>, <int>, <int> | 'MGET', <key>, <key>, <key> | 'HMGET', <h>, <field>, <field> | 'LPOP', <l>, <int>
    | 'RPOP', <l>, <int> | 'LMPOP', 2, <l>, <l>, '<end>' | 'LMPOP', 1, <l>, '<end>', 'COUNT', <int>
    | 'LPOS', <l>, <value>, 'COUNT', <int> | 'SMISMEMBER', <t>, <value>, <value> | 'ZRANGE', <z>, <int>, <int>
    | 'ZRANGE', <z>, <int>, <int>, 'WITHSCORES' | 'ZRANGE', <z>, <int>, <int>, 'REV', 'WITHSCORES'
    | 'ZRANGE', <z>, <bound>, <bound>, 'BYSCORE', 'LIMIT', <int>, <int> | 'ZRANGE', <z>, <lex>, <lex>, 'BYLEX'
    | 'ZRANGEBYSCORE', <z>, <bound>, <bound> | 'ZRANGEBYSCORE', <z>, <bound>, <bound>, 'WITHSCORES'
    | 'ZREVRANGEBYSCORE', <z>, <bound>, <bound> | 'ZREVRANGE', <z>, <int>, <int>, 'WITHSCORES'
    | 'ZRANGEBYLEX', <z>, <lex>, <lex> | 'ZREVRANGEBYLEX', <z>, <lex>, <lex> | 'ZPOPMIN', <z> | 'ZPOPMAX', <z>, <int>
    | 'ZMPOP', 1, <z>, 'MIN' | 'ZMPOP', 2, <z>, <z>, 'MAX', 'COUNT', <int> | 'ZMSCORE', <z>, <field>, <field>
    | 'ZUNION', 2, <z>, <z>, 'WITHSCORES' | 'ZINTER', 2, <z>, <z> | 'ZDIFF', 2, <z>, <z>, 'WITHSCORES'
    | 'BITFIELD', <s>, 'GET', '<bits>', <offset>
    | 'BITFIELD', <s>, 'SET', '<bits>', <offset>, <int>, 'INCRBY', '<bits>', <offset>, <int>
    | 'BITFIELD', <s>, 'OVERFLOW', '<overflow>', 'INCRBY', '<bits>', <offset>, <int>
    | 'BITFIELD_RO', <s>, 'GET', '<bits>', <offset> | 'SORT', <l>, 'BY', 'nosort', 'GET', '#', 'GET', 's*'
    | 'LCS', <s>, <s>, 'LEN' | 'SORT_RO', <l>, 'BY', 'nosort', 'LIMIT', <int>, <int>
unordered:
    'SMEMBERS', <t>
unordered+:
    'LCS', <s>, <s>, 'IDX' | 'HGETALL', <h> | 'HKEYS', <h> | 'HVALS', <h> | 'SMEMBERS', <t> | 'SUNION', <t>, <t>
    | 'SINTER', <t>, <t> | 'SDIFF', <t>, <t> | 'KEYS', <value>
writing:
    'SET', <s>, <value>
writing+:
    'SET', <s>, <value> | 'HSET', <h>, <field>, <value> | 'RPUSH', <l>, <value> | 'SADD', <t>, <value>
    | 'ZADD', <z>, <score>, <value> | 'DEL', <key> | 'INCR', <s> | 'FLUSHDB' | 'SWAPDB', <small>, <small>
    | 'RENAME', <key>, <key>
selecting:
    'SELECT', <small>
selecting+:
    'SELECT', <int> | 'SELECT', 1 | 'SELECT', 0
bad command:
    'NOPE' | 'GET' | 'SET', <key>
bad command+:
    '<keyed>', <any*> | <any*> | 'MULTI' | 'EXEC' | 'DISCARD' | 'WATCH', <key> | 'UNWATCH' | 'SUBSCRIBE', <text>
    | 'EVAL', 'return 1', 0 | 'EVALSHA', <text>, 0 | 'BLPOP', <l>, 0 | 'BRPOPLPUSH', <l>, <l>, 0
    | 'BLMOVE', <l>, <l>, 'LEFT', 'LEFT', 0 | 'BZPOPMIN', <z>, 0 | 'CONFIG', 'GET', 'port' | 'HELLO', 3 | 'AUTH', 'x'
    | 'SCRIPT', 'EXISTS', <text> | 'CLIENT', 'ID' | 'OBJECT', 'NOPE', <key> | 'OBJECT', 'HELP', 1 | 'OBJECT' | 'CLIENT', <text>
    | 'COMMAND', 'NOPE' | 'RESET' | 'QUIT' | 'SAVE' | 'BGSAVE' | 'WAIT', 0, 0 | 'DEBUG', 'JMAP' | 'get' | 'gEt', <s> | <text>
    | <num>, <num> | '', '' | 'GET', <any> | 'SET', <s>, <any> | 'SET', <s>, <num> | 'HSET', <h>, <num>, <num>
    | 'INCRBY', <s>, <num> | 'SLOWLOG', 'NOPE' | 'MEMORY' | 'PUBSUB', 'NUMPAT' | 'FLUSHALL', 'x' | 'ZADD', <z>, <num>, <num>
key:
    <s>
key+:
    <s> | <l> | <h> | <t> | <z> | 'new' | 'other' | KEYS[1] | KEYS[2] | KEYS[3]
op:
    + | - | * | / | % | ^
compare:
    < | <= | > | >= | == | ~=
event:
    add | sub | mul | div | mod | pow | unm | concat | eq | call
math1:
    floor | ceil | abs | sqrt | exp | log | log10 | sin | cos | tan | atan | deg | rad | tanh | cosh
math2:
    max | min | fmod | pow | atan2 | ldexp | mod
bit1:
    tobit | bnot | bswap | tohex
bit2:
    lshift | rshift | arshift | rol | ror | band
bitn:
    band | bor | bxor
string function:
    byte | find | format | gsub | len | lower | match | reverse | sub | upper | char | gmatch
table function:
    concat | maxn | getn | remove | sort | foreach | foreachi | setn
coroutine function:
    create | resume | wrap | status | running
redis function:
    call | pcall | error_reply | status_reply | sha1hex | setresp | log | set_repl | replicate_commands | acl_check_cmd
    | breakpoint
library:
    string | table | math | cjson | cmsgpack | struct | bit | coroutine | redis
global:
    function() return dofile end | function() return _G.print end | function() return io end
    | function() return type(newproxy) end | function() return debug end | function() return setfenv end
    | function() return getfenv end | function() return require end | function() x = 1 end | function() _G.x = 1 end
    | function() local a = _G[1] end | function() KEYS = {} return KEYS end | function() ARGV[5] = 'x' return #ARGV end
    | function() return rawget(_G, 'nope') end | function() redis = nil end | function() return getmetatable(_G).__index end
    | function() return module end | function() return _G[nil] end | function() return _G[{}] end
    | function() return _G._G == _G end | rawset, _G, 'x', 1 | function() return string.dump(function() end) end
    | function() return xpcall == pcall end | function() tostring = 1 end | function() return redis.REDIS_VERSION end
    | function() return gcinfo() > 0 end | function() return collectgarbage() end | function() return collectgarbage('nope') end
    | setmetatable, _G, nil | function() return print end
order:
    function(a, b) return a > b end | function(a, b) return #a < #b end | function(a, b) return true end
    | function(a, b) return nil end | nil
name:
    a | b | x | ok | err | len | map | set | double
keyed:
    DEL | TYPE | INCR | LLEN | HLEN | SCARD | ZCARD | STRLEN | GET | EXISTS | PERSIST | LPOP | ZPOPMIN | SADD | ZADD | HSET
    | NOPE
text:
    '' | 'a' | 'b' | 'abc' | 'hello world' | 'A B' | 'x=1, y=2' | '\0\1\255' | 'a\nb' | 'a\r\nb' | '"q"\\' | 'ERR my error'
    | 'MYERR' | '-x' | '\195\169' | '%s %d' | '(a(b)c)' | [[long [x] text]] | 'WRONGTYPE x' | '  trim  ' | 'key:1:name'
    | '-ERR dash' | '\n' | 'a\0b'
digits:
    '0' | '10' | '-7' | '3.5' | '0x1F' | '1e2' | ' 12 ' | '' | 'abc' | '12abc' | 'zz' | '1e400' | 'inf' | 'nan' | '-0'
    | '9223372036854775807' | '0x' | '1 2' | '777' | '.5' | '5.' | '123456789012345678901234567890' | '1e' | '\0001'
base:
    2 | 8 | 10 | 16 | 36 | 3 | 1 | 37 | 0 | '16'
index:
    1 | 2 | 3 | -1 | -2 | 0 | 100 | -100 | 2.7 | nil
small:
    0 | 1 | 2 | 3 | 2
step:
    1 | -1 | 2 | 0.5
level:
    0 | 1 | 2 | 3 | nil
byte:
    0 | 65 | 97 | 255 | 10 | 48
resp:
    2 | 3 | 3 | 2 | 3
fmt:
    'txt' | 'mkd' | 'x' | 'long' | 'a\nb' | '' | 1
pattern:
    '%w+' | '.' | '%d' | 'a' | '[a-c]+' | '(%w)(%w)' | '^%s*(.-)%s*$' | '%b()' | '%f[%w]%w+' | '' | '()' | '[^%s]*'
    | '(%w+)=(%w+)' | '%' | '[a' | '(a' | 'a)' | '%1' | '(.)%1' | 'l*' | 'l-o' | '%S+$' | '[%a_][%w_]*' | '%z' | '[]]' | '.-'
    | '%f' | '%b' | '[%' | 'x?' | '(()'
replacement:
    '' | 'x' | '%1' | '<%0>' | '%%' | '%2%1' | '%9' | '%' | '%a' | {} | 1
spec1:
    '%d' | '%5d' | '%05.1f' | '%x' | '%X' | '%o' | '%e' | '%g' | '%.3f' | '%i' | '%u' | '%c' | '%s' | '%+d' | '%-8dx' | '%.14g'
    | '%.17g' | '% d' | '%#x' | '%q' | '%5.2s' | '%a' | '%y' | '%' | '%123d' | '%.123f'
specs:
    '%s' | '%q' | '%10s|' | '%-10s|' | '%.2s' | '%s %s' | '%%' | '%d %s' | '%c' | '%x' | '%5' | '%s%'
format:
    'i4' | '<i2' | '>I4' | 'b' | 'B' | 'h' | 'H' | 'l' | 'L' | '>d' | 'f' | '<d' | 's' | 'c0' | 'c3' | 'Bc0' | 'xB' | '!4i4b'
    | '>I2<I2' | 'i8' | 'I8' | '!8bi8' | 'i3' | 'i33' | 'y' | 'T' | ' i4 ' | '' | 'i4i4' | 'I1' | '!3b' | '!16d' | '>h>H>b'
json:
    <num> | <str> | <bool> | nil | {} | {<num>, <num>} | {<str>, <any>} | {<name> = <any>} | {{}, {<str>}} | cjson.null
    | {[<num>] = <any>} | {[1] = 1, [3] = 3} | {1, nil, 3} | {<tab>} | {[true] = 1} | {[10] = 1} | {[100] = 1} | <any>
    | {<name> = {<name> = <any>}} | 1e20 | 0.1 | -1e-9 | '/path' | '\1\31\127'
json text:
    '1' | '[]' | '{}' | '[1,2.5,-3e2]' | '{"a":1}' | '{"a":{"b":[null,true,false]}}' | '"\\u00e9\\ud83d\\ude00"' | '[1,]'
    | '{"a"}' | 'nul' | ' [ 1 , "x" ] ' | '"\\n\\/"' | '01' | '1e5' | '[1] x' | '' | '"\\ud800"' | '{"a":1,"a":2}'
    | '[[[[[1]]]]]' | '-' | '1e999' | '"a' | '["\\u0000"]' | '{"1":2}' | '{1:2}' | '0x10' | 'NaN' | '-Infinity' | 'tru'
    | '[1 2]' | '"\\x"' | '"\9"' | '{"ok":"x"}' | '{"err":"x"}' | '{"double":2.5}' | ARGV[1] | '[nul]' | '123456789012345678'
    | '1.0' | '-0' | '+1' | '.5' | '[1' | '{"a":' | string.rep('[', 1001)
pack:
    <num> | <str> | <bool> | nil | {} | {<num>, <num>} | {<name> = <any>} | {<tab>, <str>} | {[<num>] = 1} | <any>
    | {1, 2, nil, 4} | string.rep('x', 40) | -33 | -129 | 70000 | 2^40 | 1.5
bytes:
    '\0' | '\127\255' | '\147\1\2\3' | '\129\161a\1' | '\163abc' | '\163ab' | '\192\193\194\195' | '\202\63\192\0\0'
    | '\203\63\248\0\0\0\0\0\0' | '\204\200\205\1\0' | '\206\255\255\255\255' | '\207\255\255\255\255\255\255\255\255'
    | '\208\128\209\128\0' | '\210\128\0\0\0' | '\211\128\0\0\0\0\0\0\0' | '\217\1a' | '\218\0\1a' | '\220\0\1\1'
    | '\222\0\1\1\2' | '\196\1a' | '\201' | '\221\255\255\255\255' | '' | <str> | '\129\1' | '\129\192\1' | '\212\1\1'
    | cmsgpack.pack(<pack*>) | struct.pack('>i4d', 1, 2)
code:
    'return 1' | 'return ...' | 'return 1 +' | 'x = 1' | 'return nope' | 'local a = <num> return a' | 'error("x")'
    | '\n\nreturn }' | 'return redis.call("PING")' | 'for' | '' | 'return \'a' | 'return 1e' | 'goto x' | 'break'
    | 'return "\\400"' | 'return [[x' | '--[[ x' | 'return 3 // 2' | 'return ~1' | '\27Lua'
    | '#!lua\nreturn 1' | '# x\nreturn 1'
    | 'return -- a very long line of code that has to be cut in messages about it, as all are ('
s:
    's1' | 's2' | 'n1' | 'n1' | 'n2' | 'new' | KEYS[1] | 'l1'
l:
    'l1' | 'l2' | 'l1' | 'l2' | 'new' | 'other' | KEYS[1] | 's1'
h:
    'h1' | 'h2' | 'h1' | 'h2' | 'h1' | 'new' | KEYS[2] | 'n1'
t:
    't1' | 't2' | 't1' | 't2' | 't1' | 'new' | KEYS[1] | 'z1'
z:
    'z1' | 'z2' | 'z1' | 'z2' | 'z1' | 'other' | KEYS[1] | 't1'
field:
    'f' | 'n' | 'x' | 'a' | 'b' | 'nosuch' | '' | 1
value:
    'a' | 'b' | '1' | ARGV[1] | <text> | <digits>
value+:
    <text> | <digits> | <str> | <num> | ARGV[1] | 1 | 'c'
int:
    0 | 1 | 2 | -1 | -2 | 3 | 10 | -100 | 'x' | '1.5' | 1.5 | '9223372036854775807' | '-9223372036854775807' | 100
offset:
    0 | 1 | 7 | 8 | 15 | 100 | -1 | 'x' | '#1' | 3
bitvalue:
    0 | 1 | 1 | 2 | 'x'
score:
    0 | 1 | 2.5 | -1 | 'inf' | '-inf' | 'nan' | 1e10 | 0.1 | 'x' | 3 | 1e-5 | '1e300'
bound:
    0 | 1 | '(1' | '-inf' | '+inf' | 2.5 | 'x' | '(2.5' | 3
lex:
    '-' | '+' | '[a' | '(a' | '[b' | '(c' | 'x'
when:
    1 | 4102444800 | 33000000000 | 33000000000123 | 0 | -5 | 'x' | '9223372036854775807'
later:
    4102444800000 | 33000000000123 | 0 | -5 | 'x' | '9223372036854775807'
past:
    0 | -1 | -100 | 'x'
xx:
    NX | XX | GT | LT | nope
zflag:
    NX | XX | GT | LT | CH | CH | INCR | nope
bitop:
    AND | OR | XOR | NOT | nope
side:
    BEFORE | AFTER | nope
end:
    LEFT | RIGHT | left | nope
aggregate:
    SUM | MIN | MAX | nope
bits:
    u8 | i5 | u63 | i64 | u64 | u1 | x8
overflow:
    WRAP | SAT | FAIL | nope
shebang:
    #!lua | #!lua flags=no-writes | #!lua flags=allow-stale,no-cluster | #!lua flags=
    | #!lua flags=allow-oom,allow-cross-slot-keys | #!lua flags=no-writes,nope | #!lua name=x | #!python | #!
    | #!lua  flags=no-writes | #!LUA | #!lua flags=no-writes flags=allow-oom
'''
NAME = re.compile(r"<([a-z][a-z0-9 ]*)(\*?)>")


def rules(grammar):
    """The alternatives of each rule."""
    found = {}
    for line in grammar.strip().split("\n"):
        if line.startswith(" "):
            found[name].append(line.strip())
        else:
            name = line.removesuffix(":")
            found[name] = []
    return {name: " ".join(lines).split(" | ") for name, lines in found.items()}


RULES = rules(GRAMMAR)


class Generator:
    """Makes the commands of one batch."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.variables = {}

    def expand(self, text, depth):
        """`text` with something in the place of each `<name>`."""
        return NAME.sub(lambda found: self.several(found[1], depth) if found[2] else self.one(found[1], depth), text)

    def several(self, name, depth):
        return ", ".join(self.one(name, depth) for _ in range(self.random.choice([1, 1, 2, 2, 3, 4])))

    def one(self, name, depth):
        if self.variables.get(name) and self.random.random() < 0.2:
            return self.random.choice(self.variables[name])
        goes_on = name + "+" in RULES and depth < DEPTH_MAX and self.random.random() < 0.75
        return self.expand(self.random.choice(RULES[name + "+" if goes_on else name]), depth + 1)

    def statement(self):
        """A statement; what it declares is a variable of the later ones."""
        kind = self.random.choice(["num", "str", "tab", "any", "act", "act", "act", "act", "act", "fail"])
        if kind == "act" or kind == "fail" and self.random.random() < 0.5:
            return self.one(kind, 0)
        if kind == "fail":
            return f"if {self.one('bool', 1)} then {self.one('fail', 0)} end"
        name = f"v{sum(map(len, self.variables.values()))}"
        text = f"local {name} = {self.one(kind, 0)}"
        self.variables.setdefault(kind, []).append(name)
        return text

    def script(self):
        self.variables = {}
        parts = []
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3, 4, 6])):
            parts += [self.statement(), self.random.choice(["\n", "\n", "; ", " ; \n\n"])]
        last = self.random.choice(["return <result>"] * 16 + ["return", "<fail>", "<fail>"])
        body = "".join(parts) + self.expand(last, 0)
        for name, code in reversed(HELPERS.items()):
            if f"{name}(" in body:
                body = code + body
        if self.random.random() < 0.1:
            body = self.one("shebang", 0) + self.random.choice(["\n"] * 20 + ["", "\r\n"]) + body
        return body

    def step(self):
        """The commands that run one script which shows no fault that is known."""
        while True:
            commands = self.run(self.script())
            text = "\n".join(word for command in commands for word in command)
            if not any(fault.search(text) for fault in FAULTS):
                return commands

    def run(self, script):
        """Commands that run a script."""
        names = self.random.choices(KEYS, k=self.random.randrange(4))
        rest = [str(len(names)), *names, *self.random.choices(ARGUMENTS, k=self.random.randrange(4))]
        if self.random.random() < 0.02:
            rest[0] = self.random.choice(["-1", "x", "", "100"])
        readonly = "_RO" if self.random.random() < 0.15 else ""
        sha = hashlib.sha1(script.encode("latin-1")).hexdigest()
        way = self.random.random()
        if way < 0.65:
            return [["EVAL" + readonly, script, *rest]]
        if way < 0.85:
            return [["SCRIPT", "LOAD", script], ["EVALSHA" + readonly, sha, *rest]]
        if way < 0.87:
            again = ["EVALSHA", sha.upper(), *rest]
            return [again, ["EVAL" + readonly, script, *rest], again, ["SCRIPT", "EXISTS", sha]]
        return [["MULTI"], ["SET", "s1", "in a transaction"], ["EVAL" + readonly, script, *rest], ["INCR", "n1"], ["EXEC"]]


class Peer:
    """A connection that sees replies as the bytes that they are."""

    def __init__(self, port, protocol):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self.file = self.socket.makefile("rb", buffering=1 << 16)
        if protocol == 3:
            self.ask([["HELLO", "3"]])

    def send(self, commands):
        out = []
        for command in commands:
            out.append(b"*%d\r\n" % len(command))
            for word in command:
                word = word if isinstance(word, bytes) else word.encode("latin-1")
                out.append(b"$%d\r\n%b\r\n" % (len(word), word))
        self.socket.sendall(b"".join(out))

    def reply(self):
        """The bytes of the next reply."""
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, size = line[:1], line[1:-2]
        if kind in b"$=" and size != b"-1":
            return (line + self.file.read(int(size) + 2)).replace(b"$4\r\n-nan\r\n", b"$3\r\nnan\r\n")
        if kind in b"*~>%" and size != b"-1":
            return line + b"".join(self.reply() for _ in range(int(size) * (2 if kind == b"%" else 1)))
        if line == b",-nan\r\n":
            return b",nan\r\n"
        if kind in b"+-":
            for fault, instead in FAULTS_IN_LINES:
                line = fault.sub(instead, line)
        return line

    def ask(self, commands):
        self.send(commands)
        return [self.reply() for _ in commands]

    def close(self):
        self.file.close()
        self.socket.close()


def elements(reply):
    """The elements of an array of bulk strings."""
    found, at = [], reply.index(b"\r\n") + 2
    while at < len(reply):
        end = reply.index(b"\r\n", at)
        size = int(reply[at + 1:end])
        found.append(reply[end + 2:end + 2 + size])
        at = end + size + 4
    return found


# Commands that read a whole value of a type.
READERS = {b"string": ["GET"], b"list": ["LRANGE", "0", "-1"], b"hash": ["HGETALL"], b"set": ["SMEMBERS"],
           b"zset": ["ZRANGE", "0", "-1", "WITHSCORES"]}


def contents(peer):
    """All databases, as lines of text in an order."""
    lines = []
    for db in DATABASES:
        names = sorted(elements(peer.ask([["SELECT", str(db)], ["KEYS", "*"]])[1]))
        types = [reply[1:-2] for reply in peer.ask([["TYPE", name] for name in names])]
        reads = [[READERS[kind][0], name, *READERS[kind][1:]] for name, kind in zip(names, types)]
        values, times = peer.ask(reads), peer.ask([["PEXPIRETIME", name] for name in names])
        for name, kind, value, time in zip(names, types, values, times):
            if kind == b"set":
                value = sorted(elements(value))
            elif kind == b"hash":
                flat = elements(value)
                value = sorted(zip(flat[::2], flat[1::2]))
            lines.append(f"{db} {name} {kind} {value} {time}")
    peer.ask([["SELECT", "0"]])
    return lines


def ends_at_nul(own, other):
    """Whether a text of an error or of `ok` may end at a NUL in Redis alone: see docs/compatibility.md."""
    def has_nul(reply):
        return b"\x00" in reply or b"\\000" in reply
    return has_nul(own) and not has_nul(other) and len(other) < len(own)


class Pair:
    """The server under test and redis-server, with connections of one protocol and others that compare the data."""

    def __init__(self, ports, protocol):
        self.peers = [Peer(port, protocol) for port in ports]
        self.readers = [Peer(port, 2) for port in ports]

    def ask(self, commands):
        for peer in self.peers:
            peer.send(commands)
        return list(zip(*([peer.reply() for _ in commands] for peer in self.peers)))

    def difference(self, seed):
        """Runs the batch of a seed; a text about the first difference, or nothing."""
        made = Generator(seed)
        commands = [["FLUSHALL"], ["SCRIPT", "FLUSH"], *DATA]
        for _ in range(BATCH):
            commands += made.step()
        try:
            replies = self.ask(commands)
        except OSError as error:
            pytest.fail(f"seed {seed}: {error!r}")
        for at, (own, other) in enumerate(replies):
            if own != other and not ends_at_nul(own, other):
                return report(seed, commands[:at + 1], own, other)
        own, other = (set(contents(reader)) for reader in self.readers)
        if own != other:
            return report(seed, commands, sorted(own - other), sorted(other - own))
        return None

    def close(self):
        for peer in self.peers + self.readers:
            peer.close()


def report(seed, commands, own, other):
    lines = [f"seed {seed}, after {len(commands) - 1} commands", f"  under test:   {own}", f"  redis-server: {other}"]
    lines += ["  the last command:", *commands[-1], "  before it:", *(f"    {command}" for command in commands[-9:-1])]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed: it comes with the Debian package redis-server")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    if " v=7.0." not in version:
        pytest.skip(f"replies are those of redis-server 7.0, and this is another: {version.strip()}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TARN_BINARY", program)
        running = Server(tmp_path_factory.mktemp("redis"))
    yield running
    running.stop()


def test_random_scripts_reply_as_in_redis(server, redis_server, protocol):
    pair = Pair([server.port, redis_server.port], protocol)
    found = []
    for seed in range(FIRST_SEED, FIRST_SEED + max(1, SCRIPTS // 2 // BATCH)):
        difference = pair.difference(seed)
        if difference is not None:
            found.append(difference)
        if len(found) == FAILURES_MAX:
            break
    pair.close()
    if found:
        pytest.fail("\n".join(found), pytrace=False)
