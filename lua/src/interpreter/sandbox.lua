-- Closes the globals for scripts. Runs once, before any script, with what scripts must not have. `registry` is
-- what libraries of functions find as `redis` while they are loaded; scripts have none.
local server, libraries, tools, setreadonly, registry = ...

local error, tostring, collectgarbage = error, tostring, collectgarbage
local xpcall, describe = tools.xpcall, tools.describe

local allowed = {}
for name in ([[_G _VERSION assert bit cjson cmsgpack collectgarbage coroutine error gcinfo getmetatable ipairs load
    loadstring math next os pairs pcall rawequal rawget rawset redis select server setmetatable string struct table
    tonumber tostring type unpack xpcall]]):gmatch("%S+") do
    allowed[name] = true
end
for name in pairs(_G) do
    if not allowed[name] then _G[name] = nil end
end

_G.redis, _G.server = server, server
for name, library in pairs(libraries) do _G[name] = library end
os = { clock = tools.clock }
math.random, math.randomseed = tools.random, tools.randomseed

local measures = { collect = true, count = true, step = true }
function _G.collectgarbage(option, ...)
    if option == nil or measures[option] then return collectgarbage(option, ...) end
    return 0
end

local absent = { __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end }
setmetatable(_G, absent)
for _, part in ipairs({ redis, bit, cjson, cmsgpack, coroutine, math, os, string, struct, table }) do
    setreadonly(part, true)
end
setreadonly(getmetatable(""), true)
setreadonly(absent, true)
if not registry then
    setreadonly(_G, true)
    return function(f) return xpcall(f, describe) end
end

_G.os = nil
setreadonly(_G, true)
local loading = setmetatable({ redis = registry, server = registry }, absent)
setmetatable(registry, absent)
setreadonly(registry, true)
setreadonly(loading, true)

-- Calls a function with keys and arguments; makes the globals of a library, with what gives it all of them.
local function call(f, keys, args) return xpcall(function() return f(keys, args) end, describe) end
local function environment()
    local meta = { __index = loading }
    local globals = setmetatable({}, meta)
    setreadonly(globals, true)
    return globals, function() meta.__index = _G end
end
return call, environment
