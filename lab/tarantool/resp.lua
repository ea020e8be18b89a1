-- Tarantool as a server of Redis's protocol: the commands that the laboratory sends, over spaces of the
-- engine memtx, whose snapshots are read views.
--
--     tarantool resp.lua PORT DIRECTORY WAL_MODE
--
--     keys      key, kind, content     the value of a string, the fields of a hash, the number of members
--     members   key, member, score     of sorted sets; a second index has the order of the scores
--     saves     1, time                the request for the last snapshot
--
-- A connection has a fiber. A command gives way to other fibers only when its changes are done, so none sees
-- a half of it; `FLUSHALL` has two steps.

local errno = require('errno')
local fiber = require('fiber')
local log = require('log')
local socket = require('socket')

local PORT, DIRECTORY, WAL_MODE = tonumber(arg[1]), arg[2], arg[3]

-- Connections that may wait to be taken.
local WAITING_MAX = 1024
-- Bytes of one read.
local READ_BYTES = 64 * 1024
-- Limits of a request: words, bytes of a word, and bytes of a line, with words or with a number.
local WORDS_MAX = 1024 * 1024
local WORD_BYTES_MAX = 512 * 1024 * 1024
local LINE_BYTES_MAX = 64 * 1024
local NUMBER_BYTES_MAX = 32

-- Errors after which a read is tried again.
local IS_TRANSIENT = {[errno.EAGAIN] = true, [errno.EWOULDBLOCK] = true, [errno.EINTR] = true}

local OK, NONE = '+OK\r\n', '$-1\r\n'
local WRONG_KIND = 'WRONGTYPE Operation against a key holding the wrong kind of value'

-- The memory that the machine has to give. The engine takes it as it needs it, up to this.
local function available_bytes()
    for line in io.lines('/proc/meminfo') do
        local kilobytes = line:match('^MemAvailable:%s+(%d+) kB')
        if kilobytes then
            return tonumber(kilobytes) * 1024
        end
    end
    error('/proc/meminfo has no MemAvailable')
end

box.cfg{
    memtx_dir = DIRECTORY,
    wal_dir = DIRECTORY,
    vinyl_dir = DIRECTORY,
    memtx_memory = available_bytes(),
    wal_mode = WAL_MODE,
    -- Snapshots are taken when they are asked for, and the last one stays.
    checkpoint_interval = 0,
    checkpoint_count = 1,
    -- It would report to its makers.
    feedback_enabled = false,
    log_level = 'warn',
}

-- A space with its indexes, which a snapshot may have brought.
local function space(name, indexes)
    local own = box.schema.space.create(name, {if_not_exists = true})
    for _, index in ipairs(indexes) do
        own:create_index(index.name, {type = index.type, parts = index.parts, if_not_exists = true})
    end
    return own
end

local keys = space('keys', {{name = 'key', type = 'hash', parts = {1, 'string'}}})
local members = space('members', {
    {name = 'member', type = 'tree', parts = {1, 'string', 2, 'string'}},
    {name = 'score', type = 'tree', parts = {1, 'string', 3, 'number', 2, 'string'}},
})
local saves = space('saves', {{name = 'id', type = 'tree', parts = {1, 'unsigned'}}})

local function bulk(text)
    return '$' .. #text .. '\r\n' .. text .. '\r\n'
end

local function integer(number)
    return (':%d\r\n'):format(number)
end

-- The content of a key, nil without one. It is an error if it has another kind.
local function content(key, kind)
    local row = keys:get(key)
    if row == nil then
        return nil
    end
    if row[2] ~= kind then
        error(WRONG_KIND, 0)
    end
    return row[3]
end

-- Removes the members of a key, if it has some, within a transaction. Returns the row of the key.
local function remove_members(key)
    local row = keys:get(key)
    if row ~= nil and row[2] == 'zset' then
        for _, member in ipairs(members:select{key}) do
            members:delete{key, member[2]}
        end
    end
    return row
end

-- Writes a string, in one step also over another kind.
local function set_string(words)
    local key, value = words[2], words[3]
    box.atomic(function()
        remove_members(key)
        keys:replace{key, 'string', value}
    end)
    return OK
end

local function remove_all(words)
    local removed = 0
    box.atomic(function()
        for i = 2, #words do
            if remove_members(words[i]) ~= nil then
                keys:delete(words[i])
                removed = removed + 1
            end
        end
    end)
    return integer(removed)
end

-- Refuses a command whose last words are no pairs.
local function check_pairs(words)
    if #words % 2 ~= 0 then
        error('ERR wrong number of arguments', 0)
    end
end

-- Writes fields of a hash, which is one row. Returns how many are new.
local function set_fields(words)
    check_pairs(words)
    local fields, made = content(words[2], 'hash') or {}, 0
    for i = 3, #words, 2 do
        made = made + (fields[words[i]] == nil and 1 or 0)
        fields[words[i]] = words[i + 1]
    end
    keys:replace{words[2], 'hash', fields}
    return made
end

local function get_fields(words)
    local replies, count = {''}, 0
    for name, value in pairs(content(words[2], 'hash') or {}) do
        replies[#replies + 1] = bulk(name)
        replies[#replies + 1] = bulk(value)
        count = count + 2
    end
    replies[1] = '*' .. count .. '\r\n'
    return table.concat(replies)
end

local function add_members(words)
    check_pairs(words)
    local key, scores, made = words[2], {}, 0
    for i = 3, #words, 2 do
        scores[i] = tonumber(words[i])
        -- Only that which is no number differs from itself.
        if scores[i] == nil or scores[i] ~= scores[i] then
            error('ERR value is not a valid float', 0)
        end
    end
    local count = content(key, 'zset') or 0
    box.atomic(function()
        for i = 3, #words, 2 do
            made = made + (members:get{key, words[i + 1]} == nil and 1 or 0)
            members:replace{key, words[i + 1], scores[i]}
        end
        if made > 0 then
            keys:replace{key, 'zset', count + made}
        end
    end)
    return integer(made)
end

local saving, failed, saved_at = false, false, os.time()

-- Takes a snapshot, which the engine's own thread writes. Returns why it failed, if it did.
local function save()
    saving = true
    local done, why = pcall(function()
        -- Without a change since the last one the engine would write none.
        saves:replace{1, fiber.time()}
        box.snapshot()
    end)
    saving, failed = false, not done
    if done then
        saved_at = os.time()
        return nil
    end
    log.error('the snapshot failed: %s', why)
    return tostring(why)
end

local function check_not_saving()
    if saving then
        error('ERR Background save already in progress', 0)
    end
end

local function info()
    local lines = {
        '# Server',
        'tarantool_version:' .. box.info.version,
        'process_id:' .. box.info.pid,
        '# Memory',
        ('used_memory:%d'):format(tonumber(box.slab.info().arena_used) + collectgarbage('count') * 1024),
        '# Persistence',
        'loading:0',
        'rdb_bgsave_in_progress:' .. (saving and 1 or 0),
        ('rdb_last_save_time:%d'):format(saved_at),
        'rdb_last_bgsave_status:' .. (failed and 'err' or 'ok'),
        'aof_enabled:' .. (WAL_MODE == 'none' and 0 or 1),
        '',
    }
    return bulk(table.concat(lines, '\r\n'))
end

-- By name: the least number of words, the most, and what is done.
local commands = {
    PING = {1, 1, function() return '+PONG\r\n' end},
    ECHO = {2, 2, function(words) return bulk(words[2]) end},
    QUIT = {1, 1, function() return OK end},
    INFO = {1, math.huge, info},
    CONFIG = {2, math.huge, function(words)
        if words[2]:upper() ~= 'GET' then
            error('ERR only CONFIG GET is known, and nothing can be configured', 0)
        end
        return '*0\r\n'
    end},
    SET = {3, 3, set_string},
    GET = {2, 2, function(words)
        local value = content(words[2], 'string')
        return value and bulk(value) or NONE
    end},
    DEL = {2, math.huge, remove_all},
    UNLINK = {2, math.huge, remove_all},
    EXISTS = {2, 2, function(words) return integer(keys:get(words[2]) and 1 or 0) end},
    HSET = {4, math.huge, function(words) return integer(set_fields(words)) end},
    HMSET = {4, math.huge, function(words)
        set_fields(words)
        return OK
    end},
    HGET = {3, 3, function(words)
        local value = (content(words[2], 'hash') or {})[words[3]]
        return value and bulk(value) or NONE
    end},
    HGETALL = {2, 2, get_fields},
    ZADD = {4, math.huge, add_members},
    ZCARD = {2, 2, function(words) return integer(content(words[2], 'zset') or 0) end},
    ZSCORE = {3, 3, function(words)
        local row = content(words[2], 'zset') and members:get{words[2], words[3]}
        return row and bulk(('%.17g'):format(row[3])) or NONE
    end},
    DBSIZE = {1, 1, function() return integer(keys:len()) end},
    FLUSHALL = {1, 1, function()
        keys:truncate()
        members:truncate()
        return OK
    end},
    SAVE = {1, 1, function()
        check_not_saving()
        local why = save()
        if why then
            error('ERR ' .. why, 0)
        end
        return OK
    end},
    BGSAVE = {1, 1, function()
        check_not_saving()
        fiber.create(save)
        return '+Background saving started\r\n'
    end},
    LASTSAVE = {1, 1, function() return integer(saved_at) end},
    SHUTDOWN = {1, math.huge, function() os.exit(0) end},
}

local function failure(why)
    why = tostring(why):gsub('%c', ' ')
    return '-' .. (why:match('^%u+ ') and '' or 'ERR ') .. why .. '\r\n'
end

local function answer(words)
    local name = words[1]:upper()
    local command = commands[name]
    if command == nil then
        return failure("ERR unknown command '" .. name:sub(1, 128) .. "'")
    end
    local least, most, run = unpack(command)
    if #words < least or #words > most then
        return failure("ERR wrong number of arguments for '" .. name:lower() .. "' command")
    end
    local done, reply = pcall(run, words)
    return done and reply or failure(reply)
end

-- The number in the line at a place, such as `*3`, and the place behind the line; nil until it is whole.
local function number_at(bytes, from, pattern, most)
    local line_end = bytes:find('\r\n', from, true)
    if not line_end then
        if #bytes - from > NUMBER_BYTES_MAX then
            error('invalid length', 0)
        end
        return nil
    end
    local number = tonumber(bytes:sub(from, line_end - 1):match(pattern) or -1)
    if number < 0 or number > most then
        error('invalid length', 0)
    end
    return number, line_end + 2
end

-- The words of the request at a place, and the place behind it. If it is not whole, nil, and the number of
-- bytes that there must be at least until it can be.
local function parse(bytes, from)
    if bytes:sub(from, from) ~= '*' then
        -- Words in a line, as a person types them.
        local line_end = bytes:find('\r\n', from, true)
        if (line_end or #bytes) - from > LINE_BYTES_MAX then
            error('too big inline request', 0)
        end
        if not line_end then
            return nil, #bytes + 1
        end
        local words = {}
        for word in bytes:sub(from, line_end - 1):gmatch('%S+') do
            words[#words + 1] = word
        end
        return words, line_end + 2
    end
    local count, at = number_at(bytes, from, '^%*(%d+)$', WORDS_MAX)
    if not count then
        return nil, #bytes + 1
    end
    local words = {}
    for i = 1, count do
        local length, start = number_at(bytes, at, '^%$(%d+)$', WORD_BYTES_MAX)
        if not length then
            return nil, #bytes + 1
        end
        if #bytes < start + length + 1 then
            return nil, start + length + 1
        end
        if bytes:sub(start + length, start + length + 1) ~= '\r\n' then
            error('a word does not end where it should', 0)
        end
        words[i], at = bytes:sub(start, start + length - 1), start + length + 2
    end
    return words, at
end

-- Answers all requests that are whole. Returns the replies, the rest, the number of bytes that the rest needs
-- at least, and whether the connection ends.
local function answer_all(bytes)
    local replies, from, ends = {}, 1, false
    while from <= #bytes and not ends do
        local fine, words, after = pcall(parse, bytes, from)
        if not fine then
            replies[#replies + 1] = failure('ERR Protocol error: ' .. words)
            ends = true
        elseif words == nil then
            return replies, bytes:sub(from), after - from + 1, false
        else
            from = after
            if #words > 0 then
                replies[#replies + 1] = answer(words)
                ends = words[1]:upper() == 'QUIT'
            end
        end
    end
    return replies, bytes:sub(from), 1, ends
end

-- The life of a connection.
local function serve(client)
    client:setsockopt('tcp', 'TCP_NODELAY', true)
    -- What was read and not answered, in pieces, its bytes, and how many there must be until it is looked at.
    local pieces, have, need = {}, 0, 1
    -- To wait here, also where there is something to read, lets the other connections have their turn.
    while client:readable() do
        local piece = client:sysread(READ_BYTES)
        if piece == '' or not piece and not IS_TRANSIENT[client:errno()] then
            return
        end
        -- Without a piece it was woken for nothing.
        pieces[#pieces + 1] = piece
        have = have + #(piece or '')
        if have >= need then
            local replies, rest, missing, ends = answer_all(table.concat(pieces))
            pieces, have, need = {rest}, #rest, missing
            if #replies > 0 and not client:write(table.concat(replies)) or ends then
                return
            end
        end
    end
end

local function serve_and_close(client)
    local fine, why = pcall(serve, client)
    client:close()
    if not fine then
        log.error('a connection ended: %s', why)
    end
end

-- Takes all connections that wait. `socket.tcp_server` takes one in a round of the event loop, so the last of
-- hundreds would wait for hundreds of rounds, in each of which all the others have an answer.
local function accept(listener)
    while listener:readable() do
        repeat
            local client = listener:accept()
            if client then
                fiber.create(serve_and_close, client)
            end
        until not client
    end
end

local listener = socket('AF_INET', 'SOCK_STREAM', 'tcp')
listener:setsockopt('socket', 'SO_REUSEADDR', true)
if not (listener:bind('127.0.0.1', PORT) and listener:listen(WAITING_MAX)) then
    error('cannot listen at port ' .. PORT .. ': ' .. listener:error())
end
fiber.create(accept, listener)
